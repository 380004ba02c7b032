"""Scalar functions: their parameters, result types and values.

A table says for each what its arguments are converted to and what comes out; what depends on session or catalogue is
declared (signatures.py) and asked of the session. Knows nothing of rows or names.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import ROUND_CEILING, ROUND_FLOOR
from functools import partial
from typing import Any

from . import scalars
from .aggregates import AGGREGATES as AGGREGATES
from .aggregates import bind_aggregate as bind_aggregate
from .binding import Bound, Frame, Label, Rank
from .collation import join, known, split, unit_length
from .datefunctions import CLOCK, bind_date_function, offset
from .families import CHAR_TYPES, UNICODE_TYPES, common_type, kind_of, shown
from .operators import call, coerce, merge_labels, one_collation
from .signatures import INTRINSICS, REFUSED, SYSNAME
from .sqltypes import BIGINT, FLOAT, GUID, INT, MAX, SqlError, SqlType, Value, nvarchar, unsupported, varbinary, varchar


def counted(name: str, count: int, low: int, high: int) -> None:
    """Error 174 or 189 for a wrong number of arguments."""
    if low <= count <= high:
        return
    if low == high:
        raise SqlError(174, f"The {name.lower()} function requires {low} argument(s).", severity=15)
    raise SqlError(189, f"The {name.lower()} function requires {low} to {high} arguments.", severity=15)


# --- argument and result types -------------------------------------------------------------------


def as_text(bound: Bound, collation: str) -> Bound:
    if kind_of(bound.type) == "char":
        return bound
    wide = {"int": 24, "decimal": 41, "float": 23, "guid": 36, "binary": bound.type.length}.get(kind_of(bound.type), 34)
    return coerce(bound, SqlType("nvarchar" if bound.untyped_null else "varchar", wide or 1), collation=collation)


def _text_type(source: SqlType, length: int | None = None) -> SqlType:
    """varchar or nvarchar as the source is, as long as it or as given."""
    name, most = ("nvarchar", 4000) if source.name in UNICODE_TYPES else ("varchar", 8000)
    if length is None or (source.length == MAX and length > most):
        return SqlType(name, source.length)
    return SqlType(name, max(1, min(length, most)))


def _counted_type(args: Sequence[Bound], at: int) -> SqlType:
    """Of LEFT, RIGHT, SUBSTRING: not longer than a constant count, nor than the source."""
    source, count = args[0].type, args[at].literal
    if source.name in ("binary", "varbinary"):
        return varbinary(source.length)
    if count is None or not isinstance(count.value, int) or source.length == MAX:
        return _text_type(source)
    return _text_type(source, min(max(count.value, 1), source.length))


def _length_type(args: Sequence[Bound]) -> SqlType:
    return BIGINT if args[0].type.length == MAX else INT


def _number_type(args: Sequence[Bound]) -> SqlType:
    return {"int": INT, "smallint": INT, "tinyint": INT, "bit": FLOAT}.get(args[0].type.name, args[0].type)


def _whole_type(args: Sequence[Bound]) -> SqlType:
    kind = _number_type(args)
    return SqlType("decimal", precision=kind.precision) if kind.name == "decimal" else kind


def _replace_type(args: Sequence[Bound]) -> SqlType:
    wide = common_type([bound.type for bound in args])
    return _text_type(wide, None if args[0].type.length == MAX else 8000)


def _replicate_type(args: Sequence[Bound]) -> SqlType:
    count = args[1].literal
    if args[0].type.length == MAX:
        return _text_type(args[0].type)
    return _text_type(
        args[0].type, 8000 if count is None or not isinstance(count.value, int) else args[0].type.length * count.value
    )


# --- the table -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pure:
    """params: c text, n nvarchar, i int, f number, x text or binary; ? optional from here."""

    params: str
    result: SqlType | Callable[[Sequence[Bound]], SqlType]
    work: Callable[..., Value]
    typed: bool = False  # gets the result type first, else the collation


_PURE: dict[str, _Pure] = {
    "LEN": _Pure("c", _length_type, lambda c, text: len(scalars.units(text, c).rstrip(" "))),
    "LEFT": _Pure("ci", partial(_counted_type, at=1), scalars.left),
    "RIGHT": _Pure("ci", partial(_counted_type, at=1), scalars.right),
    "SUBSTRING": _Pure("xii", partial(_counted_type, at=2), scalars.substring),
    "UPPER": _Pure("c", lambda args: _text_type(args[0].type), scalars.upper),
    "LOWER": _Pure("c", lambda args: _text_type(args[0].type), scalars.lower),
    "LTRIM": _Pure("c", lambda args: _text_type(args[0].type), lambda c, text: text.lstrip(" ")),
    "RTRIM": _Pure("c", lambda args: _text_type(args[0].type), lambda c, text: text.rstrip(" ")),
    "TRIM": _Pure("c", lambda args: _text_type(args[0].type), lambda c, text: text.strip(" ")),
    "REPLACE": _Pure("ccc", _replace_type, scalars.replace),
    "CHARINDEX": _Pure("cc?i", lambda args: _length_type(args[1:]), scalars.charindex),
    "REPLICATE": _Pure("ci", _replicate_type, scalars.replicate, typed=True),
    "SPACE": _Pure("i", varchar(8000), lambda c, n: None if n < 0 else " " * min(n, 8000)),
    "QUOTENAME": _Pure("n?n", nvarchar(258), scalars.quotename),
    "PARSENAME": _Pure("ni", SYSNAME, scalars.parsename),
    "UNICODE": _Pure("n", INT, lambda c, text: ord(scalars.units(text, c)[0]) if text else None),
    "ASCII": _Pure("c", INT, lambda c, text: text[0].encode("cp1252", "replace")[0] if text else None),
    "NCHAR": _Pure("i", SqlType("nchar", 1), lambda c, n: chr(n) if 0 <= n <= 0xFFFF else None),
    "CHAR": _Pure(
        "i", SqlType("char", 1), lambda c, n: bytes((n,)).decode("cp1252", "replace") if 0 <= n <= 255 else None
    ),
    "ABS": _Pure("f", _number_type, scalars.abs_, typed=True),
    "SIGN": _Pure("f", _number_type, scalars.sign, typed=True),
    "CEILING": _Pure("f", _whole_type, partial(scalars.whole, ROUND_CEILING), typed=True),
    "FLOOR": _Pure("f", _whole_type, partial(scalars.whole, ROUND_FLOOR), typed=True),
    "ROUND": _Pure("fi?i", _number_type, scalars.round_, typed=True),
}


def _limits(params: str) -> tuple[int, int]:
    required, _, optional = params.partition("?")
    return len(required), len(required) + len(optional)


def _argument(letter: str, bound: Bound, at: int, name: str, collation: str) -> Bound:
    kind = kind_of(bound.type)
    if letter == "c" or (letter == "x" and bound.type.name not in ("binary", "varbinary")):
        return as_text(bound, collation)
    if letter == "n":
        return coerce(bound, nvarchar(bound.type.length if kind == "char" else 4000), collation=collation)
    if letter in "ib":
        return coerce(bound, INT if letter == "i" else BIGINT)
    if letter == "f" and kind not in ("int", "decimal", "float"):
        if kind == "char":
            return coerce(bound, FLOAT)
        raise SqlError(
            8116, f"Argument data type {shown(bound.type)} is invalid for argument {at} of {name.lower()} function."
        )
    return bound


def recognized(name: str) -> None:
    """Error 195 for a name that SQL Server does not know, a refusal of one that it does and this server does not."""
    if name in REFUSED:
        raise unsupported(name)
    if not any(name in known_here for known_here in (CLOCK, INTRINSICS, _SPECIAL, _PURE)):
        raise SqlError(195, f"'{name}' is not a recognized built-in function name.", severity=15, state=10)


def bind_function(name: str, args: Sequence[Bound], collation: str) -> Bound:
    """A call with bound arguments of a function that is recognized; collation is the database's."""
    default: Label = (collation, Rank.COERCIBLE)
    if name in CLOCK:
        counted(name, len(args), 0, 0)
        kind, clock = CLOCK[name]
        return Bound(kind, clock, None, False)
    if name in INTRINSICS:
        params, result = INTRINSICS[name]
        counted(name, len(args), *_limits(params))
        parts = [
            _argument(p, a, i, name, collation)
            for i, (p, a) in enumerate(zip(params.replace("?", ""), args, strict=False), 1)
        ]
        evaluates = [part.evaluate for part in parts]

        def ask(frame: Frame) -> Value:
            return frame.session.intrinsic(name, tuple([evaluate(frame) for evaluate in evaluates]))

        return Bound(result, ask, default if result.name in CHAR_TYPES else None)
    if name in _SPECIAL:
        low, high, build = _SPECIAL[name]
        counted(name, len(args), low, high)
        return build(list(args), collation)
    pure = _PURE[name]
    counted(name, len(args), *_limits(pure.params))
    params = pure.params.replace("?", "")
    parts = [_argument(p, a, i, name, collation) for i, (p, a) in enumerate(zip(params, args, strict=False), 1)]
    result = pure.result if isinstance(pure.result, SqlType) else pure.result(parts)
    texts = [part for part in parts if kind_of(part.type) == "char"]
    label = merge_labels(texts, name.lower()) or default
    first: Any = result if pure.typed else known(one_collation(texts, name.lower()) or collation)
    return call(result, partial(pure.work, first), parts, label if result.name in CHAR_TYPES else None)


# --- functions with rules of their own -----------------------------------------------------------


def _isnull(args: list[Bound], collation: str) -> Bound:
    first, second = args
    target = second.type if first.untyped_null else first.type
    one, other = coerce(first, target, collation=collation), coerce(second, target, collation=collation)

    def run(frame: Frame) -> Value:
        value = one.evaluate(frame)
        return other.evaluate(frame) if value is None else value

    return Bound(target, run, merge_labels((one, other), "isnull"), first.nullable and second.nullable)


def _coalesce(args: list[Bound], collation: str) -> Bound:
    if all(bound.untyped_null for bound in args):
        message = "At least one of the arguments to COALESCE must be an expression that is not the NULL constant."
        raise SqlError(4127, message)
    target = common_type(args)
    parts = [coerce(bound, target, collation=collation) for bound in args]

    def run(frame: Frame) -> Value:
        return next((value for part in parts if (value := part.evaluate(frame)) is not None), None)

    return Bound(target, run, merge_labels(parts, "coalesce"), all(bound.nullable for bound in args))


def _concat(args: list[Bound], collation: str) -> Bound:
    parts = [as_text(bound, collation) for bound in args]
    wide = common_type(parts)
    target = _text_type(wide, None if wide.length == MAX else sum(part.type.length for part in parts))
    evaluates = [part.evaluate for part in parts]

    def run(frame: Frame) -> Value:
        text = join("".join(str(evaluate(frame) or "") for evaluate in evaluates))
        return text if target.length == MAX else join(split(text)[: target.length])

    return Bound(target, run, merge_labels(parts, "concat") or (collation, Rank.COERCIBLE), False)


def _choose(args: list[Bound], collation: str) -> Bound:
    target = common_type(args[1:])
    number = coerce(args[0], INT)
    parts = [coerce(bound, target, collation=collation) for bound in args[1:]]

    def run(frame: Frame) -> Value:
        at = number.evaluate(frame)
        return parts[at - 1].evaluate(frame) if isinstance(at, int) and 1 <= at <= len(parts) else None

    return Bound(target, run, merge_labels(parts, "choose"))


def _datalength(args: list[Bound], collation: str) -> Bound:
    kind = args[0].type
    fixed = {
        "bit": 1, "tinyint": 1, "smallint": 2, "int": 4, "bigint": 8, "float": 8, "uniqueidentifier": 16, "date": 3,
        "datetime": 8, "time": 3, "datetime2": 6, "datetimeoffset": 8,
    }.get(kind.name, 0)  # fmt: skip
    if kind.name in ("time", "datetime2", "datetimeoffset"):
        fixed += (kind.scale > 2) + (kind.scale > 4)
    elif kind.name == "decimal":
        fixed = 5 + 4 * ((kind.precision > 9) + (kind.precision > 19) + (kind.precision > 28))
    elif kind.name == "sql_variant":
        raise unsupported("DATALENGTH of sql_variant")
    factor = 2 if kind.name in UNICODE_TYPES else 1
    return call(_length_type(args), lambda v: factor * unit_length(v) if isinstance(v, str) else fixed or len(v), args)


_SPECIAL: dict[str, tuple[int, int, Callable[[list[Bound], str], Bound]]] = {
    "ISNULL": (2, 2, _isnull),
    "COALESCE": (2, 254, _coalesce),
    "CONCAT": (2, 254, _concat),
    "CHOOSE": (2, 254, _choose),
    "DATALENGTH": (1, 1, _datalength),
    "SWITCHOFFSET": (2, 2, partial(offset, "switchoffset")),
    "TODATETIMEOFFSET": (2, 2, partial(offset, "todatetimeoffset")),
    "NEWID": (0, 0, lambda args, collation: Bound(GUID, lambda frame: uuid.uuid4(), None, False)),
    "YEAR": (1, 1, lambda args, collation: bind_date_function("DATEPART", "year", args)),
    "MONTH": (1, 1, lambda args, collation: bind_date_function("DATEPART", "month", args)),
    "DAY": (1, 1, lambda args, collation: bind_date_function("DATEPART", "day", args)),
}
