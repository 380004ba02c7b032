"""What each statement without parts compiles to: a function that runs it in a frame.

SELECT and the changes are bound by their own rooms; here are variables, SET, PRINT, THROW and the like. Flow and
errors are those of batch.py.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any

from . import ddl, syntax
from .contexts import Run
from .dml import bind_delete, bind_insert, bind_update
from .errortexts import sql_error
from .expressions import bind, bind_predicate, coerce
from .families import shown
from .merge import bind_merge
from .options import set_option
from .query import bind_query
from .scopes import Frame, Scope
from .sqltypes import INT, ResultColumn, SqlError, SqlType, Value, nvarchar, unsupported


def _select(node: syntax.SelectStatement, root: Scope) -> Run:
    scope = root.with_ctes(node.ctes)
    query = bind_query(node.query, scope)
    items = node.query.items if isinstance(node.query, syntax.Select) else ()
    assigns = [isinstance(item, syntax.SelectAssign) for item in items]
    if any(assigns) and not all(assigns):
        raise sql_error(141)
    columns = [ResultColumn(c.name, c.type, c.nullable) for c in query.columns]

    def run(frame: Frame) -> None:
        session, sink, count = frame.session, frame.context.sink, 0
        rows = query.rows(frame)
        if session.options.rowcount:
            rows = islice(rows, session.options.rowcount)
        if assigns and assigns[0]:
            for _ in rows:
                count += 1
        else:
            sink.columns(columns)
            for row in rows:
                sink.row(row)
                count += 1
            sink.done(count, is_select=True)
        session.rowcount = count

    return run


def _change(bind_change: Callable[[Any, Scope], Callable[[Frame], int]]) -> Callable[[Any, Scope], Run]:
    def compile(node: Any, scope: Scope) -> Run:
        change = bind_change(node, scope)
        tells = node.output is not None and node.output.into is None

        def run(frame: Frame) -> None:
            count = frame.session.rowcount = change(frame)
            if not tells:
                frame.context.sink.done(None if frame.session.options.nocount else count)

        return run

    return compile


def _declare(node: syntax.Declare, scope: Scope) -> Run:
    sets = [
        _assign(item.name, item.init, scope)
        for item in node.items
        if isinstance(item, syntax.DeclareVariable) and item.init is not None
    ]

    def run(frame: Frame) -> None:
        for step in sets:
            step(frame)

    return run


def _assign(name: str, expr: syntax.Expr, scope: Scope) -> Run:
    type, _ = scope.variable(name)
    value, key = coerce(bind(expr, scope), type).evaluate, name.lower()

    def run(frame: Frame) -> None:
        frame.variables[key] = value(frame)
        frame.session.rowcount = 1

    return run


def _set_variable(node: syntax.SetVariable, scope: Scope) -> Run:
    expr = node.expr if node.op == "=" else syntax.Binary(node.op[0], syntax.Variable(node.name), node.expr)  # type: ignore[arg-type]
    return _assign(node.name, expr, scope)


def _return(node: syntax.Return, scope: Scope) -> Run:
    value = coerce(bind(node.value, scope), INT).evaluate if node.value is not None else None

    def run(frame: Frame) -> None:
        status = value(frame) if value is not None else 0
        frame.context.status = status if isinstance(status, int) else 0

    return run


def _condition(node: syntax.If | syntax.While, scope: Scope) -> Run:
    test = bind_predicate(node.condition, scope)

    def run(frame: Frame) -> bool | None:
        result = test(frame)
        frame.session.rowcount = 0
        return result

    return run


def _print(node: syntax.Print, scope: Scope) -> Run:
    text = coerce(bind(node.expr, scope), nvarchar(4000)).evaluate

    def run(frame: Frame) -> None:
        frame.context.sink.info(0, str(text(frame) or ""), line=node.line)
        frame.session.rowcount = 0

    return run


def _throw(node: syntax.Throw, scope: Scope) -> Run:
    if node.number is None:

        def again(frame: Frame) -> None:
            if not frame.session.caught:
                raise sql_error(10704)
            old = frame.session.caught[-1]
            error = SqlError(old.number, old.message, severity=old.severity, state=old.state, line=old.line)
            error.procedure = old.procedure
            raise error

        return again
    assert node.message is not None and node.state is not None
    number = coerce(bind(node.number, scope), INT).evaluate
    message = coerce(bind(node.message, scope), nvarchar(2048)).evaluate
    state = coerce(bind(node.state, scope), INT).evaluate

    def run(frame: Frame) -> None:
        value = number(frame)
        if not isinstance(value, int) or value < 50000:
            raise sql_error(35100, value)
        level = state(frame)
        if not isinstance(level, int) or not 0 <= level <= 255:
            raise unsupported("THROW with a state outside 0 to 255")
        raise SqlError(value, str(message(frame) or ""), state=level)

    return run


_CONVERSION = re.compile(
    r"%%|%(?P<flags>[-+ 0]*)(?P<width>[0-9]{0,4})(?P<precision>(?:\.[0-9]{1,4})?)"
    r"(?P<size>(?:I64|l)?)(?P<letter>[diuoxXs])|%[^A-Za-z]{0,20}[A-Za-z]?"
)
_FLAGS = {"s": "-", "d": "-+ 0", "i": "-+ 0"}
_ARGUMENTS = frozenset("tinyint smallint int bigint char varchar nchar nvarchar".split())
_MOST_ARGUMENTS, _LONGEST = 20, 2047


def formatted(text: str, args: Sequence[tuple[SqlType, Value]]) -> str:
    """RAISERROR's message: printf with %s %d %i %u %x %X %o, %I64d for bigint, and %%."""
    rest = iter(enumerate(args, 1))

    def converted(match: re.Match[str]) -> str:
        if match[0] == "%%":
            return "%"
        letter = match["letter"]
        if letter is None or set(match["flags"]) - set(_FLAGS.get(letter, "-0")):
            raise unsupported(f"RAISERROR {match[0]}")
        flags, width, precision = match["flags"], match["width"], match["precision"]
        at, (kind, value) = next(rest, (0, (INT, None)))
        if value is None:
            return f"%{flags.strip('+ 0')}{width}s" % "(null)"
        fits = isinstance(value, str) if letter == "s" else isinstance(value, int)
        if not fits or (kind.name == "bigint" and match["size"] != "I64"):
            raise sql_error(2786, at)
        if isinstance(value, int):
            flags = flags.replace("0", "") if precision else flags
            if letter in "uoxX":
                value %= 2**64 if match["size"] == "I64" else 2**32
        return f"%{flags}{width}{precision}{letter.replace('i', 'd').replace('u', 'd')}" % value

    message = _CONVERSION.sub(converted, text)
    return message if len(message) <= _LONGEST else message[: _LONGEST - 3] + "..."


def _raise_error(node: syntax.RaiseError, scope: Scope) -> Run:
    args = [bind(arg, scope) for arg in node.args]
    if len(args) < 3:
        raise unsupported("RAISERROR with fewer than three arguments")
    if "LOG" in node.options:
        raise unsupported("RAISERROR WITH LOG")
    kinds = [arg.type for arg in args[3:]]

    def run(frame: Frame) -> None:
        first, severity, state, *rest = [arg.evaluate(frame) for arg in args]
        if not isinstance(first, str) or not isinstance(severity, int) or not isinstance(state, int):
            raise unsupported("RAISERROR with a message number")
        if state > 255:
            raise unsupported("RAISERROR with a state above 255")
        if len(rest) > _MOST_ARGUMENTS:
            raise sql_error(2747, _MOST_ARGUMENTS)
        for at, kind in enumerate(kinds, 1):
            if kind.name in ("binary", "varbinary"):
                raise unsupported(f"RAISERROR with a {kind.name} argument")
            if kind.name not in _ARGUMENTS:
                raise sql_error(2748, shown(kind), at)
        text = formatted(first, list(zip(kinds, rest, strict=True)))
        frame.session.rowcount = 0
        if severity > 18:
            raise sql_error(2754)
        state = 1 if state < 0 else state
        if severity <= 10:
            frame.context.sink.info(50000, text, severity=max(severity, 0), state=state, line=node.line)
            return
        raise SqlError(50000, text, severity=severity, state=state)

    return run


def _wait_for(node: syntax.WaitFor, scope: Scope) -> Run:
    text = coerce(bind(node.delay, scope), nvarchar(30)).evaluate

    def run(frame: Frame) -> None:
        frame.session.sleep(str(text(frame) or ""))
        frame.session.rowcount = 0

    return run


def _simple(run_node: Callable[[Any, Frame], Any]) -> Callable[[Any, Scope], Run]:
    """A statement without anything to bind."""

    def compile(node: Any, scope: Scope) -> Run:
        def run(frame: Frame) -> None:
            run_node(node, frame)
            frame.session.rowcount = 0

        return run

    return compile


def _named(run_node: Callable[[Frame, str | None], Any]) -> Callable[[Any, Scope], Run]:
    """A statement with the name of a transaction or a savepoint, which may stand in a variable."""

    def compile(node: Any, scope: Scope) -> Run:
        name = node.name
        value = scope.variable(name)[1] if name is not None and name.startswith("@") else None

        def run(frame: Frame) -> None:
            run_node(frame, name if value is None else str(value(frame)))
            frame.session.rowcount = 0

        return run

    return compile


def _set_option(node: syntax.SetOption, scope: Scope) -> Run:
    value = bind(node.value, scope).evaluate if isinstance(node.value, syntax.Expr) else None

    def run(frame: Frame) -> None:
        set_option(frame.session, node, value(frame) if value is not None else str(node.value))
        frame.session.rowcount = 0

    return run


COMPILERS: dict[type, Callable[[Any, Scope], Run]] = {
    syntax.SelectStatement: _select,
    syntax.Insert: _change(bind_insert),
    syntax.Update: _change(bind_update),
    syntax.Delete: _change(bind_delete),
    syntax.Merge: _change(bind_merge),
    syntax.Declare: _declare,
    syntax.SetVariable: _set_variable,
    syntax.SetOption: _set_option,
    syntax.If: _condition,
    syntax.While: _condition,
    syntax.Return: _return,
    syntax.Print: _print,
    syntax.Throw: _throw,
    syntax.RaiseError: _raise_error,
    syntax.WaitFor: _wait_for,
    syntax.Use: _simple(lambda node, frame: frame.session.use(node.database, frame.context.sink)),
    syntax.BeginTransaction: _named(lambda frame, name: frame.session.begin_transaction(frame.context.sink, name)),
    syntax.Commit: _simple(lambda node, frame: frame.session.commit_transaction(frame.context.sink)),
    syntax.Rollback: _named(lambda frame, name: frame.session.rollback_transaction(frame.context.sink, name)),
    syntax.SaveTransaction: _named(lambda frame, name: frame.session.save_transaction(name or "")),
    **{kind: _simple(ddl.execute) for kind in ddl.STATEMENTS},
}
STARTS_TRANSACTION = frozenset({*ddl.STATEMENTS, syntax.Insert, syntax.Update, syntax.Delete, syntax.Merge}) - {
    syntax.AlterDatabase
}
"""Under IMPLICIT_TRANSACTIONS; a SELECT does too when it reads a table."""
