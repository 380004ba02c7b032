"""Names of types -> SqlType. Knows which types there are, their sizes and their defaults; knows no values."""

from __future__ import annotations

from . import sqltypes
from .lexer import words
from .parse_reader import Reader
from .sqltypes import MAX, SqlError, SqlType

_PLAIN = {name: SqlType(name) for name in words("bit tinyint smallint int bigint date datetime uniqueidentifier")} | {
    "integer": sqltypes.INT,
    "rowversion": sqltypes.ROWVERSION,
    "timestamp": sqltypes.ROWVERSION,
    "sysname": sqltypes.nvarchar(128),
}
_MAX_LENGTH = {"nvarchar": 4000, "nchar": 4000, "varchar": 8000, "char": 8000, "varbinary": 8000, "binary": 8000}
_ALIASES = {"character": "char", "dec": "decimal", "numeric": "decimal"}
_LARGE = {"ntext": sqltypes.nvarchar(), "text": sqltypes.varchar(), "image": sqltypes.varbinary()}
_REFUSED = words(
    """real money smallmoney smalldatetime xml sql_variant hierarchyid geometry geography json vector text ntext
    image"""
)


def data_type(r: Reader, *, default_length: int = 1, large: bool = False) -> SqlType:
    """default_length: of character and binary types: 1 where something is declared, 30 in CAST and CONVERT.

    large: in a list of parameters, where text, ntext and image may stand; they are read as the (max) types.
    Raises 243 or 2715 for an unknown type.
    """
    r.refuse_at("CURSOR", "TABLE", "NATIONAL", "DOUBLE")
    line = r.line
    *schema, name = r.parts()
    name = _ALIASES.get(name.lower(), name.lower())
    r.refuse_at("VARYING")
    if schema and [part.lower() for part in schema] != ["sys"]:
        name = ".".join([*schema, name])
    if name in _PLAIN:
        return _PLAIN[name]
    if large and name in _LARGE:
        return _LARGE[name]
    if name in _MAX_LENGTH:
        return SqlType(name, _length(r, name) if r.accept("(") else default_length)
    if name in ("datetime2", "datetimeoffset", "time"):
        return SqlType(name, scale=_number(r, 0, 7, 1002, "Specified scale") if r.accept("(") else 7)
    if name == "decimal":
        return _decimal(r)
    if name == "float":
        if r.accept("(") and _number(r, 1, 53, 1001, "Length or precision specification") <= 24:
            raise r.refuse("real")
        return sqltypes.FLOAT
    if name in _REFUSED:
        raise sqltypes.unsupported(name, line=line)
    if default_length == 1:
        raise SqlError(2715, f"Column, parameter, or variable #1: Cannot find data type {name}.", state=6, line=line)
    raise SqlError(243, f"Type {name} is not a defined system type.", line=line)


def _number(r: Reader, low: int, high: int, error: int, what: str, end: str = ")") -> int:
    number = r.whole()
    if not low <= number <= high:
        raise r.error(error, f"Line {r.line}: {what} {number} is invalid.")
    r.expect(end)
    return number


def _length(r: Reader, name: str) -> int:
    if "var" in name and r.accept("MAX", ")"):
        return MAX
    length = _number(r, 1, 2**31, 1001, "Length or precision specification")
    given, limit = f"The size ({length}) given to the type '{name}' exceeds the maximum allowed", _MAX_LENGTH[name]
    if length > 8000:
        raise r.error(131, f"{given} for any data type (8000).")
    if length > limit:
        raise r.error(2717, f"{given} ({limit}).")
    return length


def _decimal(r: Reader) -> SqlType:
    precision, scale = 18, 0
    if r.accept("("):
        precision = r.whole()
        scale = r.after(",", Reader.whole) or 0
        if precision > 38:
            text = f"Specified column precision {precision} is greater than the maximum precision of 38."
            raise r.error(2750, f"Column or parameter #1: {text}", severity=16)
        if precision < 1:
            raise r.error(1001, f"Line {r.line}: Length or precision specification {precision} is invalid.")
        if not 0 <= scale <= precision:
            raise r.error(192, "The scale must be less than or equal to the precision.")
        r.expect(")")
    return SqlType("decimal", precision=precision, scale=scale)
