"""Names inside one statement: what a column or variable means, and where its value stands at run time.

Every row source of a statement, those of its sub-queries too, has a numbered slot in one Frame, so that an inner query
reads the rows of the outer ones without copying. Knows nothing of tables, locks or results.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import syntax
from .binding import Bound, BoundColumn, Evaluate, Rank
from .errortexts import sql_error
from .sqltypes import Moment, SqlType, Value, unsupported

if TYPE_CHECKING:
    from .contexts import Context
    from .session import Session

Row = Sequence[Value]


class Frame:
    """The run-time state of one statement."""

    __slots__ = ("cache", "context", "rows", "session", "statement_time", "variables")

    def __init__(self, context: Context, slots: int) -> None:
        self.context = context
        self.session: Session = context.session
        self.variables = context.variables
        self.rows: list[Any] = [None] * slots
        self.statement_time: Moment = context.session.now()
        self.cache: dict[int, Any] = {}


@dataclass(frozen=True, slots=True)
class OutColumn:
    """A column of a source or of a result; base is its ordinal in the stored table beneath, when it is one."""

    name: str
    type: SqlType
    collation: str | None
    nullable: bool = True
    base: int | None = None
    bare_null: bool = False  # no type of its own: NULL


class Named:
    """A source as names see it. (A query of which an outer statement changes the rows points at its table: target.)"""

    def __init__(self, slot: int, columns: Sequence[OutColumn], alias: str | None, schema: str | None = None) -> None:
        self.slot = slot
        self.columns = tuple(columns)
        self.alias = alias
        self.schema = schema
        self.nulls: Row = (None,) * len(self.columns)
        self.index: dict[str, int] = {}
        for i, column in enumerate(self.columns):
            self.index.setdefault(column.name.lower(), i)

    def answers_to(self, qualifier: syntax.ObjectName) -> bool:
        if self.alias is None or qualifier.name.lower() != self.alias.lower():
            return False
        return qualifier.schema is None or (self.schema is not None and qualifier.schema.lower() == self.schema.lower())


@dataclass(slots=True)
class Binder:
    """What the binding of one statement collects: slots, rights to check, whether the result may be kept."""

    session: Session
    context: Context
    slots: int = 0
    touched: set[int] = field(default_factory=set)
    rights: list[tuple[Any, str]] = field(default_factory=list)
    cacheable: bool = True
    reads_tables: bool = False

    def slot(self) -> int:
        self.slots += 1
        return self.slots - 1

    def noting(self, bind: Callable[[], Any]) -> tuple[Any, frozenset[int]]:
        """Runs one binding and tells which slots it reads."""
        before, self.touched = self.touched, set()
        try:
            result = bind()
            return result, frozenset(self.touched)
        finally:
            self.touched |= before


def describe(name: syntax.ObjectName) -> str:
    return ".".join(part for part in (name.database, name.schema, name.name) if part is not None)


class Scope:
    """The names of one query level; implements binding.Scope."""

    def __init__(self, binder: Binder, parent: Scope | None = None, sources: Sequence[Named] = ()) -> None:
        self.binder = binder
        self.parent = parent
        self.sources: list[Named] = list(sources)
        self.ctes: dict[str, tuple[syntax.CommonTable, Scope] | None] = {}
        self.compute: Callable[[syntax.Expr], BoundColumn | None] | None = None
        self.guard: Callable[[syntax.Column, int, int], None] | None = None

    @property
    def collation(self) -> str:
        return self.binder.session.database.collation

    def computed(self, node: syntax.Expr) -> BoundColumn | None:
        return self.compute(node) if self.compute is not None else None

    def cte(self, name: str) -> tuple[syntax.CommonTable, Scope] | None:
        if name.lower() in self.ctes:
            if (found := self.ctes[name.lower()]) is None:
                raise unsupported(f"recursive WITH {name}")
            return found
        return self.parent.cte(name) if self.parent is not None else None

    def with_ctes(self, ctes: Sequence[syntax.CommonTable]) -> Scope:
        """A scope below this one that knows the common tables; each knows those before it."""
        scope = self
        for cte in ctes:
            home = Scope(self.binder, scope)
            home.ctes[cte.name.lower()] = None
            scope = Scope(self.binder, scope)
            scope.ctes[cte.name.lower()] = (cte, home)
        return scope

    def resolve(self, node: syntax.Column) -> tuple[Named, int, Scope]:
        if node.qualifier is None:
            found = [(s, s.index[node.name.lower()]) for s in self.sources if node.name.lower() in s.index]
            if len(found) > 1:
                raise sql_error(209, node.name)
            if found:
                return (*found[0], self)
        else:
            for source in self.sources:
                if source.answers_to(node.qualifier):
                    if (at := source.index.get(node.name.lower())) is None:
                        raise sql_error(207, node.name)
                    return source, at, self
        if self.parent is not None:
            return self.parent.resolve(node)
        if node.qualifier is None:
            raise sql_error(207, node.name)
        full = f"{describe(node.qualifier)}.{node.name}"
        raise sql_error(4104, full)

    def column(self, node: syntax.Column) -> BoundColumn:
        source, at, owner = self.resolve(node)
        if owner.guard is not None:
            owner.guard(node, source.slot, at)
        self.binder.touched.add(source.slot)
        slot, column = source.slot, source.columns[at]
        return BoundColumn(column.type, column.collation, lambda f: f.rows[slot][at], column.nullable)  # type: ignore[attr-defined]

    def variable(self, name: str) -> tuple[SqlType, Evaluate]:
        key = name.lower()
        declared = self.binder.context.types.get(key)
        if not isinstance(declared, SqlType):
            raise sql_error(137, name)
        return declared, lambda f: f.variables[key]

    def query(self, query: syntax.Query) -> BoundRows:
        from .query import bind_query  # a sub-query is a query again

        return bind_query(query, self)


@dataclass(slots=True)
class BoundRows:
    """A bound query: the columns it gives, and its rows in a frame. sources: the named sources of a plain select."""

    columns: tuple[OutColumn, ...]
    rows: Callable[[Frame], Iterator[Row]]
    target: Any = None
    slots_read: frozenset[int] = frozenset()
    few: bool = False  # TOP or constant rows: cheap to put first in a join

    @property
    def types(self) -> tuple[SqlType, ...]:
        return tuple(column.type for column in self.columns)

    @property
    def collations(self) -> tuple[str | None, ...]:
        return tuple(column.collation for column in self.columns)


def out_column(name: str, bound: Bound, base: int | None = None) -> OutColumn:
    return OutColumn(
        name, bound.type, bound.collation[0] if bound.collation else None, bound.nullable, base, bound.untyped_null
    )


def slot_bound(column: OutColumn, slot: int, at: int = 0) -> Bound:
    """A column of the row that stands in a slot, as an expression."""

    def get(frame: Any) -> Value:
        value: Value = frame.rows[slot][at]
        return value

    label = (column.collation, Rank.IMPLICIT) if column.collation else None
    return Bound(column.type, get, label, column.nullable)
