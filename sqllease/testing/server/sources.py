"""Where the rows of FROM come from: tables, catalogue views, derived tables, VALUES, and the joins between them.

Binds a FROM clause into nested loops over slots and chooses their order by the costs of access.py. Knows nothing of
select lists, grouping or changes; a source whose rows will be changed is marked as target and also gives its keys.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from . import syntax, views
from .access import FEW, SCAN, Conjunct, Hints, Path, best_path, conjuncts
from .binding import Bound, Predicate
from .conversion import common_type
from .errortexts import sql_error
from .expressions import bind, coerce
from .scopes import Binder, BoundRows, Frame, Named, OutColumn, Row, Scope, out_column
from .sqltypes import unsupported
from .storage import Access, Table
from .storage import Bound as StorageBound

Each = Callable[[Frame], Iterator[None]]
_AFTER_NULL = StorageBound((None,), inclusive=False)
"""No comparison is true for NULL, so a range without a low end begins after the NULLs."""


class Leaf:
    """A source without parts. Its rows are put into its slot one after another."""

    few = False
    correlated: frozenset[int] = frozenset()

    def __init__(self, named: Named) -> None:
        self.named = named
        self.slot = named.slot

    def path(self, probes: Sequence[Any], order: Sequence[int] = ()) -> tuple[float, Path | None]:
        return (FEW if self.few else SCAN / 2), None

    def read(self, frame: Frame, path: Path | None) -> Iterator[Row]:
        raise NotImplementedError

    def loop(self, path: Path | None, tests: Sequence[Predicate], *, inner: bool, backwards: bool = False) -> Each:
        """The loop over the rows that pass the tests; an inner one that seeks nothing reads its source once."""
        slot, read = self.slot, self.read
        once = inner and not (path and path.seeks) and not self.correlated

        def each(frame: Frame) -> Iterator[None]:
            rows: Any
            if once:
                if (rows := frame.cache.get(slot)) is None:
                    rows = frame.cache[slot] = list(read(frame, path))
            else:
                rows = read(frame, path)
            for row in rows:
                frame.rows[slot] = row
                for test in tests:
                    if test(frame) is not True:
                        break
                else:
                    yield

        return each


class TableLeaf(Leaf):
    """A stored table. find gives it at run time: a table variable is another one in each execution."""

    def __init__(
        self, named: Named, find: Callable[[Frame], Table], shape: Table, hints: Hints, target: str, binder: Binder
    ) -> None:
        super().__init__(named)
        self.find = find
        self.shape = shape
        self.hints = hints
        self.target = target
        self.key_slot = binder.slot() if target else -1
        self.few = shape.schema == ""

    def path(self, probes: Sequence[Any], order: Sequence[int] = ()) -> tuple[float, Path | None]:
        indexes = [self.shape.clustered, *self.shape.indexes]
        if self.hints.index is not None and self.hints.index not in ("0", "1"):
            if not any(index.name.lower() == self.hints.index.lower() for index in indexes):
                raise sql_error(308, self.hints.index, self.shape.schema, self.shape.name)
        path = best_path(indexes, [p for p in probes if p.slot == self.slot], self.hints, order)
        return (min(path.cost, FEW * 2) if self.few else path.cost), path

    def loop(self, path: Path | None, tests: Sequence[Predicate], *, inner: bool, backwards: bool = False) -> Each:
        assert path is not None
        if "FORCESEEK" in self.hints.flags and not path.seeks:
            raise sql_error(8622)
        if not self.target and not backwards:
            return super().loop(path, tests, inner=inner)
        slot, key_slot, target = self.slot, self.key_slot, self.target

        def each(frame: Frame) -> Iterator[None]:
            for key, row in self.pairs(frame, path, backwards):
                frame.rows[slot] = row
                if target:
                    frame.rows[key_slot] = key
                for test in tests:
                    if test(frame) is not True:
                        if target:
                            self.find(frame).unlock(frame.session.transaction_for(self.find(frame)), key)
                        break
                else:
                    yield

        return each

    def read(self, frame: Frame, path: Path | None) -> Iterator[Row]:
        assert path is not None
        return (row for _, row in self.pairs(frame, path, False))

    def pairs(self, frame: Frame, path: Path, backwards: bool) -> Iterator[tuple[Any, Row]]:
        session, table = frame.session, self.find(frame)
        tx = session.transaction_for(table)
        if table.database.secondary:
            access = Access("snapshot")  # every query is mapped to it there, and hints are ignored
        else:
            access = self.hints.access(session, target=self.target)
        index = path.index
        if table is not self.shape:
            index = next(i for i in (table.clustered, *table.indexes) if i.id == index.id)
        for prefix in path.prefixes(frame):
            if path.low is None and path.high is None:
                if prefix and backwards:
                    yield from table.scan(tx, access, index, StorageBound(prefix), StorageBound(prefix), reverse=True)
                elif prefix:
                    yield from table.seek(tx, access, index, prefix)
                else:
                    yield from table.scan(tx, access, index, reverse=backwards)
                continue
            ends = []
            for end in (path.low, path.high):
                value = end[0].values(frame)[0] if end is not None else None
                if end is not None and value is None:
                    return
                ends.append(
                    StorageBound((*prefix, value), end[1])
                    if end is not None
                    else StorageBound(prefix)
                    if prefix
                    else None
                )
            yield from table.scan(tx, access, index, ends[0] or _AFTER_NULL, ends[1], reverse=backwards)


class RowsLeaf(Leaf):
    """Rows that a function gives: a view of the catalogue, or inserted and deleted in a trigger."""

    def __init__(self, named: Named, rows: Callable[[Frame], Iterator[Row]]) -> None:
        super().__init__(named)
        self.rows = rows

    def read(self, frame: Frame, path: Path | None) -> Iterator[Row]:
        return iter(self.rows(frame))


class DerivedLeaf(Leaf):
    def __init__(self, named: Named, query: BoundRows) -> None:
        super().__init__(named)
        self.query = query
        self.few = query.few
        self.correlated = query.slots_read
        self.target = query.target

    def read(self, frame: Frame, path: Path | None) -> Iterator[Row]:
        return self.query.rows(frame)


class ValuesLeaf(Leaf):
    few = True

    def __init__(self, named: Named, rows: list[list[Bound]], correlated: frozenset[int]) -> None:
        super().__init__(named)
        self.values = [[bound.evaluate for bound in row] for row in rows]
        self.correlated = correlated

    def read(self, frame: Frame, path: Path | None) -> Iterator[Row]:
        for row in self.values:
            yield tuple([evaluate(frame) for evaluate in row])


@dataclass(slots=True)
class Joined:
    kind: str
    left: Tree
    right: Tree
    on: list[Conjunct]


Tree = Leaf | Joined


def leaves(tree: Tree) -> list[Leaf]:
    return [tree] if isinstance(tree, Leaf) else leaves(tree.left) + leaves(tree.right)


# --- binding ---------------------------------------------------------------------------------------


def bind_source(
    source: syntax.Source,
    scope: Scope,
    target: syntax.Source | None = None,
    verb: str = "update",
    *,
    lateral: bool = False,
) -> Tree:
    """Adds the names to the scope, in the order of the text. target: the source whose rows will be changed."""
    if isinstance(source, syntax.Join):
        left = bind_source(source.left, scope, target, verb)
        applied = source.kind in ("cross apply", "outer apply")
        right = bind_source(source.right, scope, target, verb, lateral=applied)
        on = conjuncts(source.on, scope)
        if source.kind == "right":
            return Joined("left", right, left, on)
        if source.kind == "full":
            raise unsupported("FULL JOIN")
        return Joined("left" if source.kind == "outer apply" else "apply" if applied else source.kind, left, right, on)
    if isinstance(source, syntax.TableRef):
        leaf = _table(source, scope, verb if source is target else "")
    elif isinstance(source, syntax.DerivedTable):
        assert scope.parent is not None
        leaf = _derived(source.query, scope if lateral else scope.parent, source.alias, source.columns, scope)
    elif isinstance(source, syntax.ValuesTable):
        leaf = _values(source, scope)
    else:
        raise unsupported(type(source).__name__)
    name = leaf.named.alias
    if name is not None and any(
        s.alias is not None and s.alias.lower() == name.lower() and s.schema == leaf.named.schema for s in scope.sources
    ):
        raise sql_error(1011, name)
    scope.sources.append(leaf.named)
    return leaf


def _derived(
    query: syntax.Query, inner: Scope, alias: str | None, names: Sequence[str], scope: Scope, target: bool = False
) -> DerivedLeaf:
    from .query import bind_query  # a derived table is a query again

    bound = bind_query(query, inner, target=target)
    if names and len(names) != len(bound.columns):
        raise sql_error(8158 if len(names) < len(bound.columns) else 8159, alias)
    columns = []
    for i, column in enumerate(bound.columns):
        name = names[i] if names else column.name
        if not name:
            raise sql_error(8155, i + 1, alias)
        columns.append(OutColumn(name, column.type, column.collation, column.nullable, column.base))
    return DerivedLeaf(Named(scope.binder.slot(), columns, alias), bound)


def _values(source: syntax.ValuesTable, scope: Scope) -> ValuesLeaf:
    def every() -> list[list[Bound]]:
        return [[bind(item, scope) for item in row] for row in source.rows]

    rows, slots = scope.binder.noting(every)
    if len({len(row) for row in rows}) > 1:
        raise sql_error(10709)
    if len(rows[0]) != len(source.columns):
        raise sql_error(8158 if len(rows[0]) > len(source.columns) else 8159, source.alias)
    types = [common_type([row[i] for row in rows]) for i in range(len(source.columns))]
    rows = [[coerce(bound, types[i]) for i, bound in enumerate(row)] for row in rows]
    columns = [out_column(name, rows[0][i]) for i, name in enumerate(source.columns)]
    return ValuesLeaf(Named(scope.binder.slot(), columns, source.alias), rows, slots)


def _table(ref: syntax.TableRef, scope: Scope, target: str) -> Leaf:
    binder, name = scope.binder, ref.name
    alias = ref.alias or name.name
    if name.schema is None and (found := scope.cte(name.name)) is not None:
        cte, home = found
        return _derived(cte.query, home, alias, cte.columns, scope, bool(target))
    pseudo = binder.context.pseudo
    if name.schema is None and pseudo is not None and name.name.lower() in ("inserted", "deleted"):
        which = name.name.lower()
        binder.reads_tables = True
        return RowsLeaf(Named(binder.slot(), table_columns(pseudo.table), alias), _pseudo_rows(which))
    if name.name.startswith("@"):
        key = name.name.lower()
        shape = binder.context.types.get(key)
        if not isinstance(shape, Table):
            raise sql_error(1087, name.name)
        named = Named(binder.slot(), table_columns(shape), alias)
        return TableLeaf(named, lambda f: f.context.tables[key], shape, Hints(), target, binder)
    binder.reads_tables = True
    if (view := views.view(name)) is not None:
        columns, rows = view
        return RowsLeaf(
            Named(binder.slot(), columns, alias, None if ref.alias else name.schema), lambda f: rows(f.session)
        )
    table = binder.session.find_table(name)
    if name.name.startswith("#"):
        binder.cacheable = False
    if not target:
        binder.rights.append((table, "SELECT"))
    named = Named(binder.slot(), table_columns(table), alias, None if ref.alias else table.schema)
    return TableLeaf(named, lambda f: table, table, Hints.of(ref.hints), target, binder)


def _pseudo_rows(which: str) -> Callable[[Frame], Iterator[Row]]:
    def rows(frame: Frame) -> Iterator[Row]:
        assert frame.context.pseudo is not None
        return iter(frame.context.pseudo.rows(which))

    return rows


def table_columns(table: Table) -> list[OutColumn]:
    return [OutColumn(c.name, c.type, c.collation, c.nullable, i) for i, c in enumerate(table.columns)]
