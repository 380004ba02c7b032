"""INSERT, UPDATE, DELETE and MERGE: which rows they concern and what becomes of them.

Each binds to a function that runs it and gives the number of rows. All of them read first (with U locks on the target),
let other sessions run, then write: the order in which the engine's own plans block.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from typing import Any

from . import syntax
from .access import conjuncts
from .changes import Make, Output, Target, Writing, bind_target, column_list, once
from .conversion import convert
from .errortexts import sql_error
from .expressions import bind, coerce
from .joins import plan
from .pipeline import row_count
from .query import bind_query
from .scopes import Frame, Row, Scope, slot_bound
from .sources import DerivedLeaf, TableLeaf, bind_source, leaves
from .sqltypes import INT, unsupported

Run = Callable[[Frame], int]


def bind_insert(node: syntax.Insert, root: Scope) -> Run:
    scope = root.with_ctes(node.ctes)
    target = bind_target(node.target, scope, ("insert",), "INSERT")
    if node.hints and set(node.hints) - {"ROWLOCK", "HOLDLOCK", "UPDLOCK", "SERIALIZABLE", "XLOCK"}:
        raise unsupported(node.hints[0])
    produce: Callable[[Frame], Iterator[Row]]
    if node.query is not None:
        query = bind_query(node.query, scope)
        slot = scope.binder.slot()
        given = [slot_bound(column, slot, i) for i, column in enumerate(query.columns)]
        makers = target.insert_makers(column_list(target, node.columns, len(given)), given)

        def produce(frame: Frame) -> Iterator[Row]:
            for row in query.rows(frame):
                frame.rows[slot] = row
                yield [make(frame) for make in makers]

    elif node.default_values:
        defaults = target.insert_makers([], [])

        def produce(frame: Frame) -> Iterator[Row]:
            yield [make(frame) for make in defaults]

    else:
        width = {len(row) for row in node.rows}
        if len(width) > 1:
            raise sql_error(10709)
        ordinals = column_list(target, node.columns, width.pop())
        every = [
            target.insert_makers(ordinals, [None if e is None else bind(e, scope) for e in row]) for row in node.rows
        ]

        def produce(frame: Frame) -> Iterator[Row]:
            for makers in every:
                yield [make(frame) for make in makers]

    output = Output(node.output, target, []) if node.output is not None else None

    def run(frame: Frame) -> int:
        target.writable(frame)
        rows = list(capped(produce(frame), frame))
        frame.session.pause()
        writing = Writing(frame, target, output)
        for row in rows:
            writing.insert(row)
        return writing.finish()

    return run


def bind_update(node: syntax.Update, root: Scope) -> Run:
    found = _Found(node, node.source, root, "update")
    target = found.target
    alias = found.leaf.named.alias
    steps, read = found.scope.binder.noting(
        lambda: [assignment(item, target, found, found.scope, alias) for item in node.assignments]
    )
    if found.leaf.slot in read:
        found.scope.binder.rights.append((target.table, "SELECT"))
    once(
        [found.ordinal(a.column) for a in node.assignments if a.column is not None],
        [a.column or "" for a in node.assignments],
    )
    output = Output(node.output, target, found.others) if node.output is not None else None

    def run(frame: Frame) -> int:
        target.writable(frame)
        saved = []
        for key, old in found.rows(frame):
            row = list(old)
            for step in steps:
                step(frame, row)
            saved.append((key, old, row, found.others_now(frame) if output else ()))
        frame.session.pause()
        writing = Writing(frame, target, output)
        if len(saved) > 1 and target.moves(saved):
            for key, *_ in saved:
                writing.take(key)
        for key, old, row, others in saved:
            found.restore(frame, others)
            writing.update(key, old, row)
        return writing.finish()

    return run


def bind_delete(node: syntax.Delete, root: Scope) -> Run:
    found = _Found(node, node.source, root, "delete")
    output = Output(node.output, found.target, found.others) if node.output is not None else None

    def run(frame: Frame) -> int:
        found.target.writable(frame)
        saved = [(key, old, found.others_now(frame) if output else ()) for key, old in found.rows(frame)]
        frame.session.pause()
        writing = Writing(frame, found.target, output)
        for key, old, others in saved:
            found.restore(frame, others)
            writing.delete(key, old)
        return writing.finish()

    return run


def capped(rows: Iterator[Any], frame: Frame) -> Iterator[Any]:
    limit = frame.session.options.rowcount
    return islice(rows, limit) if limit else rows


class _Found:
    """The rows of one table that an UPDATE or DELETE concerns: its FROM and WHERE, bound."""

    def __init__(
        self, node: syntax.Update | syntax.Delete, source: syntax.Source | None, root: Scope, verb: str
    ) -> None:
        outer = root.with_ctes(node.ctes)
        self.scope = scope = Scope(outer.binder, outer)
        if source is None:
            source = ref = syntax.TableRef(node.target, None, node.hints)
        else:
            ref = _reference(source, node.target)
            if node.hints:
                named = replace(ref, hints=(*ref.hints, *node.hints))
                source, ref = _swap(source, ref, named), named
        tree = bind_source(source, scope, ref, verb)
        leaf = next(leaf for leaf in leaves(tree) if getattr(leaf, "target", None))
        self.columns = list(range(len(leaf.named.columns)))
        inner = leaf
        if isinstance(leaf, DerivedLeaf):
            self.columns = [c.base if c.base is not None else -1 for c in leaf.named.columns]
            inner = leaf.query.target
        if not isinstance(inner, TableLeaf):
            raise unsupported(f"{verb} of {node.target.name}")
        self.leaf, self.inner = leaf, inner
        table = inner.shape
        self.target = Target(table, inner.find, scope, (verb,), verb.upper())
        if table.schema:
            scope.binder.rights.append((table, verb.upper()))
        tests = conjuncts(node.where, scope)
        if node.where is not None or source is not ref:
            scope.binder.rights.append((table, "SELECT"))
        self.each, _ = plan(tree, tests)
        self.others = [other.named for other in leaves(tree) if other is not leaf]
        self.top = row_count(node.top.count, outer) if node.top is not None else None
        if node.top is not None and (node.top.percent or node.top.with_ties):
            raise unsupported("TOP ... PERCENT")

    def ordinal(self, column: str) -> int:
        """Where a column of the target (a common table may have renamed it) stands in the table."""
        at = self.leaf.named.index.get(column.lower())
        if at is None:
            raise sql_error(207, column)
        if self.columns[at] < 0:
            raise sql_error(4406, self.leaf.named.alias)
        return self.columns[at]

    def rows(self, frame: Frame) -> Iterator[tuple[Any, Row]]:
        """(key, row) of each row once, whatever the joins multiply."""
        return capped(self._once(frame), frame)

    def _once(self, frame: Frame) -> Iterator[tuple[Any, Row]]:
        left = self.top(frame) if self.top is not None else None
        if left == 0:
            return
        seen = set()
        for _ in self.each(frame):
            key = frame.rows[self.inner.key_slot]
            if key is None or key in seen:
                continue
            seen.add(key)
            yield key, frame.rows[self.inner.slot]
            if left is not None and len(seen) >= left:
                return

    def others_now(self, frame: Frame) -> list[Any]:
        return [frame.rows[named.slot] for named in self.others]

    def restore(self, frame: Frame, rows: Any) -> None:
        for named, row in zip(self.others, rows, strict=False):
            frame.rows[named.slot] = row


def _reference(source: syntax.Source, target: syntax.ObjectName) -> syntax.TableRef:
    """The table in FROM that the target names, by alias first."""
    refs = list(_references(source))
    for ref in refs:
        if ref.alias is not None and target.schema is None and ref.alias.lower() == target.name.lower():
            return ref
    named = [
        r
        for r in refs
        if r.name.name.lower() == target.name.lower()
        and (target.schema or "").lower() in ("", (r.name.schema or "dbo").lower())
    ]
    if len(named) == 1:
        return named[0]
    if named:
        raise sql_error(8154, target.name)
    raise unsupported(f"a target '{target.name}' that FROM does not name")


def _references(source: syntax.Source) -> Iterator[syntax.TableRef]:
    if isinstance(source, syntax.TableRef):
        yield source
    elif isinstance(source, syntax.Join):
        yield from _references(source.left)
        yield from _references(source.right)


def _swap(source: syntax.Source, old: syntax.TableRef, new: syntax.TableRef) -> syntax.Source:
    if source is old:
        return new
    if isinstance(source, syntax.Join):
        return replace(source, left=_swap(source.left, old, new), right=_swap(source.right, old, new))
    return source


def assignment(
    item: syntax.Assignment, target: Target, found: _Found | None, scope: Scope, alias: str | None
) -> Callable[[Frame, list[Any]], None]:
    """One item of SET; expressions see the row as it was. alias: what the target is called in the statement."""
    expr = item.expr
    if item.column is None:
        assert item.variable is not None and expr is not None
        type, _ = scope.variable(item.variable)
        if item.op != "=":
            expr = syntax.Binary(item.op[0], syntax.Variable(item.variable), expr)  # type: ignore[arg-type]
        value, key = coerce(bind(expr, scope), type).evaluate, item.variable.lower()

        def assign(frame: Frame, row: list[Any]) -> None:
            frame.variables[key] = value(frame)

        return assign
    at = target.ordinal(item.column) if found is None else found.ordinal(item.column)
    if target.table.columns[at].identity is not None:
        raise sql_error(8102, item.column)
    if item.op != "=":
        assert expr is not None
        column = syntax.Column(item.column, syntax.ObjectName(alias) if alias else None)
        expr = syntax.Binary(item.op[0], column, expr)  # type: ignore[arg-type]
    make: Make = target.maker(at, None if expr is None else bind(expr, scope))
    name = item.variable.lower() if item.variable is not None else ""
    into = scope.variable(name)[0] if name else INT
    column_type = target.table.columns[at].type

    def apply(frame: Frame, row: list[Any]) -> None:
        row[at] = value = make(frame)
        if name:
            frame.variables[name] = convert(value, column_type, into)

    return apply
