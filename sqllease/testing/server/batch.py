"""Runs texts: statement after statement, control of flow, TRY, calls and triggers, and what an error does.

Knows which errors end a statement, a scope or a batch, and which reach a CATCH. What a statement does is known by the
rooms that it compiles to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from . import syntax
from .changes import Trigger
from .compiling import compile_statement, plan_for, prepare
from .contexts import Context, Plan, Pseudo
from .errortexts import sql_error
from .expressions import bind, coerce
from .scopes import Binder, Frame, Row, Scope
from .sqltypes import MAX, Sink, SqlError, Value, nvarchar
from .storage import Table

if TYPE_CHECKING:
    from .session import Session

NESTING_LIMIT = 32
FAILED = object()
"""What a condition gives that could not be evaluated: neither branch is taken."""
ENDS_TRANSACTION = frozenset({1205, 3960})
"""The transaction is rolled back at once, caught or not."""
ENDS_BATCH = ENDS_TRANSACTION | {217, 241, 242, 244, 245, 248, 293, 295, 3609, 8114, 8169}
"""Run-time errors that end the batch and roll back, also without XACT_ABORT; most are failed conversions."""

_ARITHMETIC = frozenset({220, 232, 8115, 8134})
"""Overflow and division by zero: as ARITHABORT is ON, they end the batch and roll back where ANSI_WARNINGS is OFF."""


class Abort(Exception):
    """The batch is over; its error has been sent."""


class ScopeEnd(Exception):
    """This text (batch, sp_executesql) is over; the one that called it goes on. Its error has been sent."""


class Raised(Exception):
    """An error on its way up to a CATCH. compiled_in: the context whose own TRY does not catch it."""

    def __init__(self, error: SqlError, compiled_in: Context | None) -> None:
        super().__init__(str(error))
        self.error = error
        self.compiled_in = compiled_in


def run_batch(session: Session, text: str, sink: Sink) -> None:
    with suppress(ScopeEnd):
        execute(Context(session, plan_for(session, text), sink))


def execute(context: Context) -> None:
    """Runs the whole text."""
    session, outer = context.session, context.session.context
    session.context = context
    try:
        _run_all(context.plan.statements, context)
    finally:
        session.context = outer


def _run_all(statements: Sequence[syntax.Statement], context: Context) -> str | None:
    for node in statements:
        if (signal := _run(node, context)) is not None:
            return signal
    return None


def _run(node: syntax.Statement, context: Context) -> str | None:
    """Runs one statement. The answer is 'break', 'continue' or 'return' where the flow leaves the line."""
    match node:
        case syntax.Block():
            return _run_all(node.body, context)
        case syntax.If():
            chosen = _leaf(node, context)
            if chosen is True:
                return _run(node.then, context)
            if node.otherwise is None or chosen is FAILED:
                return None
            return _run(node.otherwise, context)
        case syntax.While():
            while _leaf(node, context) is True:
                context.session.breathe()
                signal = _run(node.body, context)
                if signal == "break":
                    break
                if signal == "return":
                    return signal
            return None
        case syntax.TryCatch():
            return _try(node, context)
        case syntax.Break():
            return "break"
        case syntax.Continue():
            return "continue"
        case syntax.Return():
            _leaf(node, context)
            return "return"
        case syntax.Execute() | syntax.ExecuteText():
            _call(node, context)
            return None
        case _:
            _leaf(node, context)
            return None


def _try(node: syntax.TryCatch, context: Context) -> str | None:
    session = context.session
    depth = len(session.tries)
    session.tries.append(context)
    try:
        return _run_all(node.body, context)
    except Raised as raised:
        if raised.compiled_in is context:
            raise
        caught = raised.error
    finally:
        del session.tries[depth:]
    session.caught.append(caught)
    session.error, session.rowcount = caught.number, 0
    try:
        return _run_all(node.handler, context)
    finally:
        session.caught.pop()


def _leaf(node: syntax.Statement, context: Context) -> Any:
    """One statement, or the condition of one, with its own share of a transaction."""
    session = context.session
    tx = session.tx
    mark = tx.mark() if tx is not None else 0
    compiled = None
    try:
        compiled = compile_statement(node, context)
        session.check_rights(compiled.rights)
        if compiled.starts_transaction:
            session.start_implicitly()
        result = compiled.run(Frame(context, compiled.slots))
        session.end_statement()
    except SqlError as error:
        session.undo_statement(tx, mark)
        _failed(error, node, context, context if compiled is None else None)
        return FAILED
    except BaseException:
        session.undo_statement(tx, mark)
        raise
    session.error = 0
    return result


def _failed(error: SqlError, node: syntax.Statement, context: Context, compiled_in: Context | None = None) -> None:
    """What an error does to the transaction and to the batch. Returns where the next statement goes on."""
    session, sink = context.session, context.sink
    if not (isinstance(node, syntax.Throw) and node.number is None):  # an error thrown again keeps its place
        error.line = node.line
        error.procedure = context.procedure
    session.raised.append(error.number)
    session.error, session.rowcount = error.number, 0
    if error.number in ENDS_TRANSACTION:
        session.lose_transaction()
    fatal = error.number in ENDS_BATCH or (session.options.xact_abort and not isinstance(node, syntax.RaiseError))
    fatal = fatal or (error.number in _ARITHMETIC and not session.options.ansi_warnings)
    if any(place is not compiled_in for place in session.tries):
        if fatal and session.tx is not None:
            session.tx.doomed = True
        raise Raised(error, compiled_in)
    if fatal:
        session.rollback_all(sink)
    sink.error(error)
    if fatal or isinstance(node, syntax.Throw):
        raise Abort
    if compiled_in is not None:
        raise ScopeEnd
    if isinstance(node, (syntax.Insert, syntax.Update, syntax.Delete, syntax.Merge)):
        sink.info(3621, "The statement has been terminated.", line=node.line)


def _call(node: syntax.Execute | syntax.ExecuteText, context: Context) -> None:
    """EXEC: the statements inside count for themselves, so this one has no transaction of its own."""
    session = context.session
    try:
        if isinstance(node, syntax.ExecuteText):
            binder = Binder(session, context)
            text = coerce(bind(node.text, Scope(binder)), nvarchar(MAX)).evaluate(Frame(context, binder.slots))
            inner = run_text(session, text if isinstance(text, str) else "", context.sink)
            if inner.mismatch is not None:
                raise inner.mismatch
        else:
            session.call(node, context)
    except SqlError as error:
        _failed(error, node, context)


def run_text(
    session: Session, text: str, sink: Sink, declarations: str = "", values: Mapping[str, Value] | None = None
) -> Context:
    """A text in a scope of its own, as EXEC ('...') and sp_executesql run it: SET options end with it.

    266 where it leaves another number of transactions than it found; not under XACT_ABORT or IMPLICIT_TRANSACTIONS.
    """
    if session.nesting >= NESTING_LIMIT:
        raise sql_error(217)
    options, began = session.options.copy(), session.trancount
    session.nesting += 1
    try:
        context = Context(session, plan_for(session, text, declarations), sink)
        context.variables.update(values or {})
        with suppress(ScopeEnd):
            execute(context)
        quiet = session.options.xact_abort or session.options.implicit
    finally:
        session.nesting -= 1
        session.restore(options)
    if session.trancount != began and not quiet:
        context.mismatch = sql_error(266, began, session.trancount)
    return context


def fire(
    session: Session, trigger: Trigger, table: Table, inserted: list[Row], deleted: list[Row], count: int, outer: Any
) -> None:
    """An AFTER or INSTEAD OF trigger, inside the statement that fired it, with XACT_ABORT ON."""
    if any(active is trigger for active in session.triggers):
        return  # RECURSIVE_TRIGGERS is off
    if session.nesting >= NESTING_LIMIT:
        raise sql_error(217)
    pseudo = Pseudo(table, inserted, deleted)
    options = session.options.copy()
    session.nesting += 1
    session.triggers.append(trigger)
    session.rowcount = count
    autocommit = session.enter_trigger()
    tx = session.tx
    try:
        session.options.xact_abort = True
        if trigger.plan is None:
            plan = Plan(trigger.statement.body)
            prepare(session, plan, pseudo)
            trigger.plan = plan
        try:
            execute(Context(session, trigger.plan, outer.sink, pseudo, trigger.name))
        except ScopeEnd:
            raise Abort from None
        if session.tx is not tx:
            raise sql_error(3609)
    finally:
        session.leave_trigger(autocommit, tx)
        session.triggers.pop()
        session.nesting -= 1
        session.restore(options)
