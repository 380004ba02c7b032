"""The families of types: which type gives way to which, what may become what, and the type that several have in common.

Static rules only, with the errors of breaking them. Knows no values.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from .binding import Bound
from .sqltypes import MAX, SqlError, SqlType, unsupported

INT_RANGES = {
    "bit": (0, 1), "tinyint": (0, 255), "smallint": (-(2**15), 2**15 - 1), "int": (-(2**31), 2**31 - 1),
    "bigint": (-(2**63), 2**63 - 1),
}  # fmt: skip
INT_SIZES = {"bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_INT_DIGITS = {"bit": 1, "tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
CHAR_TYPES = ("char", "varchar", "nchar", "nvarchar")
UNICODE_TYPES = ("nchar", "nvarchar")
_SCALED = ("time", "datetime2", "datetimeoffset")
_PRECEDENCE = (
    "binary", "varbinary", "char", "varchar", "nchar", "nvarchar", "uniqueidentifier", "rowversion", "bit", "tinyint",
    "smallint", "int", "bigint", "decimal", "float", "time", "date", "datetime", "datetime2", "datetimeoffset",
    "sql_variant",
)  # fmt: skip
_FAMILIES = (
    dict.fromkeys(INT_RANGES, "int") | dict.fromkeys(CHAR_TYPES, "char")
    | dict.fromkeys(("binary", "varbinary", "rowversion"), "binary")
    | dict.fromkeys(("datetime2", "datetimeoffset"), "new")
    | {"decimal": "decimal", "float": "float", "date": "date", "time": "time", "datetime": "old"}
    | {"uniqueidentifier": "guid", "sql_variant": "variant"}
)  # fmt: skip
_ALLOWED = {
    # from: implicitly, on request only; what is in neither list does not exist
    "int": ("int decimal float char binary old variant", ""),
    "decimal": ("int decimal float char binary old variant", ""),
    "float": ("int decimal float char old variant", "binary"),
    "char": ("int decimal float char date time old new guid variant", "binary"),
    "binary": ("int decimal char binary guid old variant", "date time new"),
    "guid": ("char binary guid variant", ""),
    "date": ("char date old new variant", "binary"),
    "time": ("char time old new variant", "binary"),
    "old": ("char date time old new variant", "int decimal float binary"),
    "new": ("char date time old new variant", "binary"),
    "variant": ("variant", "int decimal float char binary guid date time old new"),
}


def kind_of(kind: SqlType) -> str:
    """The family of a type: int, decimal, float, char, binary, guid, date, time, old (datetime), new, variant."""
    family = _FAMILIES.get(kind.name)
    if family is None:
        raise unsupported(kind.name)
    return family


def shown(kind: SqlType) -> str:
    """The name of a type in messages."""
    return {"decimal": "numeric", "rowversion": "timestamp"}.get(kind.name, kind.name)


def check(source: SqlType, target: SqlType, explicit: bool = False) -> None:
    """Error 206, 257 or 529 where the conversion does not exist or has to be asked for."""
    implicit, on_request = (row.split() for row in _ALLOWED[kind_of(source)])
    if kind_of(target) in implicit or (explicit and kind_of(target) in on_request):
        return
    pair = f"from data type {shown(source)} to {shown(target)} is not allowed."
    if kind_of(target) in on_request:
        raise SqlError(257, f"Implicit conversion {pair} Use the CONVERT function to run this query.", state=3)
    if explicit:
        raise SqlError(529, f"Explicit conversion {pair}", state=2)
    raise SqlError(206, f"Operand type clash: {shown(source)} is incompatible with {shown(target)}", state=2)


def common_type(items: Sequence[SqlType | Bound]) -> SqlType:
    """The type that CASE, UNION, VALUES or a comparison gives its members; a bare NULL has no say among others."""
    known = [item for item in items if not (isinstance(item, Bound) and item.untyped_null)] or list(items)
    return reduce(_common, [item.type if isinstance(item, Bound) else item for item in known])


def _common(a: SqlType, b: SqlType) -> SqlType:
    families = {kind_of(a), kind_of(b)}
    if _PRECEDENCE.index(a.name) < _PRECEDENCE.index(b.name):
        a, b = b, a
    if a == b:
        return a
    if a.name == "decimal":
        (p1, s1), (p2, s2) = digits(a), digits(b)
        whole, scale = max(p1 - s1, p2 - s2), max(s1, s2)
        return SqlType("decimal", precision=min(38, whole + scale), scale=min(scale, 38 - whole))
    if families == {"char"} or (families == {"binary"} and a.name != "rowversion"):
        name = a.name
        if a.name in ("char", "nchar", "binary") and (a.length != b.length or b.name.startswith("var")):
            name = {"char": "varchar", "nchar": "nvarchar", "binary": "varbinary"}[a.name]
        if a.name == "nchar" and b.name == "varchar":
            name = "nvarchar"
        most = 4000 if a.name in UNICODE_TYPES else 8000
        return SqlType(name, MAX if MAX in (a.length, b.length) else min(most, max(a.length, b.length)))
    if a.name in _SCALED:
        return SqlType(a.name, scale=max(a.scale, b.scale if b.name in _SCALED else 3 if b.name == "datetime" else 0))
    return a


def digits(kind: SqlType) -> tuple[int, int]:
    """Precision and scale of an exact number."""
    return (kind.precision, kind.scale) if kind.name == "decimal" else (_INT_DIGITS.get(kind.name, 0), 0)
