"""A TDS client made of bytes, for what drivers do not send or do not show. Written from MS-TDS, not from the server."""

from __future__ import annotations

import socket
import struct
from types import TracebackType
from typing import Any, Self

from sqllease.testing import LocalSqlServer

BATCH, RPC, ATTENTION, LOGIN, PRELOGIN = 0x01, 0x03, 0x06, 0x10, 0x12
END_OF_MESSAGE, IGNORE, RESET_CONNECTION = 0x01, 0x02, 0x08
ALL_HEADERS = struct.pack("<IIHQI", 22, 18, 2, 0, 1)  # 2.2.5.3: one header, transaction descriptor 0, one request
PLAIN_PRELOGIN = bytes.fromhex("00 001a 0006 01 0020 0001 02 0021 0001 03 0022 0004 04 0026 0001 ff") + bytes.fromhex(
    "110000000000 02 00 00000000 00"
)


def login7(user: str, password: str, database: str = "", *, type_flags: int = 0, version: int = 0x74000004) -> bytes:
    """2.2.6.4: fixed part, offsets and lengths, then the texts. The password is swapped and exclusive-ored with A5."""
    hidden = bytes(((b << 4 | b >> 4) & 0xFF) ^ 0xA5 for b in password.encode("utf-16-le"))
    texts = [text.encode("utf-16-le") for text in ("host", user, "", "raw", "", "", "", "", database)]
    texts[2] = hidden
    offset, pairs, data = 94, b"", b""
    for text in texts:
        pairs += struct.pack("<HH", offset + len(data), len(text) // 2)
        data += text
    end = offset + len(data)
    tail = bytes(6) + struct.pack("<HHHHHHI", end, 0, end, 0, end, 0, 0)
    fixed = struct.pack("<IIIIIIBBBBii", end, version, 4096, 7, 1, 0, 0xE0, 3, type_flags, 0, 0, 0x409)
    return fixed + pairs + tail + data


def packet(kind: int, data: bytes, status: int = END_OF_MESSAGE) -> bytes:
    """2.2.3.1."""
    return struct.pack(">BBHHBB", kind, status, 8 + len(data), 0, 1, 0) + data


class RawClient:
    """A link whose user sends messages and gets back the bytes of their answers."""

    def __init__(self, server: LocalSqlServer) -> None:
        self._socket = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        self._server = server

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._socket.close()

    def packet(self, kind: int, data: bytes, status: int = END_OF_MESSAGE) -> None:
        self._socket.sendall(packet(kind, data, status))

    def at_once(self, *packets: bytes) -> None:
        """Several packets in one piece: the server has them all before it can answer the first."""
        self._socket.sendall(b"".join(packets))

    def answer(self) -> bytes:
        """The tokens of the next answer; b'' when the server has closed the link."""
        data = b""
        while True:
            header = self._exactly(8)
            if not header:
                return b""
            data += self._exactly(struct.unpack_from(">H", header, 2)[0] - 8)
            if header[1] & END_OF_MESSAGE:
                return data

    def ask(self, kind: int, data: bytes, status: int = END_OF_MESSAGE) -> bytes:
        self.packet(kind, data, status)
        return self.answer()

    def batch(self, text: str, status: int = END_OF_MESSAGE) -> bytes:
        return self.ask(BATCH, ALL_HEADERS + text.encode("utf-16-le"), status)

    def login(self, **changes: str) -> bytes:
        self.ask(PRELOGIN, PLAIN_PRELOGIN)
        given: dict[str, Any] = {
            "user": self._server.user,
            "password": self._server.password,
            "database": self._server.database,
        }
        return self.ask(LOGIN, login7(**(given | changes)))

    def _exactly(self, count: int) -> bytes:
        data = b""
        while len(data) < count:
            part = self._socket.recv(count - len(data))
            if not part:
                return b""
            data += part
        return data


def executesql(statement: str) -> bytes:
    """2.2.6.6: a call of sp_executesql (10) with one nvarchar parameter, without ALL_HEADERS."""
    text = statement.encode("utf-16-le")
    type_info = struct.pack("<BH", 0xE7, 8000) + bytes.fromhex("0904d00034")
    return struct.pack("<HHHBB", 0xFFFF, 10, 0, 0, 0) + type_info + struct.pack("<H", len(text)) + text


def done(status: int, *, token: int = 0xFD) -> bytes:
    """2.2.7.6: a DONE without command and count."""
    return struct.pack("<BHHQ", token, status, 0, 0)
