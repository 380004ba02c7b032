"""Operators on bound expressions: conversion, comparison, arithmetic, concatenation, and the collation of the result.

Knows the static rules (result types, precedence of types and collations) and makes the closures. Knows no names.
"""

from __future__ import annotations

import operator
import uuid
from collections.abc import Callable, Sequence
from decimal import ROUND_DOWN, Decimal
from typing import Any

from .binding import Bound, Evaluate, Frame, Label, Predicate, Rank
from .collation import join, sort_key, split, unit_length
from .conversion import EXACT, converter, fit_decimal, fit_int, overflow, type_of
from .families import CHAR_TYPES, UNICODE_TYPES, common_type, digits, kind_of, shown
from .sqltypes import MAX, Moment, SqlError, SqlType, Value, unsupported
from .syntax import Literal

_COMPARE: dict[str, tuple[Callable[[Any, Any], bool], str]] = {
    "=": (operator.eq, "equal to"), "<>": (operator.ne, "not equal to"), "<": (operator.lt, "less than"),
    "<=": (operator.le, "less than or equal to"), ">": (operator.gt, "greater than"),
    ">=": (operator.ge, "greater than or equal to"),
}  # fmt: skip
_NAMES = {
    "+": "add",
    "-": "subtract",
    "*": "multiply",
    "/": "divide",
    "%": "modulo",
    "&": "'&'",
    "|": "'|'",
    "^": "'^'",
}


# --- collations ----------------------------------------------------------------------------------


def merge_labels(bounds: Sequence[Bound], what: str) -> Label | None:
    """The label of what is made of these (character) parts; explicit against explicit is error 468."""
    result: Label | None = None
    for bound in bounds:
        label = bound.collation
        if label is None or label == result:
            continue
        if result is None or label[1] > result[1]:
            result = label
        elif label[1] == result[1] and label[0] != result[0]:
            if label[1] is Rank.EXPLICIT:
                raise _conflict(f'{result[0]}" and "{label[0]}', what)
            if label[1] is Rank.IMPLICIT:
                result = (f'{result[0]}" and "{label[0]}', Rank.CONFLICT)
    return result


def one_collation(bounds: Sequence[Bound], what: str) -> str | None:
    """The collation under which these parts are compared; a conflict is error 468."""
    label = merge_labels(bounds, what)
    if label is not None and label[1] is Rank.CONFLICT:
        raise _conflict(label[0], what)
    return label[0] if label else None


def _conflict(pair: str, what: str) -> SqlError:
    return SqlError(468, f'Cannot resolve the collation conflict between "{pair}" in the {what} operation.', state=9)


# --- conversion ----------------------------------------------------------------------------------


def coerce(
    bound: Bound, target: SqlType, *, style: int | None = None, explicit: bool = False, collation: str | None = None
) -> Bound:
    """The expression in another type, as an assignment (or, explicit, a CAST) makes it; constants are converted now."""
    label = None
    if kind_of(target) == "char":
        label = bound.collation or ((collation, Rank.COERCIBLE) if collation else None)
    if bound.untyped_null:
        return Bound(target, bound.evaluate, label)
    if bound.type == target:
        return bound
    run, evaluate = converter(bound.type, target, style, explicit), bound.evaluate
    if bound.literal is not None:
        try:
            value = run(bound.literal.value)
        except SqlError:
            pass  # an error of the row that meets it, not of the whole statement
        else:
            constant = None if isinstance(value, (Moment, uuid.UUID)) else Literal(value, target)
            return Bound(target, lambda frame: value, label, bound.nullable, constant)
    return Bound(target, lambda frame: run(evaluate(frame)), label, bound.nullable)


# --- comparison ----------------------------------------------------------------------------------


def compare(op: str, left: Bound, right: Bound) -> Predicate:
    """``left op right``, unknown when either is NULL."""
    test, name = _COMPARE[op]
    left, right, collation = comparable(left, right, name, op)
    one, other = _keyed(left, collation), _keyed(right, collation)

    def run(frame: Frame) -> bool | None:
        a = one(frame)
        if a is None:
            return None
        b = other(frame)
        return None if b is None else test(a, b)

    return run


def comparable(left: Bound, right: Bound, what: str = "equal to", op: str = "=") -> tuple[Bound, Bound, str | None]:
    """Both sides in the type they are compared in, and the collation."""
    if left.untyped_null or right.untyped_null:
        return left, right, None
    kinds = kind_of(left.type), kind_of(right.type)
    if kinds == ("char", "char"):
        return left, right, one_collation((left, right), what)
    if "variant" in kinds:
        return _same_family(left, right), _same_family(right, left), left.collation[0] if left.collation else None
    if kinds != ("binary", "binary"):
        wide = common_type([left.type, right.type])
        if {"date", "time"} == set(kinds) or ("guid" in kinds and {"int", "decimal", "float"} & set(kinds)):
            raise SqlError(
                402,
                f"The data types {shown(left.type)} and {shown(right.type)} are incompatible in the {what} operator.",
            )
        if not set(kinds) <= {"int", "decimal"}:  # Python compares exact numbers as they are
            left, right = coerce(left, wide), coerce(right, wide)
    return left, right, one_collation((left, right), what)


def _same_family(bound: Bound, other: Bound) -> Bound:
    """A sql_variant whose value is not of the other side's family would be compared by families: refused."""
    if bound.type.name != "sql_variant":
        return bound
    if other.type.name == "sql_variant":
        raise unsupported("comparison of two sql_variant")
    evaluate, family, target = bound.evaluate, kind_of(other.type), other.type

    def run(frame: Frame) -> Value:
        value = evaluate(frame)
        if value is not None and kind_of(type_of(value)) != family:
            raise unsupported(f"comparison of sql_variant ({type_of(value).name}) with {target.name}")
        return value

    return Bound(other.type, run, None)


def _keyed(bound: Bound, collation: str | None) -> Callable[[Frame], Any]:
    evaluate = bound.evaluate
    if kind_of(bound.type) not in ("char", "binary", "guid"):
        return evaluate
    if bound.literal is not None:
        key = sort_key(bound.literal.value, collation)
        return lambda frame: key
    return lambda frame: sort_key(evaluate(frame), collation)


# --- arithmetic ----------------------------------------------------------------------------------


def arithmetic(op: str, left: Bound, right: Bound, collation: str) -> Bound:
    """``left op right`` with its type; strings and binary only add."""
    if left.untyped_null and not right.untyped_null:
        left = coerce(left, right.type)
    elif right.untyped_null and not left.untyped_null:
        right = coerce(right, left.type)
    kinds = {kind_of(left.type), kind_of(right.type)}
    name, nullable = _NAMES[op], left.nullable or right.nullable
    both = f"The data types {shown(left.type)} and {shown(right.type)} are incompatible in the {name} operator."
    if op == "+" and kinds in ({"char"}, {"binary"}):
        return _concatenate(left, right, nullable)
    if kinds == {"char"} or kinds == {"binary"}:
        if op in "&|^":
            raise SqlError(402, both)
        raise SqlError(8117, f"Operand data type {shown(left.type)} is invalid for {name} operator.")
    if "old" in kinds and kinds <= {"old", "int", "decimal", "float"}:
        raise unsupported("arithmetic with datetime")
    if kinds & {"guid", "date", "time", "new", "old"} and kinds & {"int", "decimal", "float"}:
        raise SqlError(206, f"Operand type clash: {shown(left.type)} is incompatible with {shown(right.type)}")
    if not kinds & {"int", "decimal", "float"} or "variant" in kinds:
        raise SqlError(402, both)
    wide = common_type([left.type, right.type])
    if wide.name == "bit" and op not in "&|^":
        raise SqlError(402, both)
    if (op in "&|^" and (kind_of(wide) != "int" or "char" in kinds)) or (op == "%" and kind_of(wide) == "float"):
        raise SqlError(402, both)
    if kind_of(wide) == "decimal":
        return _decimal(op, left, right, nullable)
    one, other = coerce(left, wide).evaluate, coerce(right, wide).evaluate
    work = _INTEGER[op] if kind_of(wide) == "int" else _FLOAT[op]

    def finish(value: Any) -> Value:
        if isinstance(value, int):
            return fit_int(value, wide)
        if value in (float("inf"), float("-inf")):
            raise overflow(wide)
        return value  # type: ignore[no-any-return]

    return Bound(wide, _strict(one, other, lambda a, b: finish(work(a, b))), None, nullable)


def _strict(one: Evaluate, other: Evaluate, work: Callable[[Any, Any], Value]) -> Evaluate:
    def run(frame: Frame) -> Value:
        a, b = one(frame), other(frame)
        return None if a is None or b is None else work(a, b)

    return run


def _checked(work: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    def run(a: Any, b: Any) -> Any:
        if b == 0:
            raise SqlError(8134, "Divide by zero error encountered.")
        return work(a, b)

    return run


def _quotient(a: int, b: int) -> int:
    return abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


_FLOAT: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _checked(operator.truediv),
}  # fmt: skip
_INTEGER: dict[str, Callable[[Any, Any], Any]] = {
    "+": operator.add, "-": operator.sub, "*": operator.mul, "/": _checked(_quotient),
    "%": _checked(lambda a, b: a - b * _quotient(a, b)), "&": operator.and_, "|": operator.or_, "^": operator.xor,
}  # fmt: skip


def _concatenate(left: Bound, right: Bound, nullable: bool) -> Bound:
    wide = common_type([left.type, right.type])
    if kind_of(wide) == "char":
        name, most = ("nvarchar", 4000) if wide.name in UNICODE_TYPES else ("varchar", 8000)
        name = wide.name if left.type.name == right.type.name else name
    else:
        name, most = "binary" if left.type.name == right.type.name == "binary" else "varbinary", 8000
    length = MAX if wide.length == MAX else min(most, left.type.length + right.type.length)
    target = SqlType(name, length)
    # the parts keep their own length: only their sum counts
    if kind_of(wide) == "binary":
        return Bound(
            target,
            _strict(left.evaluate, right.evaluate, lambda a, b: (a + b)[: None if length == MAX else length]),
            None,
            nullable,
        )
    cut = converter(SqlType(name, MAX), target)
    return Bound(
        target,
        _strict(left.evaluate, right.evaluate, lambda a, b: cut(join(a + b))),
        merge_labels((left, right), "add"),
        nullable,
    )


def _as_decimal(bound: Bound) -> Bound:
    if bound.type.name == "decimal":
        return bound
    if kind_of(bound.type) in ("char", "binary"):
        raise unsupported(f"decimal arithmetic with {bound.type.name}")
    precision, scale = digits(bound.type)
    target = SqlType("decimal", precision=precision, scale=scale)
    if bound.literal is not None and isinstance(bound.literal.value, int):  # a constant counts its own digits
        target = SqlType("decimal", precision=len(str(abs(bound.literal.value))))
    return coerce(bound, target)


def _decimal(op: str, left: Bound, right: Bound, nullable: bool) -> Bound:
    left, right = _as_decimal(left), _as_decimal(right)
    p1, s1, p2, s2 = left.type.precision, left.type.scale, right.type.precision, right.type.scale
    if op in "+-":
        scale = max(s1, s2)
        precision = max(p1 - s1, p2 - s2) + 1 + scale
    elif op == "*":
        precision, scale = p1 + p2 + 1, s1 + s2
    elif op == "/":
        scale = max(6, s1 + p2 + 1)
        precision = p1 - s1 + s2 + scale
    else:
        scale = max(s1, s2)
        precision = min(p1 - s1, p2 - s2) + scale
    if precision > 38:
        whole = precision - scale
        if op in "+-":
            scale = min(scale, max(0, 38 - max(p1 - s1, p2 - s2)))
        elif whole < 32:
            scale = min(scale, 38 - whole)
        else:
            scale = min(scale, 6)
        precision = 38
    target = SqlType("decimal", precision=precision, scale=scale)
    work: Callable[[Decimal, Decimal], Decimal] = {
        "+": EXACT.add, "-": EXACT.subtract, "*": EXACT.multiply,
        "/": _checked(EXACT.divide), "%": _checked(EXACT.remainder),
    }[op]  # fmt: skip
    cut = {"rounding": ROUND_DOWN} if op == "/" else {}
    return Bound(
        target,
        _strict(left.evaluate, right.evaluate, lambda a, b: fit_decimal(work(a, b), target, **cut)),
        None,
        nullable,
    )


def negate(bound: Bound) -> Bound:
    if bound.type.name == "bit" or kind_of(bound.type) not in ("int", "decimal", "float"):
        raise SqlError(8117, f"Operand data type {shown(bound.type)} is invalid for minus operator.")
    evaluate, kind = bound.evaluate, bound.type

    def run(frame: Frame) -> Value:
        value: Any = evaluate(frame)
        return None if value is None else fit_int(-value, kind) if isinstance(value, int) else -value

    return Bound(kind, run, None, bound.nullable)


def invert(bound: Bound) -> Bound:
    if kind_of(bound.type) != "int":
        raise SqlError(8117, f"Operand data type {shown(bound.type)} is invalid for '~' operator.")
    evaluate, mask = bound.evaluate, {"bit": 1, "tinyint": 255}.get(bound.type.name, -1)

    def run(frame: Frame) -> Value:
        value: Any = evaluate(frame)
        return None if value is None else value ^ mask

    return Bound(bound.type, run, None, bound.nullable)


# --- calls ---------------------------------------------------------------------------------------


def call(result: SqlType, work: Callable[..., Value], parts: Sequence[Bound], label: Label | None = None) -> Bound:
    """NULL for any NULL argument, else the function, cut to the length of its type."""
    evaluates = [part.evaluate for part in parts]
    length = result.length if result.name in ("varchar", "nvarchar") else 0

    def run(frame: Frame) -> Value:
        values = []
        for evaluate in evaluates:
            value = evaluate(frame)
            if value is None:
                return None
            values.append(value)
        outcome = work(*values)
        if length > 0 and isinstance(outcome, str) and len(outcome) * 2 > length and unit_length(outcome) > length:
            return join(split(outcome)[:length])
        return outcome

    return Bound(result, run, label, any(part.nullable for part in parts) or result.name in CHAR_TYPES)
