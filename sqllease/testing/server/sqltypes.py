"""The vocabulary that every room of the server shares: types, values, errors, counters. No behaviour beyond that.

Python values by SQL type: int for the integer types and bit (0 or 1); str for character types; bytes for binary
types and rowversion (8 bytes, big-endian); Decimal; float; uuid.UUID; ``Moment`` for every date and time type.
NULL is None.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol

MAX = -1
"""Length of the (max) types."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A T-SQL type. ``name`` is lower case and canonical (rowversion, never timestamp; decimal, never numeric or dec).

    length: UTF-16 units of n(var)char, bytes of (var)char and (var)binary, MAX for (max), else 0.
    """

    name: str
    length: int = 0
    precision: int = 0
    scale: int = 0

    def __str__(self) -> str:
        if self.name in ("nvarchar", "varchar", "nchar", "char", "varbinary", "binary"):
            return f"{self.name}({'max' if self.length == MAX else self.length})"
        if self.name == "decimal":
            return f"decimal({self.precision},{self.scale})"
        if self.name in ("datetime2", "datetimeoffset", "time"):
            return f"{self.name}({self.scale})"
        return self.name


BIT = SqlType("bit")
TINYINT = SqlType("tinyint")
SMALLINT = SqlType("smallint")
INT = SqlType("int")
BIGINT = SqlType("bigint")
FLOAT = SqlType("float")
DATE = SqlType("date")
DATETIME = SqlType("datetime")
DATETIMEOFFSET = SqlType("datetimeoffset", scale=7)
DATETIME2 = SqlType("datetime2", scale=7)
TIME = SqlType("time", scale=7)
GUID = SqlType("uniqueidentifier")
ROWVERSION = SqlType("rowversion", length=8)


def nvarchar(length: int = MAX) -> SqlType:
    return SqlType("nvarchar", length)


def varchar(length: int = MAX) -> SqlType:
    return SqlType("varchar", length)


def varbinary(length: int = MAX) -> SqlType:
    return SqlType("varbinary", length)


@dataclass(frozen=True, slots=True, order=True)
class Moment:
    """A point in time: 100 ns ticks since 0001-01-01, UTC for datetimeoffset, and the offset in minutes (not compared).

    date: ticks of midnight. time: ticks since midnight. datetime, datetime2: local ticks, offset 0.
    """

    ticks: int
    offset: int = field(default=0, compare=False)


TICKS_PER_SECOND = 10_000_000
EPOCH_TICKS = 621_355_968_000_000_000
"""1970-01-01T00:00:00 in ticks."""

Value = int | str | bytes | Decimal | float | uuid.UUID | Moment | None


LONGEST_MESSAGE = 2048
"""sys.messages: text is nvarchar(2048). What a statement puts into a message may be far longer."""


class SqlError(Exception):
    """An error as the server sends it. Severity 11 to 16 ends a statement, 20 and more ends the link."""

    def __init__(self, number: int, message: str, *, severity: int = 16, state: int = 1, line: int = 1) -> None:
        if len(message) > LONGEST_MESSAGE:
            message = message[: LONGEST_MESSAGE - 4] + "..."
        super().__init__(message)
        self.number = number
        self.message = message
        self.severity = severity
        self.state = state
        self.line = line
        self.procedure = ""


def unsupported(what: str, *, line: int = 1) -> SqlError:
    """The refusal of anything outside the subset: names the construct, never guesses."""
    message = f"Keyword or statement option '{what}' is not supported in this version of SQL Server."
    return SqlError(40517, message, line=line)


@dataclass(frozen=True, slots=True)
class ResultColumn:
    name: str  # '' where the expression has no name
    type: SqlType
    nullable: bool = True


@dataclass(slots=True)
class Work:
    """What one request made the engine do; the request log shows it."""

    rows_read: int = 0
    rows_written: int = 0
    locks: int = 0
    lock_waits: int = 0


@dataclass(frozen=True, slots=True)
class LoginRequest:
    user: str
    password: str
    database: str = ""
    application: str = ""
    host: str = ""
    read_only: bool = False  # ApplicationIntent=ReadOnly


PROC_IDS = {
    1: "sp_cursor", 2: "sp_cursoropen", 3: "sp_cursorprepare", 4: "sp_cursorexecute", 5: "sp_cursorprepexec",
    6: "sp_cursorunprepare", 7: "sp_cursorfetch", 8: "sp_cursoroption", 9: "sp_cursorclose", 10: "sp_executesql",
    11: "sp_prepare", 12: "sp_execute", 13: "sp_prepexec", 14: "sp_prepexecrpc", 15: "sp_unprepare",
}  # fmt: skip
"""The procedures that drivers call by number (MS-TDS 2.2.6.6), not all of which this server has."""


@dataclass(frozen=True, slots=True)
class RpcParameter:
    name: str  # '' when positional; else with its @
    type: SqlType
    value: Value
    output: bool = False


class Sink(Protocol):
    """Where the results of a request go, in order. The engine calls it; the wire encodes it."""

    def columns(self, columns: Sequence[ResultColumn]) -> None: ...

    def row(self, values: Sequence[Value]) -> None: ...

    def done(self, count: int | None, *, is_select: bool = False) -> None:
        """A statement has ended; count is None under SET NOCOUNT ON or where it has none."""

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        """PRINT, or an error of severity 10 and less."""

    def error(self, error: SqlError) -> None: ...

    def database(self, new: str, old: str) -> None: ...

    def transaction_begun(self, descriptor: int) -> None: ...

    def transaction_ended(self, descriptor: int, *, committed: bool) -> None: ...

    def return_status(self, status: int) -> None: ...

    def return_value(self, name: str, sql_type: SqlType, value: Value) -> None: ...
