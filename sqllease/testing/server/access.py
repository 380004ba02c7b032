"""How a table is reached: what its hints mean, which index the conditions allow, what that is likely to cost.

Knows indexes, conditions and isolation levels. Knows neither joins nor rows; the storage takes the locks it is told to.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from . import syntax
from .binding import Bound, Predicate, Rank
from .collation import order_key
from .conversion import convert
from .errortexts import sql_error
from .expressions import bind, bind_predicate, coerce
from .scopes import BoundRows, Frame, OutColumn, Scope
from .sqltypes import MAX, SqlType, Value, unsupported
from .storage import Access

if TYPE_CHECKING:
    from .session import Session

UNIQUE, PREFIX, RANGE, FEW, SCAN = 1.0, 10.0, 30.0, 8.0, 1000.0
"""Guesses of rows that come out of a path; only their order matters."""


# --- hints -----------------------------------------------------------------------------------------

_ISOLATION = {
    "NOLOCK": "READ UNCOMMITTED",
    "READUNCOMMITTED": "READ UNCOMMITTED",
    "READCOMMITTED": "READ COMMITTED",
    "READCOMMITTEDLOCK": "READ COMMITTED",
    "REPEATABLEREAD": "REPEATABLE READ",
    "SERIALIZABLE": "SERIALIZABLE",
    "HOLDLOCK": "SERIALIZABLE",
}
_PLAIN = {"UPDLOCK", "XLOCK", "ROWLOCK", "READPAST", "FORCESEEK", "FORCESCAN"}


@dataclass(frozen=True, slots=True)
class Hints:
    isolation: str | None = None
    flags: frozenset[str] = frozenset()
    index: str | None = None

    @staticmethod
    def of(words: Sequence[str]) -> Hints:
        isolation, index, flags = None, None, set()
        for word in words:
            upper = word.upper()
            if upper in _ISOLATION:
                if isolation not in (None, _ISOLATION[upper]):
                    raise sql_error(1047)
                isolation = _ISOLATION[upper]
                flags |= {upper} & {"READCOMMITTEDLOCK"}
            elif upper in _PLAIN:
                flags.add(upper)
            elif upper.startswith("INDEX(") and "," not in upper:
                index = word[6:-1].strip().strip("[]")
            else:
                raise unsupported(word)
        locking = flags & {"UPDLOCK", "XLOCK", "READPAST"}
        if isolation == "READ UNCOMMITTED" and locking or {"UPDLOCK", "XLOCK"} <= flags:
            raise sql_error(1047)
        return Hints(isolation, frozenset(flags), index)

    def access(self, session: Session, *, target: str) -> Access:
        """The locks of one read. target: '' or what will change the rows; then they are read with U locks, except by a
        MERGE under HOLDLOCK, which keeps shared ones (that is why it deadlocks without UPDLOCK)."""
        level = self.isolation or session.options.isolation
        database = session.database
        locking = bool(target or self.flags & {"UPDLOCK", "XLOCK"})
        if "READPAST" in self.flags:
            versioned = level == "READ COMMITTED" and database.rcsi and "READCOMMITTEDLOCK" not in self.flags
            if level not in ("READ COMMITTED", "REPEATABLE READ") or (versioned and not locking):
                raise sql_error(650)
        if level == "SNAPSHOT" and not database.allow_snapshot:
            raise sql_error(3952, database.name)
        serial = level == "SERIALIZABLE"
        keep = serial or level == "REPEATABLE READ"
        mode: str | None = "S"
        if "XLOCK" in self.flags:
            mode, keep = "X", True
        elif "UPDLOCK" in self.flags:
            mode, keep = "U", True
        elif target:
            mode = "S" if target == "merge" and serial else "U"
        elif level == "READ UNCOMMITTED":
            mode = None
        elif level == "SNAPSHOT" or (
            level == "READ COMMITTED" and database.rcsi and "READCOMMITTEDLOCK" not in self.flags
        ):
            mode = "snapshot"
        return Access(mode=mode, keep=keep, range=serial, readpast="READPAST" in self.flags)


# --- conditions ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Probe:
    """``column op value`` with the column of one leaf; value is one expression, or several for IN."""

    slot: int
    ordinal: int
    op: str
    values: Callable[[Frame], list[Value]]  # in the column's type
    slots: frozenset[int]  # what the values read
    by_query: bool = False
    collation: str | None = None


@dataclass(frozen=True, slots=True)
class Conjunct:
    test: Predicate
    slots: frozenset[int]
    probes: tuple[Probe, ...]


_MIRROR = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_FAMILIES: tuple[tuple[str, ...], ...] = (
    ("bit", "tinyint", "smallint", "int", "bigint"),
    ("char", "varchar", "nchar", "nvarchar"),
    ("binary", "varbinary", "rowversion"),
    (
        "char",
        "varchar",
        "nchar",
        "nvarchar",
        "time",
        "date",
        "smalldatetime",
        "datetime",
        "datetime2",
        "datetimeoffset",
    ),
    ("uniqueidentifier",),
    ("decimal",),
    ("float",),
)


def _seekable(column: OutColumn, value: Bound) -> bool:
    """Whether the comparison happens in the column's own type and collation, so that its index order serves."""
    if value.collation is not None and value.collation[1] is Rank.EXPLICIT and value.collation[0] != column.collation:
        return False
    for family in _FAMILIES:
        if column.type.name in family and value.type.name in family:
            if column.type.name == value.type.name:
                return (value.type.scale, value.type.precision) <= (column.type.scale, column.type.precision)
            return family.index(value.type.name) < family.index(column.type.name)
    return value.untyped_null


def _widest(type: SqlType) -> SqlType:
    return (
        replace(type, length=MAX)
        if type.length and type.name in ("char", "varchar", "nchar", "nvarchar", "binary", "varbinary")
        else type
    )


def conjuncts(node: syntax.Expr | None, scope: Scope) -> list[Conjunct]:
    if node is None:
        return []
    if isinstance(node, syntax.And):
        return [c for item in node.items for c in conjuncts(item, scope)]
    test, slots = scope.binder.noting(lambda: bind_predicate(node, scope))
    return [Conjunct(test, slots, tuple(_probes(node, scope)))]


def _probes(node: syntax.Expr, scope: Scope) -> list[Probe]:
    pairs: list[tuple[syntax.Expr, str, tuple[syntax.Expr, ...], syntax.Query | None]] = []
    if isinstance(node, syntax.Compare) and node.op in _MIRROR:
        pairs = [(node.left, node.op, (node.right,), None), (node.right, _MIRROR[node.op], (node.left,), None)]
    elif isinstance(node, syntax.Between) and not node.negated:
        pairs = [(node.operand, ">=", (node.low,), None), (node.operand, "<=", (node.high,), None)]
    elif isinstance(node, syntax.InList) and not node.negated:
        pairs = [(node.operand, "in", node.items, None)]
    elif isinstance(node, syntax.InQuery) and not node.negated:
        pairs = [(node.operand, "in", (), node.query)]
    found = []
    for column, op, values, query in pairs:
        if not isinstance(column, syntax.Column):
            continue
        source, at, owner = scope.resolve(column)
        if owner is not scope:
            continue
        target = source.columns[at]
        rows = scope.query(query) if query is not None else None
        if rows is not None:
            label = (rows.collations[0], Rank.IMPLICIT) if rows.collations[0] else None
            bounds: tuple[Bound, ...] = (Bound(rows.types[0], lambda frame: None, label),)
            slots = rows.slots_read
        else:
            bounds, slots = scope.binder.noting(lambda v=values: tuple(bind(item, scope) for item in v))  # type: ignore[misc]
        if source.slot not in slots and all(_seekable(target, bound) for bound in bounds):
            give = _queried(rows, target.type) if rows is not None else _listed(bounds, target.type)
            found.append(Probe(source.slot, at, op, give, slots, rows is not None, target.collation))
    return found


def _listed(bounds: Sequence[Bound], type: SqlType) -> Callable[[Frame], list[Value]]:
    evaluates = [coerce(bound, _widest(type)).evaluate for bound in bounds]
    return lambda frame: [evaluate(frame) for evaluate in evaluates]


def _queried(rows: BoundRows, type: SqlType) -> Callable[[Frame], list[Value]]:
    source, wide = rows.types[0], _widest(type)
    return lambda frame: [convert(row[0], source, wide) for row in rows.rows(frame)]


# --- paths -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Path:
    """An index with the values to seek: equal ones for its first columns, then perhaps bounds for the next."""

    cost: float
    index: Any
    equals: tuple[Probe, ...] = ()
    low: tuple[Probe, bool] | None = None
    high: tuple[Probe, bool] | None = None
    unique: bool = False

    @property
    def seeks(self) -> bool:
        return bool(self.equals or self.low or self.high)

    def prefixes(self, frame: Frame) -> list[tuple[Any, ...]]:
        """The key prefixes to seek, one unless there is an IN; without those that hold a NULL."""
        found: list[tuple[Any, ...]] = [()]
        for probe in self.equals:
            values = {order_key(value, probe.collation): value for value in probe.values(frame) if value is not None}
            found = [(*prefix, value) for prefix in found for value in values.values()]
        return found


def best_path(indexes: Sequence[Any], probes: Sequence[Probe], hints: Hints, order: Sequence[int] = ()) -> Path:
    """indexes: clustered first; probes: those whose values are at hand."""
    best: Path | None = None
    for index in indexes:
        path = _path(index, probes)
        if order and not path.seeks and tuple(index.columns[: len(order)]) == tuple(order):
            path = replace(path, cost=path.cost - 1)
        if "FORCESCAN" in hints.flags:
            path = Path(SCAN, index)
        if hints.index is not None and hints.index.lower() != index.name.lower() and hints.index not in ("1", "0"):
            continue
        if best is None or path.cost < best.cost:
            best = path
    assert best is not None
    return best


def _path(index: Any, probes: Sequence[Probe]) -> Path:
    equals: list[Probe] = []
    for ordinal in index.columns:
        found = [p for p in probes if p.ordinal == ordinal and p.op in ("=", "in")]
        if not found:
            break
        equals.append(min(found, key=lambda p: p.op != "="))
    if equals and len(equals) == len(index.columns) and index.unique:
        return Path(UNIQUE if all(p.op == "=" for p in equals) else FEW + 1, index, tuple(equals), unique=True)
    bounds: dict[str, tuple[Probe, bool]] = {}
    for probe in probes:
        if index.columns[len(equals) : len(equals) + 1] == [probe.ordinal] and probe.op in ("<", "<=", ">", ">="):
            bounds.setdefault("low" if probe.op[0] == ">" else "high", (probe, probe.op[1:] == "="))
    if not equals and not bounds:
        return Path(SCAN, index)
    cost = (PREFIX - min(len(equals), 4) if equals else RANGE) - len(bounds)
    return Path(cost, index, tuple(equals), bounds.get("low"), bounds.get("high"))
