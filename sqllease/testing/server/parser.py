"""T-SQL text -> statements. Knows batches and control of flow; hands on the rest.

T-SQL needs no semicolons, so each statement ends where its own grammar ends. As in the original, THROW is no reserved
word: it is a statement only where the one before has visibly ended (elsewhere an alias, an argument, a transaction's
name, or error 102), and WITH begins common tables only there (else 319). What the tree has no node for is refused by
name (40517); nothing is dropped in silence.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from . import parse_definitions as definitions
from . import parse_queries as queries
from . import parse_session as session
from . import syntax as s
from .errortexts import sql_error
from .lexer import words
from .parse_expressions import condition, constant, expression
from .parse_reader import Reader
from .parse_rows import rows_statement
from .parse_types import data_type
from .sqltypes import SqlError

_CACHED_TEXTS = 512

_REFUSED = words(
    """GOTO OPEN FETCH CLOSE DEALLOCATE DBCC BACKUP RESTORE BULK KILL CHECKPOINT RECONFIGURE REVERT SETUSER SHUTDOWN
    READTEXT WRITETEXT UPDATETEXT LINENO LOAD DUMP DISK"""
)


@dataclass(frozen=True, slots=True)
class Scope:
    """What surrounds a statement."""

    loop: bool = False
    catch: bool = False
    nested: bool = False


@lru_cache(maxsize=_CACHED_TEXTS)
def parse_batch(text: str) -> tuple[s.Statement, ...]:
    """All statements of a batch. Raises SqlError: 102 and its kin (severity 15) or the refusal, with the line."""
    r = Reader(text, queries.subquery)
    try:
        return _statements(r, Scope(), lambda: r.finished)
    except RecursionError:
        raise sql_error(191) from None


@lru_cache(maxsize=_CACHED_TEXTS)
def parse_declarations(text: str) -> tuple[s.ParameterDef, ...]:
    """The parameters that sp_executesql and its kin declare as text, as in ``@P1 nvarchar(6), @P2 int OUTPUT``."""
    r = Reader(text, queries.subquery)
    parameters = () if r.finished else r.list_of(_parameter)
    if not r.finished:
        raise r.wrong()
    return parameters


def _parameter(r: Reader) -> s.ParameterDef:
    name = r.variable()
    r.accept("AS")
    declared, default = data_type(r, large=True), r.after("=", constant)
    output = r.accept_one("OUTPUT", "OUT") is not None
    r.refuse_at("READONLY")
    return s.ParameterDef(name, declared, default, output)


# --- statements ---


def _statements(r: Reader, scope: Scope, at_end: Callable[[], bool]) -> tuple[s.Statement, ...]:
    body: list[s.Statement] = []
    ended = True
    while True:
        while r.accept(";"):
            ended = True
        if at_end():
            return tuple(body)
        body.append(_statement(r, scope, ended=ended))
        ended = False


def _statement(r: Reader, scope: Scope, *, ended: bool = True) -> s.Statement:
    """ended: whether the one before has visibly ended: by a semicolon, or because no statement can go on here."""
    key, line = r.key, r.line
    if key in ("SELECT", "INSERT", "UPDATE", "DELETE", "MERGE", "(", "WITH"):
        if key == "WITH" and not ended:
            raise queries.with_is_wrong(r)
        return rows_statement(r)
    if key in _PARSERS and (key != "THROW" or ended):
        r.take()
        return _PARSERS[key](r, scope, line)
    if key in ("ENABLE", "DISABLE") and r.peek().key == "TRIGGER":
        raise r.refuse(f"{key} TRIGGER")  # ALTER TABLE says the same
    if key in _REFUSED:
        raise r.refuse()
    if r.at_name() and r.peek().key == ":":
        raise r.refuse("label")
    if r.at_name() and r.position == 0:  # the first statement of a batch may call a procedure without EXEC
        return session.call(r, None, line)
    raise r.wrong()


def _begin(r: Reader, scope: Scope, line: int) -> s.Statement:
    if r.accept_one("TRAN", "TRANSACTION"):
        name = session.transaction_name(r)
        r.refuse_at("WITH MARK")
        return s.BeginTransaction(name, line=line)
    r.refuse_at("DISTRIBUTED", "DIALOG", "CONVERSATION", "ATOMIC")
    inner = replace(scope, nested=True)
    if r.accept("TRY"):
        body = _statements(r, inner, lambda: r.at("END"))
        r.expect("END", "TRY", "BEGIN", "CATCH")
        handler = _statements(r, replace(inner, catch=True), lambda: r.at("END"))
        r.expect("END", "CATCH")
        return s.TryCatch(body, handler, line=line)
    body = _statements(r, inner, lambda: r.at("END"))
    if not body:
        raise r.wrong()
    r.expect("END")
    return s.Block(body, line=line)


def _if(r: Reader, scope: Scope, line: int) -> s.Statement:
    inner = replace(scope, nested=True)
    test, then, otherwise = condition(r), _statement(r, inner), None
    if r.accept(";", "ELSE") or r.accept("ELSE"):
        otherwise = _statement(r, inner)
    return s.If(test, then, otherwise, line=line)


def _while(r: Reader, scope: Scope, line: int) -> s.Statement:
    return s.While(condition(r), _statement(r, replace(scope, loop=True, nested=True)), line=line)


def _leave(r: Reader, scope: Scope, line: int, word: str) -> s.Statement:
    if not scope.loop:
        text = f"Cannot use a {word} statement outside the scope of a WHILE statement."
        raise SqlError(135 if word == "BREAK" else 136, text, severity=15, line=line)
    return s.Break(line=line) if word == "BREAK" else s.Continue(line=line)


def _return(r: Reader, scope: Scope, line: int) -> s.Statement:
    if r.token.kind in ("number", "variable", "string", "nstring") or r.at_one("(", "-", "+"):
        raise r.error(178, "A RETURN statement with a return value cannot be used in this context.")
    return s.Return(line=line)


def _throw(r: Reader, scope: Scope, line: int) -> s.Statement:
    if r.token.kind in ("number", "variable"):
        args = r.list_of(constant)
        if len(args) != 3:
            raise r.wrong()
        return s.Throw(*args, line=line)
    if not scope.catch:
        text = (
            "To rethrow an error, a THROW statement must be used inside a CATCH block. Insert the THROW statement "
            "inside a CATCH block, or add error parameters to the THROW statement."
        )
        raise SqlError(10704, text, severity=15, line=line)
    return s.Throw(line=line)


def _raise_error(r: Reader, scope: Scope, line: int) -> s.Statement:
    args = r.list_in(constant)
    options = r.after("WITH", lambda r: r.list_of(lambda r: r.one_of("NOWAIT", "LOG", "SETERROR")))
    return s.RaiseError(args, options or (), line=line)


def _wait_for(r: Reader, scope: Scope, line: int) -> s.Statement:
    r.refuse_at("TIME", "(")
    r.expect("DELAY")
    return s.WaitFor(constant(r), line=line)


def _truncate(r: Reader, scope: Scope, line: int) -> s.Statement:
    r.expect("TABLE")
    target = r.object_name()
    r.refuse_at("WITH (")
    return s.Truncate(target, line=line)


def _create(r: Reader, scope: Scope, line: int) -> s.Statement:
    if not r.at_one("SCHEMA", "TRIGGER"):
        return definitions.create(r, line)
    if scope.nested:
        raise r.wrong()
    if r.position != 1:
        raise r.error(111, f"'CREATE {r.key}' must be the first statement in a query batch.")
    return definitions.create_schema(r, line) if r.take().key == "SCHEMA" else _create_trigger(r, line)


def _create_trigger(r: Reader, line: int) -> s.Statement:
    name = r.object_name()
    r.expect("ON")
    r.refuse_at("DATABASE", "ALL SERVER")
    table = r.object_name()
    r.refuse_at("WITH")
    instead_of = r.accept("INSTEAD", "OF")
    if not instead_of:
        r.one_of("FOR", "AFTER")
    events: Any = tuple(event.lower() for event in r.list_of(lambda r: r.one_of("INSERT", "UPDATE", "DELETE")))
    r.refuse_at("NOT FOR REPLICATION", "WITH APPEND")
    r.expect("AS")
    body = _statements(r, Scope(nested=True), lambda: r.finished)
    if not body:
        raise r.wrong()
    return s.CreateTrigger(name, table, instead_of, events, body, line=line)


_PARSERS: dict[str, Callable[[Reader, Scope, int], s.Statement]] = {
    "BEGIN": _begin,
    "IF": _if,
    "WHILE": _while,
    "BREAK": lambda r, scope, line: _leave(r, scope, line, "BREAK"),
    "CONTINUE": lambda r, scope, line: _leave(r, scope, line, "CONTINUE"),
    "RETURN": _return,
    "THROW": _throw,
    "RAISERROR": _raise_error,
    "PRINT": lambda r, _, line: s.Print(expression(r), line=line),
    "WAITFOR": _wait_for,
    "USE": lambda r, _, line: s.Use(r.name(), line=line),
    "TRUNCATE": _truncate,
    "DECLARE": lambda r, _, line: session.declare(r, line),
    "SET": lambda r, _, line: session.set_statement(r, line),
    "EXEC": lambda r, _, line: session.execute(r, line),
    "EXECUTE": lambda r, _, line: session.execute(r, line),
    "COMMIT": lambda r, _, line: session.commit(r, line),
    "ROLLBACK": lambda r, _, line: session.rollback(r, line),
    "SAVE": lambda r, _, line: session.save(r, line),
    "CREATE": _create,
    "ALTER": lambda r, _, line: definitions.alter(r, line),
    "DROP": lambda r, _, line: definitions.drop(r, line),
    "GRANT": lambda r, _, line: definitions.permission(r, "grant", line),
    "DENY": lambda r, _, line: definitions.permission(r, "deny", line),
    "REVOKE": lambda r, _, line: definitions.permission(r, "revoke", line),
}
