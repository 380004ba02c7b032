"""Aggregates: result types, and what a group's values come to.

Knows which rows are grouped as little as the functions do: the query collects the values and hands them over.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from decimal import ROUND_DOWN, Decimal
from typing import Any

from . import syntax
from .binding import Bound
from .collation import sort_key
from .conversion import EXACT, fit_decimal, fit_int
from .families import kind_of, shown
from .operators import one_collation
from .sqltypes import BIGINT, BIT, FLOAT, INT, SqlError, SqlType, Value

AGGREGATES = frozenset(("COUNT", "COUNT_BIG", "SUM", "MIN", "MAX", "AVG"))


@dataclass(frozen=True, slots=True)
class Aggregate:
    """type and collation of the result; fold takes one group's values (for ``COUNT(*)`` any value a row)."""

    type: SqlType
    collation: str | None
    nullable: bool
    fold: Callable[[Iterable[Value]], Value]


def bind_aggregate(node: syntax.Function, argument: Bound | None, star: bool = False) -> Aggregate:
    """star: ``COUNT(*)``, which has no argument and counts rows."""
    name, distinct = node.name, node.distinct
    if len(node.args) != 1:
        raise SqlError(174, f"The {name} function requires 1 argument(s).", severity=15)
    if argument is None:
        if not star or not name.startswith("COUNT"):
            raise SqlError(102, "Incorrect syntax near '*'.", severity=15)
        result = INT if name == "COUNT" else BIGINT
        return Aggregate(result, None, False, lambda values: fit_int(sum(1 for _ in values), result))
    kind, family = argument.type, kind_of(argument.type)
    collation = one_collation([argument], name.lower())

    def present(values: Iterable[Value]) -> list[Any]:
        known_values = [value for value in values if value is not None]
        return (
            list({sort_key(value, collation): value for value in reversed(known_values)}.values())
            if distinct
            else known_values
        )

    if name in ("COUNT", "COUNT_BIG"):
        result = INT if name == "COUNT" else BIGINT
        return Aggregate(result, None, False, lambda values: fit_int(len(present(values)), result))
    if name in ("MIN", "MAX"):
        if kind == BIT:
            raise SqlError(8117, f"Operand data type bit is invalid for {name.lower()} operator.")
        choose = min if name == "MIN" else max

        def pick(values: Iterable[Value]) -> Value:
            return choose(present(values), key=lambda value: sort_key(value, collation), default=None)

        return Aggregate(kind, collation, True, pick)
    if family not in ("int", "decimal", "float") or kind == BIT:
        raise SqlError(8117, f"Operand data type {shown(kind)} is invalid for {name.lower()} operator.")
    if family == "int":
        result = BIGINT if kind == BIGINT else INT
    elif family == "decimal":
        result = SqlType("decimal", precision=38, scale=kind.scale if name == "SUM" else max(kind.scale, 6))
    else:
        result = FLOAT

    def total(values: Iterable[Value]) -> Value:
        some = present(values)
        if not some:
            return None
        whole = sum(some[1:], some[0])
        if family == "int":
            fit_int(whole, result)
            return int(whole) if name == "SUM" else abs(whole) // len(some) * (1 if whole >= 0 else -1)
        if family == "float":
            return float(whole if name == "SUM" else whole / len(some))
        return fit_decimal(
            whole if name == "SUM" else EXACT.divide(whole, Decimal(len(some))), result, rounding=ROUND_DOWN
        )

    return Aggregate(result, None, True, total)
