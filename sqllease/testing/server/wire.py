"""Packets of the Tabular Data Stream: cutting a byte stream into messages and back, and a cursor over one message.

Knows the eight-byte packet header (MS-TDS 2.2.3.1) and the integer and string layouts; knows no message's meaning.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

HEADER = struct.Struct(">BBHHBB")
"""Type, status, length with this header, server process id, packet number, window."""

DEFAULT_PACKET_SIZE = 4096
LAST = 0x01
IGNORE = 0x02
RESET = 0x08
RESET_KEEPING_TRANSACTION = 0x10


class Kind(IntEnum):
    """The packet types that clients send, and the one of every answer."""

    BATCH = 0x01
    RPC = 0x03
    ANSWER = 0x04
    ATTENTION = 0x06
    BULK_LOAD = 0x07
    TRANSACTION = 0x0E
    LOGIN = 0x10
    PRELOGIN = 0x12


class WireError(Exception):
    """The client sent bytes that are no TDS; the link is closed without an answer."""


@dataclass(frozen=True, slots=True)
class Message:
    kind: int
    status: int
    """Status bits of the first packet and IGNORE of the last."""
    data: bytes


class MessageReader:
    """Collects bytes as they arrive and gives out whole messages."""

    def __init__(self) -> None:
        self._bytes = bytearray()
        self._parts: list[bytes] = []
        self._status = 0

    def feed(self, data: bytes) -> None:
        self._bytes += data

    def next(self) -> Message | None:
        """The next whole message, or None until more bytes come."""
        while len(self._bytes) >= HEADER.size:
            kind, status, length, *_ = HEADER.unpack_from(self._bytes)
            if length < HEADER.size:
                raise WireError("packet shorter than its header")
            if len(self._bytes) < length:
                return None
            if not self._parts:
                self._status = status
            self._parts.append(bytes(self._bytes[HEADER.size : length]))
            del self._bytes[:length]
            if status & LAST:
                data, self._parts = b"".join(self._parts), []
                return Message(kind, self._status | status & IGNORE, data)
        return None

    def rest(self) -> bytes:
        """Takes the bytes that have not become a message (TLS records that follow the handshake)."""
        data = bytes(self._bytes)
        self._bytes.clear()
        return data


def frame(kind: Kind, data: bytes, *, session: int = 0, packet_size: int = DEFAULT_PACKET_SIZE) -> bytes:
    """A message as packets of at most ``packet_size`` bytes."""
    room = packet_size - HEADER.size
    packets: list[bytes] = []
    for number, start in enumerate(range(0, max(len(data), 1), room), 1):
        part = data[start : start + room]
        last = LAST if start + room >= len(data) else 0
        packets += (HEADER.pack(kind, last, HEADER.size + len(part), session & 0xFFFF, number & 0xFF, 0), part)
    return b"".join(packets)


class Reader:
    """A cursor over one message. Reading past the end raises WireError."""

    def __init__(self, data: bytes, position: int = 0) -> None:
        self.data = data
        self.position = position

    @property
    def at_end(self) -> bool:
        return self.position >= len(self.data)

    def take(self, count: int) -> bytes:
        end = self.position + count
        if count < 0 or end > len(self.data):
            raise WireError("message ends too early")
        part = self.data[self.position : end]
        self.position = end
        return part

    def u8(self) -> int:
        return self.take(1)[0]

    def u16(self) -> int:
        return int.from_bytes(self.take(2), "little")

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def text(self, units: int) -> str:
        return utf16(self.take(2 * units))

    def b_varchar(self) -> str:
        return self.text(self.u8())

    def us_varchar(self) -> str:
        return self.text(self.u16())


def utf16(data: bytes) -> str:
    """Text of UTF-16 bytes; a lone surrogate stays one, as in the engine."""
    if len(data) % 2:
        raise WireError("odd number of bytes in a text")
    return data.decode("utf-16-le", "surrogatepass")


def utf16_bytes(text: str) -> bytes:
    return text.encode("utf-16-le", "surrogatepass")


def b_varchar(text: str) -> bytes:
    """Text with its count of UTF-16 units in one byte; cut at 255 units."""
    data = utf16_bytes(text)[:510]
    return bytes((len(data) // 2,)) + data


def us_varchar(text: str) -> bytes:
    """Text with its count of UTF-16 units in two bytes; cut at 65,535 units."""
    data = utf16_bytes(text)[:131070]
    return (len(data) // 2).to_bytes(2, "little") + data
