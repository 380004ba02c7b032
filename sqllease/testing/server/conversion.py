"""Conversions: the value that comes out when one type becomes another.

``convert`` cuts silently, as CAST, variables and arguments do; ``store`` refuses, as columns do. Knows the values and
errors of every pair that families.py allows. Knows nothing of expressions, tables or sessions.
"""

from __future__ import annotations

import math
import re
import uuid
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal, InvalidOperation
from functools import lru_cache

from . import dates
from .collation import join, split, unit_length
from .families import INT_RANGES, INT_SIZES, UNICODE_TYPES, kind_of, shown
from .families import check as check
from .families import common_type as common_type
from .sqltypes import MAX, Moment, SqlError, SqlType, Value, unsupported

EXACT = Context(prec=80)
"""Arithmetic wide enough for every decimal(38)."""


def overflow(kind: SqlType, what: str = "expression") -> SqlError:
    return SqlError(8115, f"Arithmetic overflow error converting {what} to data type {shown(kind)}.", state=2)


# --- to each family ------------------------------------------------------------------------------


def fit_int(number: int, kind: SqlType) -> int:
    low, high = INT_RANGES[kind.name]
    if not low <= number <= high:
        raise overflow(kind)
    return number


def fit_decimal(number: Decimal, kind: SqlType, what: str = "numeric", rounding: str = ROUND_HALF_UP) -> Decimal:
    try:
        result = number.quantize(Decimal(1).scaleb(-kind.scale), rounding, EXACT)
    except InvalidOperation:
        raise overflow(kind, what) from None
    if abs(result) >= Decimal(10) ** (kind.precision - kind.scale):
        raise overflow(kind, what)
    return result


_STRIPPED_INT = re.compile(r"[+-]?0*([0-9]+)")
_STRIPPED_DECIMAL = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)", re.ASCII)
_STRIPPED_FLOAT = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d*)?", re.IGNORECASE | re.ASCII)


def _text_to_int(text: str, source: SqlType, target: SqlType) -> int:
    stripped = text.strip(" ")
    if target.name == "bit":
        if stripped.lower() in ("true", "false", ""):
            return int(stripped.lower() == "true")
        if _STRIPPED_INT.fullmatch(stripped):
            return int(stripped.strip("+-0") != "")
    elif not stripped:
        return 0
    elif match := _STRIPPED_INT.fullmatch(stripped):
        low, high = INT_RANGES[target.name]
        if len(match[1]) < 20:  # Python refuses to read very many digits
            number = -int(match[1]) if stripped[0] == "-" else int(match[1])
            if low <= number <= high:
                return number
        if target.name == "bigint":
            raise overflow(target)
        column = {"int": "an int column.", "smallint": "an INT2 column. Use a larger integer column."}
        where = column.get(target.name, "an INT1 column. Use a larger integer column.")
        raise SqlError(
            248 if target.name == "int" else 244,
            f"The conversion of the {source.name} value '{text}' overflowed {where}",
        )
    if target.name == "bigint":
        raise SqlError(8114, f"Error converting data type {source.name} to bigint.")
    raise SqlError(
        245, f"Conversion failed when converting the {source.name} value '{text}' to data type {target.name}."
    )


def _to_int(value: Value, source: SqlType, target: SqlType) -> int:
    if isinstance(value, str):
        return _text_to_int(value, source, target)
    if isinstance(value, bytes):
        size = INT_SIZES[target.name]
        number = int.from_bytes(value[-size:].rjust(size, b"\0"), "big", signed=target.name not in ("bit", "tinyint"))
        return int(number != 0) if target.name == "bit" else number
    assert isinstance(value, (int, float, Decimal))
    if target.name == "bit":
        return int(value != 0)
    number = int(value)
    low, high = INT_RANGES[target.name]
    if low <= number <= high:
        return number
    if isinstance(value, float):
        raise SqlError(232, f"Arithmetic overflow error for type {target.name}, value = {value:f}.", state=3)
    if target.name in ("tinyint", "smallint") and source.name in ("int", "smallint"):
        raise SqlError(220, f"Arithmetic overflow error for data type {target.name}, value = {number}.")
    raise overflow(target)


def _to_decimal(value: Value, source: SqlType, target: SqlType) -> Decimal:
    if isinstance(value, str):
        if not _STRIPPED_DECIMAL.fullmatch(value.strip(" ")):
            raise SqlError(8114, f"Error converting data type {source.name} to numeric.", state=5)
        value = Decimal(value.strip(" "))
    if not isinstance(value, (int, float, Decimal)):
        raise unsupported(f"conversion of {source.name} to {target.name}")
    return fit_decimal(Decimal(value), target, shown(source))


def _to_float(value: Value, source: SqlType, target: SqlType) -> float:
    if isinstance(value, str):
        text = value.strip(" ")
        if text and not _STRIPPED_FLOAT.fullmatch(text):
            raise SqlError(8114, f"Error converting data type {source.name} to {target.name}.", state=5)
        value = float(text.rstrip("eE+-") or 0)
    assert isinstance(value, (int, float, Decimal))
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number):
        raise overflow(target)
    return number


def _float_text(value: float, style: int | None) -> str:
    if style == 3:
        return re.sub(r"e([+-])(\d\d)$", r"e\g<1>0\2", f"{value:.16e}")
    if style in (1, 2):
        return re.sub(r"e([+-])(\d\d)$", r"e\g<1>0\2", f"{value:.{7 if style == 1 else 15}e}")
    return re.sub(r"e([+-])(\d\d)$", r"e\g<1>0\2", f"{value:.6g}")


def _cut(text: str, kind: SqlType) -> str:
    """To the length of the type; fixed types are padded with blanks. varchar counts bytes of code page 1252."""
    if kind.name not in UNICODE_TYPES:
        text = text.encode("cp1252", "replace").decode("cp1252") if not text.isascii() else text
    if kind.length == MAX:
        return text
    if len(text) * 2 > kind.length and unit_length(text) > kind.length:
        text = join(split(text)[: kind.length])
    if kind.name in ("char", "nchar"):
        text += " " * (kind.length - unit_length(text))
    return text


def _to_text(value: Value, source: SqlType, target: SqlType, style: int | None) -> str:
    if isinstance(value, str):
        return _cut(value, target)
    if isinstance(value, bytes):
        if style in (1, 2):
            return _cut(("0x" if style == 1 else "") + value.hex().upper(), target)
        if target.name in UNICODE_TYPES:
            return _cut(value[: len(value) // 2 * 2].decode("utf-16-le", "surrogatepass"), target)
        return _cut("".join(bytes((byte,)).decode("cp1252", "ignore") or chr(byte) for byte in value), target)
    if isinstance(value, Moment):
        return _cut(dates.render(value, source, style), target)
    if isinstance(value, uuid.UUID):
        if target.length != MAX and target.length < 36:
            raise SqlError(8170, "Insufficient result space to convert uniqueidentifier value to char.", state=2)
        return _cut(str(value).upper(), target)
    if style not in (None, 0) and not (isinstance(value, float) and style in (1, 2, 3)):
        raise unsupported(f"CONVERT style {style} of {source.name}")
    text = (
        _float_text(value, style)
        if isinstance(value, float)
        else f"{value:f}"
        if isinstance(value, Decimal)
        else str(value)
    )
    if target.length != MAX and len(text) > target.length:
        if source.name in ("bit", "tinyint", "smallint", "int") and target.name not in UNICODE_TYPES:
            return _cut("*", target)
        raise overflow(target, "expression" if isinstance(value, int) else shown(source))
    return _cut(text, target)


def _to_binary(value: Value, source: SqlType, target: SqlType, style: int | None) -> bytes:
    size = 8 if target.name == "rowversion" else target.length
    if isinstance(value, int):
        width = INT_SIZES.get(source.name, 8)
        raw = value.to_bytes(width, "big", signed=value < 0)
        raw = raw if size == MAX else raw[-size:] if size else b""
        return raw.rjust(size, b"\0") if target.name != "varbinary" else raw
    if isinstance(value, str):
        if style in (1, 2):
            text = value.rstrip(" ")
            try:
                if (style == 1) is not text[:2].lower().startswith("0x"):
                    raise ValueError(text)
                raw = bytes.fromhex(text[2:] if style == 1 else text)
            except ValueError:
                raise SqlError(8114, f"Error converting data type {source.name} to {shown(target)}.", state=5) from None
        else:
            raw = (
                value.encode("utf-16-le", "surrogatepass")
                if source.name in UNICODE_TYPES
                else value.encode("cp1252", "replace")
            )
    elif isinstance(value, bytes):
        raw = value
    elif isinstance(value, uuid.UUID):
        raw = value.bytes_le
    else:
        raise unsupported(f"conversion of {source.name} to {target.name}")
    raw = raw if size == MAX else raw[:size]
    return raw.ljust(size, b"\0") if target.name != "varbinary" else raw


def _to_guid(value: Value) -> uuid.UUID:
    if isinstance(value, bytes):
        return uuid.UUID(bytes_le=value[:16].ljust(16, b"\0"))
    text = str(value)
    text = text[1:37] if text.startswith("{") and text[37:38] == "}" else text[:36]
    if not re.fullmatch("[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", text, re.IGNORECASE):
        raise SqlError(8169, "Conversion failed when converting from a character string to uniqueidentifier.", state=2)
    return uuid.UUID(text)


def type_of(value: Value) -> SqlType:
    """The base type that a sql_variant shows for its value."""
    if isinstance(value, str):
        return SqlType("nvarchar", max(1, unit_length(value)))
    if isinstance(value, bytes):
        return SqlType("varbinary", max(1, len(value)))
    if isinstance(value, int):
        return SqlType("int" if abs(value) < 2**31 else "bigint")
    if isinstance(value, float):
        return SqlType("float")
    if isinstance(value, Decimal):
        return SqlType("decimal", precision=38, scale=max(0, -int(value.as_tuple().exponent)))
    if isinstance(value, uuid.UUID):
        return SqlType("uniqueidentifier")
    return SqlType("datetimeoffset", scale=7)


@lru_cache(maxsize=2048)
def converter(
    source: SqlType, target: SqlType, style: int | None = None, explicit: bool = False
) -> Callable[[Value], Value]:
    """The conversion as a function of the value; raises 206, 257 or 529 at once where there is none."""
    check(source, target, explicit)
    kind, origin = kind_of(target), kind_of(source)
    if source == target:
        return lambda value: value

    def run(value: Value) -> Value:
        if value is None or kind == "variant":
            return value
        if origin == "variant":
            return converter(type_of(value), target, style, True)(value)
        if kind == "int":
            return _to_int(value, source, target)
        if kind == "decimal":
            return _to_decimal(value, source, target)
        if kind == "float":
            return _to_float(value, source, target)
        if kind == "char":
            return _to_text(value, source, target, style)
        if kind == "binary":
            return _to_binary(value, source, target, style)
        if kind == "guid":
            return value if isinstance(value, uuid.UUID) else _to_guid(value)
        if isinstance(value, Moment):
            return dates.cast(value, source, target)
        if isinstance(value, str) and style in (None, 0, 20, 21, 25, 23, 112, 120, 121, 126, 127):
            return dates.parse(value, target, source.name)
        raise unsupported(f"conversion of {source.name} to {target.name}" + (f" with style {style}" if style else ""))

    if origin in ("old", "date", "time", "new") and kind in ("int", "decimal", "float", "binary"):
        raise unsupported(f"conversion of {source.name} to {target.name}")
    return run


def convert(value: Value, source: SqlType, target: SqlType, style: int | None = None, explicit: bool = False) -> Value:
    """As CAST does it and as a variable or argument gets it: too long text is cut without a word."""
    return converter(source, target, style, explicit)(value)


def store(
    value: Value,
    source: SqlType,
    target: SqlType,
    *,
    table: str = "",
    column: str = "",
    ansi_warnings: bool = True,
    modern: bool = True,
) -> Value:
    """As a column gets it: losing more than trailing blanks is error 2628; 8152 on a server that is not modern."""
    result = converter(source, target)(value)
    if value is None or target.length == MAX or not ansi_warnings or kind_of(target) not in ("char", "binary"):
        return result
    if isinstance(value, str):
        lost = unit_length(value) > target.length and split(value)[target.length :].strip(" ") != ""
    else:
        lost = isinstance(value, bytes) and kind_of(target) == "binary" and len(value) > target.length
    if not lost:
        return result
    if not modern:
        raise SqlError(8152, "String or binary data would be truncated.", state=30)
    kept = result if isinstance(result, str) else ""
    where = f"in table '{table}', column '{column}'. Truncated value: '{kept}'."
    raise SqlError(2628, f"String or binary data would be truncated {where}")
