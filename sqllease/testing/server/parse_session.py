"""DECLARE, SET, EXEC and transactions. Knows what a batch says to its session; knows no rows and no control of flow."""

from __future__ import annotations

from itertools import pairwise

from . import parse_definitions as definitions
from . import syntax as s
from .lexer import words
from .parse_expressions import constant, expression
from .parse_queries import ASSIGNMENTS
from .parse_reader import Reader
from .parse_types import data_type
from .sqltypes import nvarchar

_ON_OFF_OPTIONS = words(
    """NOCOUNT XACT_ABORT IMPLICIT_TRANSACTIONS ANSI_NULLS ANSI_PADDING ANSI_WARNINGS ANSI_DEFAULTS ANSI_NULL_DFLT_ON
    ANSI_NULL_DFLT_OFF ARITHABORT ARITHIGNORE CONCAT_NULL_YIELDS_NULL CURSOR_CLOSE_ON_COMMIT NUMERIC_ROUNDABORT
    QUOTED_IDENTIFIER REMOTE_PROC_TRANSACTIONS FMTONLY NOEXEC PARSEONLY FORCEPLAN NO_BROWSETABLE SHOWPLAN_ALL
    SHOWPLAN_TEXT SHOWPLAN_XML"""
)
_VALUE_OPTIONS = words(
    """LOCK_TIMEOUT DEADLOCK_PRIORITY ROWCOUNT TEXTSIZE DATEFIRST DATEFORMAT LANGUAGE CONTEXT_INFO
    QUERY_GOVERNOR_COST_LIMIT"""
)
_ISOLATION_LEVELS = ("READ COMMITTED", "READ UNCOMMITTED", "REPEATABLE READ", "SNAPSHOT", "SERIALIZABLE")


# --- variables and options ---


def declare(r: Reader, line: int) -> s.Statement:
    if r.peek().key == "CURSOR":
        raise r.refuse("CURSOR")
    return s.Declare(r.list_of(_declared), line=line)


def _declared(r: Reader) -> s.DeclareVariable | s.DeclareTable:
    name = r.variable()
    r.accept("AS")
    if not r.accept("TABLE"):
        return s.DeclareVariable(name, data_type(r), r.after("=", expression))
    body = definitions.table_body(r)
    if body.indexes:
        raise r.refuse("INDEX in a table variable")
    return s.DeclareTable(name, tuple(body.columns), tuple(body.constraints))


def set_statement(r: Reader, line: int) -> s.Statement:
    if r.token.kind == "variable":
        name = r.variable()
        if r.at("."):
            raise r.refuse("method call")
        return s.SetVariable(name, r.one_of(*ASSIGNMENTS), expression(r), line=line)
    if r.accept("TRANSACTION", "ISOLATION", "LEVEL"):
        for level in _ISOLATION_LEVELS:
            if r.accept(*level.split()):
                return s.SetOption("TRANSACTION ISOLATION LEVEL", level, line=line)
        raise r.wrong()
    if r.accept("IDENTITY_INSERT"):
        table = r.object_name()
        return s.SetOption("IDENTITY_INSERT", r.one_of("ON", "OFF"), table, line=line)
    r.refuse_at("STATISTICS", "OFFSETS")
    if r.key in _VALUE_OPTIONS:
        name = r.take().key
        return s.SetOption(name, r.name().upper() if r.at_name() else constant(r), line=line)
    names = r.list_of(_on_off_option)
    value = r.one_of("ON", "OFF")
    if "QUOTED_IDENTIFIER" in names and value == "OFF":
        raise r.refuse("SET QUOTED_IDENTIFIER OFF")
    options = tuple(s.SetOption(name, value, line=line) for name in names)
    return options[0] if len(options) == 1 else s.Block(options, line=line)


def _on_off_option(r: Reader) -> str:
    if r.token.kind != "word":
        raise r.wrong()
    if r.key not in _ON_OFF_OPTIONS:
        raise r.error(195, f"'{r.token.text}' is not a recognized SET option.")
    return r.take().key


# --- procedures ---


def execute(r: Reader, line: int) -> s.Statement:
    if r.at("("):
        text = r.parenthesised(expression)
        r.refuse_at("AS", "AT")
        return s.ExecuteText(text, line=line)
    if r.at("AS"):
        raise r.refuse("EXECUTE AS")
    result = None
    if r.token.kind == "variable":
        result = r.variable()
        if not r.accept("="):
            raise r.refuse("EXEC @procedure")
    return call(r, result, line)


def call(r: Reader, result: str | None, line: int) -> s.Execute:
    procedure = r.object_name()
    constants = ("variable", "string", "nstring", "number", "binary", "word", "quoted")
    args: tuple[s.Argument, ...] = ()
    if r.token.kind in constants or r.at_one("-", "+", "NULL", "DEFAULT"):
        args = r.list_of(_argument)
    for number, (before, arg) in enumerate(pairwise(args), 2):
        if before.name and not arg.name:
            text = f"Must pass parameter number {number} and subsequent parameters as '@name = value'."
            raise r.error(119, text)
    r.accept("WITH", "RECOMPILE")
    r.refuse_at("WITH RESULT SETS")
    return s.Execute(procedure, args, result, line=line)


def _argument(r: Reader) -> s.Argument:
    name = None
    if r.token.kind == "variable" and r.peek().key == "=":
        name = r.variable()
        r.expect("=")
    if r.accept("DEFAULT"):
        return s.Argument(name, None)
    if r.at_name():  # a bare word is a string
        text = r.name()
        value: s.Expr = s.Literal(text, nvarchar(len(text)))
    else:
        value = constant(r)
    output = r.accept_one("OUTPUT", "OUT") is not None
    if output and not isinstance(value, s.Variable):
        raise r.error(179, "Cannot use the OUTPUT option when passing a constant to a stored procedure.")
    return s.Argument(name, value, output)


# --- transactions ---


def transaction_name(r: Reader) -> str | None:
    return r.take().text if r.at_name() or r.token.kind == "variable" else None


def commit(r: Reader, line: int) -> s.Statement:
    if r.accept_one("TRAN", "TRANSACTION"):
        transaction_name(r)  # the engine ignores it: docs/t-sql/language-elements/commit-transaction-transact-sql.md
    else:
        r.accept("WORK")
    if r.accept("WITH", "(", "DELAYED_DURABILITY", "="):
        r.refuse_at("ON")
        r.expect("OFF", ")")
    return s.Commit(line=line)


def rollback(r: Reader, line: int) -> s.Statement:
    if r.accept_one("TRAN", "TRANSACTION"):
        return s.Rollback(transaction_name(r), line=line)
    r.accept("WORK")
    return s.Rollback(line=line)


def save(r: Reader, line: int) -> s.Statement:
    r.one_of("TRAN", "TRANSACTION")
    name = transaction_name(r)
    if name is None:
        raise r.wrong()
    return s.SaveTransaction(name, line=line)
