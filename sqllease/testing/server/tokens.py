"""The answer to one client message: a Sink that turns what the engine says into tokens (MS-TDS 2.2.7).

Keeps the order that clients rely on: every DONE but the last says that more follows, and the status and output values
of a procedure come just before its DONEPROC. Knows no packets and no sockets.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from .encoding import COLLATION, encode, type_info
from .sqltypes import ResultColumn, SqlError, SqlType, Value
from .wire import b_varchar, us_varchar

DONE, DONE_PROC, DONE_IN_PROC = 0xFD, 0xFE, 0xFF
MORE, ERROR, COUNT, ATTENTION, RPC_IN_BATCH = 0x01, 0x02, 0x10, 0x20, 0x80
SELECT = 0xC1
SERVER_NAME = "LocalSqlServer"
_NULLABLE, _MAYBE_UPDATABLE = 0x01, 0x08
_ROWVERSION_USER_TYPE = 80


def done(status: int, *, token: int = DONE, command: int = 0, count: int = 0) -> bytes:
    return struct.pack("<BHHQ", token, status, command, count)


def message(token: int, number: int, text: str, severity: int, state: int, procedure: str, line: int) -> bytes:
    """ERROR (0xAA) or INFO (0xAB)."""
    body = struct.pack("<iBB", number, state, severity) + us_varchar(text)
    body += b_varchar(SERVER_NAME) + b_varchar(procedure) + struct.pack("<I", line)
    return struct.pack("<BH", token, len(body)) + body


def environment(kind: int, new: bytes, old: bytes = b"\x00") -> bytes:
    """ENVCHANGE; the values carry their own lengths."""
    return struct.pack("<BHB", 0xE3, 1 + len(new) + len(old), kind) + new + old


def database_changed(new: str, old: str) -> bytes:
    told = message(0xAB, 5701, f"Changed database context to '{new}'.", 0, 2, "", 1)
    return environment(1, b_varchar(new), b_varchar(old)) + told


def login_tokens(database: str, packet_size: int, route: tuple[str, int] | None = None) -> bytes:
    """What answers a login that succeeded, in the order that SQL Server uses; no feature is acknowledged.

    route: host and port of the server to log in to instead (2.2.7.9, type 20).
    """
    acknowledged = b"\x01" + bytes.fromhex("74000004") + b_varchar("Microsoft SQL Server") + bytes((13, 0, 0x03, 0xE8))
    return b"".join(
        (
            database_changed(database, "master"),
            environment(7, bytes((len(COLLATION),)) + COLLATION),
            environment(2, b_varchar("us_english")),
            message(0xAB, 5703, "Changed language setting to us_english.", 0, 1, "", 1),
            struct.pack("<BH", 0xAD, len(acknowledged)) + acknowledged,
            environment(4, b_varchar(str(packet_size)), b_varchar("4096")),
            _routing(*route) if route is not None else b"",
            done(0),
        )
    )


def _routing(host: str, port: int) -> bytes:
    value = struct.pack("<BH", 0, port) + us_varchar(host)
    return environment(20, struct.pack("<H", len(value)) + value, bytes(2))


class Answer:
    """Collects the tokens of one client message. ``begin`` opens each call in it, ``end`` closes it."""

    def __init__(self) -> None:
        self.parts: list[bytes] = []
        self.fatal = False
        """An error of severity 20 or more was sent: the link is closed after this answer."""
        self.returned: Value = None
        """The output value that came last: after sp_prepare and sp_prepexec, the handle."""
        self._procedure = False
        self._columns: Sequence[SqlType] = ()
        self._held: tuple[int, int, int, int] | None = None  # the last DONE: token, status, command, count
        self._failed = False  # an ERROR that no DONE has told of yet
        self._status: int | None = None
        self._values: list[bytes] = []

    def begin(self, *, procedure: bool) -> None:
        self._procedure = procedure
        self._status = None
        self._values.clear()

    def end(self, *, last: bool = True) -> None:
        """Closes a call; ``last`` is False for every remote procedure call of a message but its last."""
        if self._procedure:
            self._release()
            if self._status is not None:
                self.parts.append(struct.pack("<Bi", 0x79, self._status))
            self.parts += self._values
            self._hold(DONE_PROC)
        elif self._held is None:
            self._hold(DONE)
        self._release(more=0 if last else MORE | RPC_IN_BATCH)

    def attention(self) -> None:
        """Closes what was cut short: the client throws all away until it reads this (MS-TDS 2.2.1.7)."""
        self._release()
        self.parts.append(done(ATTENTION))

    def environment(self, kind: int, new: bytes, old: bytes = b"\x00") -> None:
        self._token(environment(kind, new, old))

    # what the engine calls

    def columns(self, columns: Sequence[ResultColumn]) -> None:
        self._columns = [column.type for column in columns]
        body = [struct.pack("<BH", 0x81, len(columns))]
        for column in columns:
            user_type = _ROWVERSION_USER_TYPE if column.type.name == "rowversion" else 0
            flags = _MAYBE_UPDATABLE | (_NULLABLE if column.nullable else 0)
            body += (struct.pack("<IH", user_type, flags), type_info(column.type), b_varchar(column.name))
        self._token(b"".join(body))

    def row(self, values: Sequence[Value]) -> None:
        self._token(b"\xd1" + b"".join(map(encode, self._columns, values)))

    def done(self, count: int | None, *, is_select: bool = False) -> None:
        if self._procedure and count is None and not is_select and not self._failed:
            return  # SET NOCOUNT ON keeps DONEINPROC from being sent
        self._hold(DONE_IN_PROC if self._procedure else DONE, command=SELECT if is_select else 0, count=count)

    def info(self, number: int, message_: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None:
        self._token(message(0xAB, number, message_, severity, state, "", line))

    def error(self, error: SqlError) -> None:
        self._failed = True
        self.fatal = self.fatal or error.severity >= 20
        told = message(0xAA, error.number, error.message, error.severity, error.state, error.procedure, error.line)
        self._token(told)

    def database(self, new: str, old: str) -> None:
        self._token(database_changed(new, old))

    def transaction_begun(self, descriptor: int) -> None:
        self._token(environment(8, _descriptor(descriptor)))

    def transaction_ended(self, descriptor: int, *, committed: bool) -> None:
        self._token(environment(9 if committed else 10, b"\x00", _descriptor(descriptor)))

    def return_status(self, status: int) -> None:
        self._status = status

    def return_value(self, name: str, sql_type: SqlType, value: Value) -> None:
        self.returned = value
        head = struct.pack("<BH", 0xAC, len(self._values)) + b_varchar(name) + b"\x01" + struct.pack("<IH", 0, 0)
        self._values.append(head + type_info(sql_type) + encode(sql_type, value))

    # keeping back the last DONE until it is known whether more follows

    def _token(self, token: bytes) -> None:
        self._release()
        self.parts.append(token)

    def _hold(self, token: int, *, command: int = 0, count: int | None = None) -> None:
        self._release()
        status = (ERROR if self._failed else 0) | (0 if count is None else COUNT)
        self._failed = False
        self._held = token, status, command, count or 0

    def _release(self, *, more: int = MORE) -> None:
        if self._held is not None:
            token, status, command, count = self._held
            self._held = None
            self.parts.append(done(status | more, token=token, command=command, count=count))


def _descriptor(number: int) -> bytes:
    return b"\x08" + number.to_bytes(8, "little")
