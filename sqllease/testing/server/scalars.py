"""What the pure scalar functions compute: text and numbers, on values that are there (no NULL) and converted already.

Text functions get the collation first, number functions their result type. Knows no expressions.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_DOWN, ROUND_HALF_UP, Context, Decimal
from typing import Any

from .collation import Collation, find, join, split, unit_length
from .conversion import EXACT, fit_decimal, fit_int
from .sqltypes import MAX, SqlError, SqlType, Value, unsupported

# --- text ----------------------------------------------------------------------------------------


def units(text: str, collation: Collation) -> str:
    return split(text, collation.counts_characters)


def left(c: Collation, text: str, count: int) -> str:
    if count < 0:
        raise SqlError(537, "Invalid length parameter passed to the LEFT or SUBSTRING function.", state=3)
    return join(units(text, c)[:count])


def right(c: Collation, text: str, count: int) -> str:
    if count < 0:
        raise SqlError(536, "Invalid length parameter passed to the RIGHT function.")
    whole_text = units(text, c)
    return join(whole_text[max(0, len(whole_text) - count) :])


def substring(c: Collation, value: str | bytes, start: int, count: int) -> str | bytes:
    if count < 0:
        raise SqlError(537, "Invalid length parameter passed to the LEFT or SUBSTRING function.", state=3)
    begin, end = max(start - 1, 0), max(start - 1 + count, 0)
    return value[begin:end] if isinstance(value, bytes) else join(units(value, c)[begin:end])


def _each(change: Callable[[str], str], text: str) -> str:
    return "".join(new if len(new := change(char)) == 1 else char for char in text)


def upper(c: Collation, text: str) -> str:
    return _each(str.upper, text.replace("i", "\u0130") if c.turkish else text)


def lower(c: Collation, text: str) -> str:
    return _each(str.lower, text.replace("I", "\u0131").replace("\u0130", "i") if c.turkish else text)


def replace(c: Collation, text: str, old: str, new: str) -> str:
    rest, part, out, at = split(text), split(old), "", 0
    while found := find(rest, part, at, c.name):
        out, at = out + rest[at : found[0]] + new, found[1]
    return join(out + rest[at:])


def charindex(c: Collation, part: str, text: str, start: int = 1) -> int:
    found = find(units(text, c), units(part, c), max(start - 1, 0), c.name)
    return 0 if found is None else found[0] + 1


_LONGEST = 2**24


def replicate(kind: SqlType, text: str, count: int) -> str | None:
    """What is longer than its type is cut by the type."""
    if count < 0:
        return None
    if kind.length != MAX:
        return text * min(count, kind.length)
    if len(text) * count > _LONGEST:
        raise unsupported(f"REPLICATE to more than {_LONGEST} characters")
    return text * count


_QUOTES = {
    "[": "[]",
    "]": "[]",
    "'": "''",
    '"': '""',
    "(": "()",
    ")": "()",
    "<": "<>",
    ">": "<>",
    "{": "{}",
    "}": "{}",
    "`": "``",
}


def quotename(c: Collation, name: str, quote: str = "[") -> str | None:
    pair = _QUOTES.get(quote[:1])
    if pair is None or unit_length(name) > 128:
        return None
    return pair[0] + name.replace(pair[1], pair[1] * 2) + pair[1]


_PART = re.compile(r'\[((?:[^\]]|\]\])*)\]|"((?:[^"]|"")*)"|([^.\[\]"]*)')


def parsename(c: Collation, name: str, piece: int) -> str | None:
    parts, at = [], 0
    while True:
        match = _PART.match(name, at)
        if match is None:
            return None
        bracketed, quoted, plain = match.groups()
        parts.append(plain or (bracketed or "").replace("]]", "]") or (quoted or "").replace('""', '"'))
        at = match.end()
        if at == len(name):
            break
        if name[at] != ".":
            return None
        at += 1
    return (parts[-piece] or None) if 1 <= piece <= len(parts) <= 4 else None


# --- numbers -------------------------------------------------------------------------------------


_WIDE = Context(prec=400)
"""Wide enough for the largest float and its first 30 decimals."""


def round_(kind: SqlType, number: Any, digits: int, cut: int = 0) -> Value:
    rounding = ROUND_DOWN if cut else ROUND_HALF_UP
    exact = Decimal(number).quantize(Decimal(1).scaleb(-min(max(digits, -400), 30)), rounding, _WIDE)
    if kind.name == "decimal":
        return fit_decimal(exact, kind, "expression")
    return float(exact) if kind.name in ("float", "real") else fit_int(int(exact), kind)


def whole(rounding: str, kind: SqlType, number: Any) -> Value:
    if isinstance(number, int):
        return number
    whole = Decimal(number).to_integral_value(rounding, EXACT)
    return float(whole) if isinstance(number, float) else whole


def abs_(kind: SqlType, number: Any) -> Value:
    if kind.name == "float":
        return abs(float(number))
    return fit_int(abs(number), kind) if isinstance(number, int) else Decimal(number).copy_abs()


def sign(kind: SqlType, number: Any) -> Value:
    result = (number > 0) - (number < 0)
    return float(result) if isinstance(number, float) else Decimal(result) if isinstance(number, Decimal) else result
