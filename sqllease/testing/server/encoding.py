"""Values of SQL types as bytes (MS-TDS 2.2.5.4 and 2.2.5.5): one table from type to TYPE_INFO and packing.

Also reads the types that only drivers send: fixed-length numbers, and text, ntext and image, which become the (max)
types. Does not convert between types: a value has to fit the type it comes with.
"""

from __future__ import annotations

import codecs
import struct
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from .sqltypes import (
    BIGINT,
    BIT,
    DATE,
    DATETIME,
    FLOAT,
    GUID,
    INT,
    MAX,
    SMALLINT,
    TINYINT,
    Moment,
    SqlType,
    Value,
    nvarchar,
    unsupported,
    varbinary,
    varchar,
)
from .wire import Reader, WireError, utf16, utf16_bytes

COLLATION = bytes.fromhex("0904d00034")
"""SQL_Latin1_General_CP1_CI_AS. Sent for every character column: drivers use the code page (1252) and nothing else."""

TICKS_PER_DAY = 864_000_000_000
_UNIT = (10_000_000, 1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)  # ticks in the last digit of a time, by its scale
_DATETIME_EPOCH_DAYS = 693_595  # 1900-01-01 in days since 0001-01-01
_LONG = {0x22: varbinary(), 0x23: varchar(), 0x63: nvarchar()}  # image, text, ntext
_CP1252 = "".join(bytes((n,)).decode("cp1252", "ignore") or chr(n) for n in range(256))
_CP1252_ENCODER = codecs.charmap_build(_CP1252)


@dataclass(frozen=True, slots=True)
class Codec:
    """How one SQL type travels. ``info`` is TYPE_INFO behind the token; ``wide``: the length prefix has two bytes."""

    token: int
    info: Callable[[SqlType], bytes]
    pack: Callable[[SqlType, Any], bytes]
    unpack: Callable[[SqlType, bytes], Value]
    wide: bool = False


def _number(token: int, layout: str) -> Codec:
    form = struct.Struct(layout)
    size = bytes((form.size,))

    def unpack(_: SqlType, data: bytes) -> Value:
        value: int | float = form.unpack(data)[0]
        return value

    return Codec(token, lambda _: size, lambda _, value: form.pack(value), unpack)


def _pack_decimal(sql_type: SqlType, value: Decimal) -> bytes:
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int), "neither infinite nor NaN"
    shift = exponent + sql_type.scale
    text = "".join(map(str, digits))  # by its digits: the decimal context would round past 28 of them
    number = int(text + "0" * shift if shift >= 0 else text[:shift] or "0")
    return bytes((not (sign and number),)) + number.to_bytes(_decimal_bytes(sql_type.precision), "little")


def _unpack_decimal(sql_type: SqlType, data: bytes) -> Decimal:
    digits = tuple(map(int, str(int.from_bytes(data[1:], "little"))))  # exact, whatever the decimal context
    return Decimal((0 if data[0] else 1, digits, -sql_type.scale))


def _decimal_bytes(precision: int) -> int:
    return 4 if precision <= 9 else 8 if precision <= 19 else 12 if precision <= 28 else 16


def _time_bytes(scale: int) -> int:
    return 3 if scale <= 2 else 4 if scale <= 4 else 5


def _pack_time(sql_type: SqlType, ticks: int) -> bytes:
    return (ticks // _UNIT[sql_type.scale]).to_bytes(_time_bytes(sql_type.scale), "little")


def _unpack_time(sql_type: SqlType, data: bytes) -> int:
    return int.from_bytes(data[: _time_bytes(sql_type.scale)], "little") * _UNIT[sql_type.scale]


def _pack_datetime2(sql_type: SqlType, moment: Moment) -> bytes:
    days, ticks = divmod(moment.ticks, TICKS_PER_DAY)
    return _pack_time(sql_type, ticks) + days.to_bytes(3, "little")


def _unpack_datetime2(sql_type: SqlType, data: bytes) -> Moment:
    days = int.from_bytes(data[_time_bytes(sql_type.scale) :][:3], "little")
    return Moment(days * TICKS_PER_DAY + _unpack_time(sql_type, data))


def _pack_datetimeoffset(sql_type: SqlType, moment: Moment) -> bytes:
    return _pack_datetime2(sql_type, moment) + moment.offset.to_bytes(2, "little", signed=True)


def _unpack_datetimeoffset(sql_type: SqlType, data: bytes) -> Moment:
    return Moment(_unpack_datetime2(sql_type, data).ticks, int.from_bytes(data[-2:], "little", signed=True))


def _pack_datetime(_: SqlType, moment: Moment) -> bytes:
    days, ticks = divmod(moment.ticks, TICKS_PER_DAY)
    return struct.pack("<iI", days - _DATETIME_EPOCH_DAYS, (ticks * 300 + 5_000_000) // 10_000_000)


def _unpack_datetime(_: SqlType, data: bytes) -> Moment:
    days, parts = struct.unpack("<iI", data)  # parts of 1/300 s; the engine shows them rounded to milliseconds
    return Moment((days + _DATETIME_EPOCH_DAYS) * TICKS_PER_DAY + (parts * 10 + 1) // 3 * 10_000)


def _length(factor: int, tail: bytes = b"") -> Callable[[SqlType], bytes]:
    def info(sql_type: SqlType) -> bytes:
        size = 0xFFFF if sql_type.length == MAX else max(sql_type.length, 1) * factor
        return size.to_bytes(2, "little") + tail

    return info


def _wide_text(token: int) -> Codec:
    return Codec(token, _length(2, COLLATION), lambda _, v: utf16_bytes(v), lambda _, data: utf16(data), wide=True)


def _narrow_text(token: int) -> Codec:
    def pack(_: SqlType, value: str) -> bytes:
        return codecs.charmap_encode(value, "replace", _CP1252_ENCODER)[0]

    def unpack(_: SqlType, data: bytes) -> str:
        return codecs.charmap_decode(data, "strict", _CP1252)[0]

    return Codec(token, _length(1, COLLATION), pack, unpack, wide=True)


def _binary(token: int) -> Codec:
    return Codec(token, _length(1), lambda _, value: bytes(value), lambda _, data: data, wide=True)


def _scaled(token: int, pack: Callable[[SqlType, Any], bytes], unpack: Callable[[SqlType, bytes], Value]) -> Codec:
    return Codec(token, lambda sql_type: bytes((sql_type.scale,)), pack, unpack)


CODECS: dict[str, Codec] = {
    "bit": _number(0x68, "<B"),
    "tinyint": _number(0x26, "<B"),
    "smallint": _number(0x26, "<h"),
    "int": _number(0x26, "<i"),
    "bigint": _number(0x26, "<q"),
    "real": _number(0x6D, "<f"),
    "float": _number(0x6D, "<d"),
    "decimal": Codec(
        0x6A,
        lambda sql_type: bytes((1 + _decimal_bytes(sql_type.precision), sql_type.precision, sql_type.scale)),
        _pack_decimal,
        _unpack_decimal,
    ),
    "uniqueidentifier": Codec(
        0x24, lambda _: b"\x10", lambda _, value: value.bytes_le, lambda _, data: uuid.UUID(bytes_le=data)
    ),
    "date": Codec(
        0x28,
        lambda _: b"",
        lambda _, moment: (moment.ticks // TICKS_PER_DAY).to_bytes(3, "little"),
        lambda _, data: Moment(int.from_bytes(data, "little") * TICKS_PER_DAY),
    ),
    "time": _scaled(
        0x29,
        lambda sql_type, moment: _pack_time(sql_type, moment.ticks),
        lambda sql_type, data: Moment(_unpack_time(sql_type, data)),
    ),
    "datetime2": _scaled(0x2A, _pack_datetime2, _unpack_datetime2),
    "datetimeoffset": _scaled(0x2B, _pack_datetimeoffset, _unpack_datetimeoffset),
    "datetime": Codec(0x6F, lambda _: b"\x08", _pack_datetime, _unpack_datetime),
    "nvarchar": _wide_text(0xE7),
    "nchar": _wide_text(0xEF),
    "varchar": _narrow_text(0xA7),
    "char": _narrow_text(0xAF),
    "varbinary": _binary(0xA5),
    "binary": _binary(0xAD),
    "rowversion": _binary(0xAD),
}

_FIXED = {
    0x30: (TINYINT, 1),
    0x32: (BIT, 1),
    0x34: (SMALLINT, 2),
    0x38: (INT, 4),
    0x7F: (BIGINT, 8),
    0x3E: (FLOAT, 8),
    0x3D: (DATETIME, 8),
}
_BY_SIZE: dict[tuple[int, int], SqlType] = {
    (0x68, 1): BIT,
    (0x26, 1): TINYINT,
    (0x26, 2): SMALLINT,
    (0x26, 4): INT,
    (0x26, 8): BIGINT,
    (0x6D, 4): SqlType("real"),
    (0x6D, 8): FLOAT,
    (0x6F, 8): DATETIME,
    (0x24, 16): GUID,
}
_SIZED = {0xE7: "nvarchar", 0xEF: "nchar", 0xA7: "varchar", 0xAF: "char", 0xA5: "varbinary", 0xAD: "binary"}
_SCALED = {0x29: "time", 0x2A: "datetime2", 0x2B: "datetimeoffset"}


def type_info(sql_type: SqlType) -> bytes:
    """TYPE_INFO of a type, its token first."""
    codec = CODECS.get(sql_type.name)
    if codec is None:
        raise unsupported(sql_type.name.upper())
    return bytes((codec.token,)) + codec.info(sql_type)


def encode(sql_type: SqlType, value: Value) -> bytes:
    """A value with its length in front, as in a ROW or RETURNVALUE."""
    codec = CODECS[sql_type.name]
    if sql_type.length == MAX:
        if value is None:
            return b"\xff" * 8
        data = codec.pack(sql_type, value)
        size = len(data).to_bytes(8, "little")
        return size + size[:4] + data + bytes(4) if data else size + bytes(4)
    if value is None:
        return b"\xff\xff" if codec.wide else b"\x00"
    data = codec.pack(sql_type, value)
    return len(data).to_bytes(2 if codec.wide else 1, "little") + data


def read_parameter(reader: Reader) -> tuple[SqlType, Value]:
    """TYPE_INFO and the value behind it, as in a remote procedure call."""
    token = reader.u8()
    if token in _LONG:
        reader.take(4 if token == 0x22 else 9)
        size = reader.u32()
        return _value(_LONG[token], None if size == 0xFFFFFFFF else reader.take(size))
    if token in _FIXED:
        sql_type, size = _FIXED[token]
        return _value(sql_type, reader.take(size))
    sql_type = _read_type(token, reader)
    if sql_type.length == MAX:
        return _value(sql_type, _read_chunks(reader))
    if token in _SIZED:
        size = reader.u16()
        return _value(sql_type, None if size == 0xFFFF else reader.take(size))
    size = reader.u8()
    return _value(sql_type, reader.take(size) if size else None)


def _read_type(token: int, reader: Reader) -> SqlType:
    if token in _SIZED:
        size = reader.u16()
        if token not in (0xA5, 0xAD):
            reader.take(len(COLLATION))
        length = MAX if size == 0xFFFF else max(size // 2 if token in (0xE7, 0xEF) else size, 1)
        return SqlType(_SIZED[token], length)
    if token in _SCALED:
        return SqlType(_SCALED[token], scale=reader.u8())
    if token in (0x6A, 0x6C):
        reader.u8()
        return SqlType("decimal", precision=reader.u8(), scale=reader.u8())
    if token == 0x28:
        return DATE
    sql_type = _BY_SIZE.get((token, reader.u8()))
    if sql_type is None:
        raise unsupported(f"parameter of wire type 0x{token:02X}")
    return sql_type


def _read_chunks(reader: Reader) -> bytes | None:
    if reader.u64() == 0xFFFF_FFFF_FFFF_FFFF:
        return None
    parts: list[bytes] = []
    while size := reader.u32():
        parts.append(reader.take(size))
    return b"".join(parts)


def _value(sql_type: SqlType, data: bytes | None) -> tuple[SqlType, Value]:
    if data is None:
        return sql_type, None
    try:
        return sql_type, CODECS[sql_type.name].unpack(sql_type, data)
    except (struct.error, ValueError) as error:
        raise WireError(f"bad value of type {sql_type}") from error
