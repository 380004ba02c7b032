"""Queries bound: select lists, groups and aggregates, what ORDER BY means, assignments, set operations.

What a query needs at run time is put together here from sources, joins and the steps of pipeline.py. Knows nothing of
locks and of where results go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

from . import syntax
from .access import conjuncts
from .binding import Bound, BoundColumn, Evaluate
from .collation import order_key
from .conversion import common_type
from .errortexts import sql_error
from .expressions import bind, bind_predicate, coerce
from .functions import AGGREGATES, bind_aggregate
from .joins import plan
from .pipeline import Sort, Steps, base_rows, distinct_rows, limited_rows, once, row_key, sorted_rows
from .scopes import BoundRows, Frame, OutColumn, Row, Scope, out_column, slot_bound
from .sources import bind_source, leaves
from .sqltypes import INT, unsupported


def bind_query(query: syntax.Query, parent: Scope, *, target: bool = False) -> BoundRows:
    """target: the rows of its only table will be changed by the statement around it."""
    binder = parent.binder
    first = binder.slots
    bound, touched = binder.noting(lambda: _bind(query, parent, target))
    bound.slots_read = frozenset(slot for slot in touched if slot < first)
    return bound  # type: ignore[no-any-return]


def _bind(query: syntax.Query, parent: Scope, target: bool) -> BoundRows:
    if isinstance(query, syntax.SetOperation):
        return _set_operation(query, parent)
    assert isinstance(query, syntax.Select)
    return _Select(query, parent, target).bound


class _Select:
    """One SELECT being bound."""

    def __init__(self, query: syntax.Select, parent: Scope, target: bool) -> None:
        self.query = query
        self.binder = parent.binder
        self.scope = Scope(self.binder, parent)
        first_slot = self.binder.slots
        source = query.source
        if target and not isinstance(source, syntax.TableRef):
            raise unsupported("changing rows through a query that is more than one table")
        tree = bind_source(source, self.scope, source if target else None) if source is not None else None
        tests = conjuncts(query.where, self.scope)
        self.grouped = (
            bool(query.group_by) or query.having is not None or any(has_aggregate(i.expr) for i in query.items)
        )
        if target and (self.grouped or query.distinct):
            raise unsupported("changing rows through a query that groups")
        self.groups = [bind(expr, self.scope) for expr in query.group_by]
        self.aggregates: list[tuple[Any, Evaluate | None]] = []
        self.aggregate_slot = self.binder.slot()
        if self.grouped:
            self._restrict()
        self.names: list[str] = []
        self.items: list[Bound] = []
        self.exprs: list[syntax.Expr] = []
        for item in query.items:
            self._item(item)
        having = bind_predicate(query.having, self.scope) if query.having is not None else None
        self.sorts = [self._sort(item) for item in query.order_by]
        wanted = self._wanted_order() if tree is not None and not self.grouped and not query.distinct else []
        each, met = plan(tree, tests, wanted) if tree is not None else (once([c.test for c in tests]), False)
        own = list(range(first_slot, self.binder.slots))
        outs = [item.evaluate for item in self.items]
        produce = (
            self._grouping(each, [leaf.named for leaf in leaves(tree)] if tree else [], own, having)
            if self.grouped
            else each
        )
        columns = tuple(
            out_column(name, bound, self._base(expr))
            for name, bound, expr in zip(self.names, self.items, self.exprs, strict=True)
        )
        rows = base_rows(produce, outs)
        if query.distinct:
            rows = distinct_rows(rows, columns)
        if self.sorts and not (met and bool(wanted)):
            ties = query.top is not None and query.top.with_ties
            rows = sorted_rows(rows, self.sorts, own if target else None, ties)
        rows = limited_rows(rows, query, parent, self.sorts)
        few = source is None or (query.top is not None and not query.top.percent)
        self.bound = BoundRows(columns, lambda f: (row for row, _ in rows(f)), tree if target else None, few=few)

    def _item(self, item: syntax.SelectItem | syntax.SelectAssign) -> None:
        if isinstance(item, syntax.SelectAssign):
            type, _ = self.scope.variable(item.variable)
            expr = item.expr if item.op == "=" else syntax.Binary(item.op[0], syntax.Variable(item.variable), item.expr)  # type: ignore[arg-type]
            value, key = coerce(bind(expr, self.scope), type).evaluate, item.variable.lower()

            def assign(frame: Any) -> Any:
                frame.variables[key] = result = value(frame)
                return result

            self._add("", item.expr, Bound(type, assign))
        elif isinstance(item.expr, syntax.Star):
            for source in self.scope.sources:
                if item.expr.qualifier is None or (source.alias or "").lower() == item.expr.qualifier.lower():
                    for column in source.columns:
                        qualifier = syntax.ObjectName(source.alias, source.schema) if source.alias else None
                        node = syntax.Column(column.name, qualifier)
                        self._add(column.name, node, bind(node, self.scope))
            if not self.names:
                raise sql_error(107, item.expr.qualifier)
        else:
            name = (
                item.alias if item.alias is not None else item.expr.name if isinstance(item.expr, syntax.Column) else ""
            )
            self._add(name, item.expr, bind(item.expr, self.scope))

    def _add(self, name: str, expr: syntax.Expr, bound: Bound) -> None:
        self.names.append(name)
        self.exprs.append(expr)
        self.items.append(bound)

    def _base(self, expr: syntax.Expr) -> int | None:
        if not isinstance(expr, syntax.Column) or self.grouped:
            return None
        source, at, owner = self.scope.resolve(expr)
        return source.columns[at].base if owner is self.scope else None

    # --- order -----------------------------------------------------------------------------------

    def _sort(self, item: syntax.OrderItem) -> Sort:
        at = self._output(item.expr)
        if at is not None:
            bound = self.items[at]
            return (lambda f, row: row[at]), bound.collation[0] if bound.collation else None, item.descending
        if self.query.distinct:
            raise sql_error(145)
        bound = bind(item.expr, self.scope)
        evaluate = bound.evaluate
        return (lambda f, row: evaluate(f)), bound.collation[0] if bound.collation else None, item.descending

    def _output(self, expr: syntax.Expr) -> int | None:
        """The place in the select list that an ORDER BY item means: by number, name, or the same expression."""
        if isinstance(expr, syntax.Literal) and isinstance(expr.value, int):
            if not 1 <= expr.value <= len(self.items):
                raise sql_error(108, expr.value)
            return expr.value - 1
        if isinstance(expr, syntax.Column) and expr.qualifier is None:
            for i, name in enumerate(self.names):
                if name.lower() == expr.name.lower():
                    return i
        return next((i for i, known in enumerate(self.exprs) if known == expr), None)

    def _wanted_order(self) -> list[tuple[int, int, bool]]:
        wanted = []
        for item in self.query.order_by:
            at = self._output(item.expr)
            expr = self.exprs[at] if at is not None else item.expr
            if not isinstance(expr, syntax.Column):
                return []
            source, ordinal, owner = self.scope.resolve(expr)
            if owner is not self.scope:
                return []
            wanted.append((source.slot, ordinal, item.descending))
        return wanted

    # --- groups ----------------------------------------------------------------------------------

    def _restrict(self) -> None:
        """From here on the names mean groups: aggregates and GROUP BY expressions are known, other columns refused."""
        keys = set()
        for expr in self.query.group_by:
            if isinstance(expr, syntax.Column):
                source, at, _ = self.scope.resolve(expr)
                keys.add((source.slot, at))
        known = list(zip(self.query.group_by, self.groups, strict=True))

        def compute(node: syntax.Expr) -> BoundColumn | None:
            if isinstance(node, syntax.Function) and node.name in AGGREGATES:
                return self._aggregate(node)
            for expr, bound in known:
                if expr == node:
                    return BoundColumn(
                        bound.type, bound.collation[0] if bound.collation else None, bound.evaluate, bound.nullable
                    )
            return None

        def guard(node: syntax.Column, slot: int, at: int) -> None:
            if (slot, at) not in keys:
                prefix = next((s.alias for s in self.scope.sources if s.slot == slot), None)
                name = f"{prefix}.{node.name}" if prefix else node.name
                raise sql_error(8120, name)

        self.scope.compute, self.scope.guard = compute, guard

    def _aggregate(self, node: syntax.Function) -> BoundColumn:
        hooks = self.scope.compute, self.scope.guard
        self.scope.compute = self.scope.guard = None
        star = len(node.args) == 1 and isinstance(node.args[0], syntax.Star)
        try:
            if any(has_aggregate(arg) for arg in node.args):
                raise sql_error(130)
            argument = None if star or not node.args else bind(node.args[0], self.scope)
        finally:
            self.scope.compute, self.scope.guard = hooks
        aggregate = bind_aggregate(node, argument, star)
        at, slot = len(self.aggregates), self.aggregate_slot
        self.aggregates.append((aggregate, argument.evaluate if argument is not None else None))
        collation = aggregate.collation[0] if aggregate.collation is not None else None
        return BoundColumn(aggregate.type, collation, lambda f: f.rows[slot][at], aggregate.nullable)  # type: ignore[attr-defined]

    def _grouping(
        self, each: Any, sources: Sequence[Any], own: list[int], having: Any
    ) -> Callable[[Frame], Iterator[None]]:
        keys = [(bound.evaluate, bound.collation[0] if bound.collation else None) for bound in self.groups]
        arguments = [argument for _, argument in self.aggregates]
        folds = [aggregate.fold for aggregate, _ in self.aggregates]

        def produce(frame: Frame) -> Iterator[None]:
            groups: dict[Any, tuple[list[Any], list[list[Any]]]] = {}
            for _ in each(frame):
                key = tuple([order_key(evaluate(frame), collation) for evaluate, collation in keys])
                if (group := groups.get(key)) is None:
                    group = groups[key] = ([frame.rows[slot] for slot in own], [[] for _ in arguments])
                for values, argument in zip(group[1], arguments, strict=True):
                    values.append(argument(frame) if argument is not None else 1)
            if not groups and not keys:
                for named in sources:
                    frame.rows[named.slot] = named.nulls
                groups[()] = ([frame.rows[slot] for slot in own], [[] for _ in arguments])
            for rows, collected in groups.values():
                for slot, row in zip(own, rows, strict=True):
                    frame.rows[slot] = row
                frame.rows[self.aggregate_slot] = [fold(values) for fold, values in zip(folds, collected, strict=True)]
                if having is None or having(frame) is True:
                    yield

        return produce


def has_aggregate(node: Any) -> bool:
    """Whether an aggregate stands in the expression itself (not in a sub-query of it)."""
    if isinstance(node, syntax.Function) and node.name in AGGREGATES:
        return True
    if isinstance(node, syntax.Query):
        return False
    if isinstance(node, tuple):
        return any(has_aggregate(item) for item in node)
    return is_dataclass(node) and any(has_aggregate(getattr(node, f.name)) for f in fields(node))


# --- set operations --------------------------------------------------------------------------------


def _set_operation(query: syntax.SetOperation, parent: Scope) -> BoundRows:
    left, right = bind_query(query.left, parent), bind_query(query.right, parent)
    if len(left.columns) != len(right.columns):
        raise sql_error(205)
    pairs = list(zip(left.columns, right.columns, strict=True))
    types = [common_type([c.type for c in pair if not c.bare_null] or [INT]) for pair in pairs]
    columns = tuple(
        OutColumn(a.name, type, a.collation or b.collation, a.nullable or b.nullable)
        for a, b, type in zip(left.columns, right.columns, types, strict=True)
    )
    for a, b in zip(left.columns, right.columns, strict=True):
        if a.collation and b.collation and a.collation != b.collation and query.op != "union all":
            raise sql_error(468, b.collation, a.collation, query.op.upper())
    sides = [_converted(side, types, parent) for side in (left, right)]
    rows = _combine(query.op, sides[0], sides[1], columns)
    sorts = [_output_sort(item, columns) for item in query.order_by]
    if sorts:
        rows = sorted_rows(rows, sorts, None)
    return BoundRows(columns, lambda f: (row for row, _ in rows(f)))


def _output_sort(item: syntax.OrderItem, columns: Sequence[OutColumn]) -> Sort:
    expr = item.expr
    at = None
    if isinstance(expr, syntax.Literal) and isinstance(expr.value, int) and 1 <= expr.value <= len(columns):
        at = expr.value - 1
    elif isinstance(expr, syntax.Column):
        at = next((i for i, c in enumerate(columns) if c.name.lower() == expr.name.lower()), None)
    if at is None:
        raise sql_error(104)
    return (lambda f, row: row[at]), columns[at].collation, item.descending


def _converted(side: BoundRows, types: Sequence[Any], scope: Scope) -> Steps:
    if list(side.types) == list(types):
        return lambda f: ((row, None) for row in side.rows(f))
    slot = scope.binder.slot()
    outs = [
        coerce(slot_bound(column, slot, i), type).evaluate
        for i, (column, type) in enumerate(zip(side.columns, types, strict=True))
    ]

    def rows(frame: Frame) -> Iterator[tuple[Row, Any]]:
        for row in side.rows(frame):
            frame.rows[slot] = row
            yield tuple([out(frame) for out in outs]), None

    return rows


def _combine(op: str, left: Steps, right: Steps, columns: Sequence[OutColumn]) -> Steps:
    def rows(frame: Frame) -> Iterator[tuple[Row, Any]]:
        if op == "union all":
            yield from left(frame)
            yield from right(frame)
            return
        seen: set[Any] = set()
        if op == "union":
            wanted, other = True, None
        else:
            other = {row_key(row, columns) for row, _ in right(frame)}
            wanted = op == "intersect"
        for part in (left, right) if op == "union" else (left,):
            for row, _ in part(frame):
                key = row_key(row, columns)
                if key not in seen and (other is None or (key in other) is wanted):
                    seen.add(key)
                    yield row, None

    return rows
