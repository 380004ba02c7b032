"""The two messages that open a link: PRELOGIN (MS-TDS 2.2.6.5) and LOGIN7 (2.2.6.4).

Reads and answers bytes; whether a login is right is the engine's to say.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from .sqltypes import LoginRequest
from .wire import DEFAULT_PACKET_SIZE, Reader, WireError

VERSION_OPTION, ENCRYPTION_OPTION, LAST_OPTION = 0, 1, 0xFF
ENCRYPT_ON, ENCRYPT_NOT_SUPPORTED = 1, 2
SERVER_VERSION = bytes((13, 0, 0x03, 0xE8, 0, 0))
_READ_ONLY = 0x20
_TDS_7_2 = 0x72090002


@dataclass(frozen=True, slots=True)
class Login:
    """What LOGIN7 asked for; ``packet_size`` is the one to use after the answer."""

    request: LoginRequest
    packet_size: int


def wants_encryption(prelogin: bytes) -> bool:
    """Whether the client insists on TLS."""
    position = 0
    while position < len(prelogin) and prelogin[position] != LAST_OPTION:
        option, offset, length = struct.unpack(">BHH", Reader(prelogin, position).take(5))
        if option == ENCRYPTION_OPTION and length:
            return Reader(prelogin, offset).u8() == ENCRYPT_ON
        position += 5
    return False


def prelogin_answer(*, encrypted: bool) -> bytes:
    """VERSION and ENCRYPTION. A client that does not insist gets no TLS at all, not even for its login."""
    encryption = bytes((ENCRYPT_ON if encrypted else ENCRYPT_NOT_SUPPORTED,))
    start = 11
    head = struct.pack(">BHH", VERSION_OPTION, start, len(SERVER_VERSION))
    head += struct.pack(">BHHB", ENCRYPTION_OPTION, start + len(SERVER_VERSION), 1, LAST_OPTION)
    return head + SERVER_VERSION + encryption


def read_login(data: bytes) -> Login:
    fixed = Reader(data)
    fixed.u32()
    if fixed.u32() < _TDS_7_2:
        raise WireError("only TDS 7.2 and later")
    packet_size = fixed.u32() or DEFAULT_PACKET_SIZE
    type_flags = Reader(data, 26).u8()

    def field(number: int) -> bytes:
        entry = Reader(data, 36 + 4 * number)
        offset, units = entry.u16(), entry.u16()
        return Reader(data, offset).take(2 * units)

    def text(number: int) -> str:
        return field(number).decode("utf-16-le", "replace")

    request = LoginRequest(
        host=text(0),
        user=text(1),
        password=_reveal(field(2)).decode("utf-16-le", "replace"),
        application=text(3),
        database=text(8),
        read_only=bool(type_flags & _READ_ONLY),
    )
    return Login(request, min(max(packet_size, 512), 32767))


def _reveal(data: bytes) -> bytes:
    """The password as it was before the client exclusive-ored each byte with A5 and swapped its halves."""
    return bytes(((byte ^ 0xA5) << 4 | (byte ^ 0xA5) >> 4) & 0xFF for byte in data)
