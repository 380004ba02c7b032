"""What the tests need of T-SQL text: where strings, names and comments begin and end, and all texts the library emits.

The quoting rules are Microsoft's: `]` is doubled inside `[...]`, `"` inside `"..."` and `'` inside `'...'`.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import count
from typing import Any, cast

from sqllease import schema
from sqllease.applocks import AppLocks
from sqllease.connection import Connection
from sqllease.names import TableName
from sqllease.options import LeaseOptions
from sqllease.statements import Statement, Statements
from sqllease.verification import verify_in

ODD_NAMES = {
    "bracket": "a]b",
    "injection": "x]; DROP TABLE t--",
    "quote": "o'hara",
    "quoted already": "[x]",
    "dot": "x.y",
    "emoji": "\U0001f512 lease",
    "longest": "n" * 128,
    "longest, all brackets": "]" * 128,
    "longest, all quotes": "'" * 128,
    "longest, all emoji": "\U0001f512" * 64,
    "reserved word": "order",
    "comment": "a--b/*c",
    "marker": "really?",
    "newline": "a\nDROP TABLE t--",
    "our own placeholder": "$(index)",
}

_PIECE = re.compile(
    r"""
    (?P<comment> --[^\n]* | /\*.*?\*/ )
    | (?P<literal> N?'(?:[^']|'')*' )
    | (?P<name> \[(?:[^\]]|\]\])*\] | "(?:[^"]|"")*" )
    """,
    re.DOTALL | re.VERBOSE,
)


def pieces(text: str) -> list[tuple[str, str]]:
    """The text cut into ('code' | 'comment' | 'literal' | 'name', piece); joined they are the text again."""
    cut = []
    position = 0
    for match in _PIECE.finditer(text):
        if match.start() > position:
            cut.append(("code", text[position : match.start()]))
        cut.append((str(match.lastgroup), match.group()))
        position = match.end()
    if position < len(text):
        cut.append(("code", text[position:]))
    return cut


def code(text: str) -> str:
    """The text without comments."""
    return "".join(piece for kind, piece in pieces(text) if kind != "comment")


def skeleton(text: str) -> list[str]:
    """What is left of the text when no name, literal or comment counts: the words that the server obeys."""
    bare = "".join({"code": piece, "name": " [] ", "literal": " '' "}.get(kind, " ") for kind, piece in pieces(text))
    return bare.split()


def names(text: str) -> list[str]:
    """The quoted names in the text, as the server reads them."""
    return [piece[1:-1].replace("]]", "]") for kind, piece in pieces(text) if kind == "name"]


def literals(text: str) -> list[str]:
    """The string literals in the text, as the server reads them."""
    return [piece.removeprefix("N")[1:-1].replace("''", "'") for kind, piece in pieces(text) if kind == "literal"]


def with_variables(text: str) -> str:
    """The text with ODBC's markers as T-SQL variables, @P1, @P2, ... A `?` in a string, name or comment stays."""
    numbers = count(1)
    return "".join(
        re.sub(r"\?", lambda _: f"@P{next(numbers)}", piece) if kind == "code" else piece
        for kind, piece in pieces(text)
    )


def markers(text: str) -> int:
    """How many parameters the text asks for."""
    return sum(piece.count("?") for kind, piece in pieces(text) if kind == "code")


def statements(
    table: TableName | None = None, options: LeaseOptions | None = None, name: str = "nightly", owner: str = "me"
) -> dict[str, Statement]:
    """Every statement with parameters that the library can emit for one table."""
    made = Statements(table or TableName())
    options = options or LeaseOptions()
    tenure = "2026-11-29T14:00:00.1234567+00:00"
    locks = AppLocks("DRIVER=none", prefix="", principal="public", max_locks=1, login_timeout=None)
    return {
        "acquire": made.acquire(name, owner, None, options, last=None, keep=False, sweep=False),
        "acquire and sweep": made.acquire(name, owner, "about", options, last=tenure, keep=True, sweep=True),
        "renew": made.renew(name, owner, tenure, options),
        "release": made.release(name, owner, tenure, options, rest=False),
        "release to rest": made.release(name, owner, tenure, options, rest=True),
        "fence": made.fence(name, owner, tenure),
        "look": made.look(name),
        "get": made.get(name),
        "list": made.list(),
        "break": made.break_lease(name, owner, 1.5),
        "purge": made.purge(3600.0, 500, 1.5),
        **{f"applock {verb}": locks._statement(verb, name) for verb in ("obtain", "release", "look")},
    }


def scripts(schema_name: str = "lease", table: str = "Leases", role: str = "sqllease_user") -> dict[str, str]:
    """Every text without parameters that the library can emit for one table."""
    return {
        "create": schema.create_script(schema_name, table),
        "grant": schema.grant_script(schema_name, table, role=role),
        "drop": schema.drop_script(schema_name, table),
        "fence script": schema.fence_script(schema_name, table),
        **{f"verify {number}": text for number, text in enumerate(_verify_texts(TableName(schema_name, table)))},
    }


def texts(schema_name: str = "lease", table: str = "Leases") -> dict[str, str]:
    """Every text that the library can send or print for one table."""
    return {
        **{label: statement.text for label, statement in statements(TableName(schema_name, table)).items()},
        **scripts(schema_name, table),
    }


class CatalogueConnection:
    """Stands for an open connection: answers each question of `verify` from a table of rows, by its columns."""

    def __init__(self, answers: dict[str, list[Sequence[Any]]]) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def ask(self, statement: Statement, command_timeout: int) -> list[Sequence[Any]]:
        self.asked.append(statement.text)
        return self.answers[statement.columns[0]]


def as_connection(fake: object) -> Connection:
    """The fake where a Connection is wanted."""
    return cast(Connection, fake)


GOOD_COLUMNS: list[Sequence[Any]] = [
    ("U ", "LeaseName", "nvarchar", 400, 0, 0, "Latin1_General_100_BIN2"),
    ("U ", "OwnerInstanceId", "nvarchar", 256, 0, 0, "Latin1_General_100_BIN2"),
    ("U ", "AcquiredAtUtc", "datetimeoffset", 10, 7, 0, None),
    ("U ", "RenewedAtUtc", "datetimeoffset", 10, 7, 0, None),
    ("U ", "ExpiresAtUtc", "datetimeoffset", 10, 7, 0, None),
    ("U ", "Metadata", "nvarchar", 2048, 0, 1, "SQL_Latin1_General_CP1_CI_AS"),
    ("U ", "RowVersion", "timestamp", 8, 0, 0, None),
]
"""sys.columns of the table that create.sql makes: nvarchar counts bytes there, and rowversion is called timestamp."""
GOOD_INDEXES: list[Sequence[Any]] = [
    ("PK_Leases", 1, 0, 0, 1, "LeaseName"),
    ("IX_Leases_ExpiresAtUtc", 0, 0, 0, 1, "ExpiresAtUtc"),
]
GOOD_DATABASE: Sequence[Any] = ("READ_WRITE", 0, 1, 1, 1, 1, 1, "DISABLE", "1")


def catalogue(
    columns: list[Sequence[Any]] = GOOD_COLUMNS,
    indexes: list[Sequence[Any]] = GOOD_INDEXES,
    triggers: Sequence[Sequence[Any]] = (),
    database: Sequence[Any] = GOOD_DATABASE,
) -> CatalogueConnection:
    """A connection to a database in which the lease table looks like this."""
    return CatalogueConnection(
        {"ObjectType": columns, "IndexName": indexes, "TriggerName": list(triggers), "Updateability": [database]}
    )


def _verify_texts(table: TableName) -> list[str]:
    connection = catalogue()
    verify_in(as_connection(connection), table)
    return connection.asked
