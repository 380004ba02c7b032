"""What happens to the rows of a query once they are there: order, DISTINCT, TOP, OFFSET.

Each step is an iterator over the one before, of pairs (row, sort keys), so that TOP stops reading (and locking) as soon
as it has enough. Knows nothing of names and of locks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from . import syntax
from .binding import Evaluate
from .collation import order_key
from .errortexts import sql_error
from .expressions import bind, coerce
from .scopes import Frame, OutColumn, Row, Scope
from .sqltypes import BIGINT, unsupported

Sort = tuple[Callable[[Frame, Row], Any], str | None, bool]
"""What to sort by, its collation, whether descending."""

Steps = Callable[[Frame], Iterable[tuple[Row, Any]]]


def once(tests: Sequence[Any]) -> Callable[[Frame], Iterator[None]]:
    def each(frame: Frame) -> Iterator[None]:
        if all(test(frame) is True for test in tests):
            yield

    return each


def base_rows(each: Callable[[Frame], Iterator[None]], outs: Sequence[Evaluate]) -> Steps:
    def rows(frame: Frame) -> Iterator[tuple[Row, Any]]:
        for _ in each(frame):
            yield tuple([out(frame) for out in outs]), None

    return rows


def row_key(row: Row, columns: Sequence[OutColumn]) -> tuple[Any, ...]:
    """What makes two rows the same for DISTINCT and set operations."""
    return tuple([order_key(value, column.collation) for value, column in zip(row, columns, strict=True)])


def distinct_rows(rows: Steps, columns: Sequence[OutColumn]) -> Steps:
    def distinct(frame: Frame) -> Iterator[tuple[Row, Any]]:
        seen = set()
        for row, _ in rows(frame):
            if (key := row_key(row, columns)) not in seen:
                seen.add(key)
                yield row, None

    return distinct


def sorted_rows(rows: Steps, sorts: Sequence[Sort], restore: list[int] | None, keep: bool = False) -> Steps:
    """Sorts; with restore, the rows of these slots stand in the frame again when theirs comes out."""

    def ordered(frame: Frame) -> Iterator[tuple[Row, Any]]:
        found = []
        for row, _ in rows(frame):
            keys = [order_key(get(frame, row), collation) for get, collation, _ in sorts]
            found.append((row, keys, [frame.rows[slot] for slot in restore] if restore else ()))
        for i in reversed(range(len(sorts))):
            found.sort(key=lambda item: item[1][i], reverse=sorts[i][2])
        for row, keys, saved in found:
            if restore:
                for slot, value in zip(restore, saved, strict=True):
                    frame.rows[slot] = value
            yield row, keys

    return ordered


def row_count(expr: syntax.Expr, scope: Scope, *, top: bool = True) -> Callable[[Frame], int]:
    """The number of TOP, OFFSET or FETCH."""
    value = coerce(bind(expr, scope), BIGINT).evaluate

    def count(frame: Frame) -> int:
        number = value(frame)
        if not isinstance(number, int):
            raise sql_error(1060)
        if number < 0:
            raise sql_error(127 if top else 10742)
        return number

    return count


def limited_rows(rows: Steps, query: syntax.Select, scope: Scope, sorts: Sequence[Sort]) -> Steps:
    if query.offset is not None:
        skip = row_count(query.offset, scope, top=False)
        take = row_count(query.fetch, scope) if query.fetch is not None else None
        return lambda f: islice(islice(rows(f), skip(f), None), take(f) if take is not None else None)
    if query.top is None:
        return rows
    if query.top.percent:
        raise unsupported("TOP ... PERCENT")
    count, ties = row_count(query.top.count, scope), query.top.with_ties
    if ties and not sorts:
        raise sql_error(1062)

    def top(frame: Frame) -> Iterator[tuple[Row, Any]]:
        left = count(frame)
        last = None
        if left == 0:
            return
        for row, keys in rows(frame):
            if left <= 0 and keys != last:
                return
            yield row, keys
            left, last = left - 1, keys
            if left <= 0 and not ties:
                return

    return top
