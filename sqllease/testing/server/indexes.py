"""Ordered entries of one table: records with their row versions, and the keys that lead to them. No locks, no waiting.

An entry whose row was deleted or moved stays as a ghost until its transaction ends, so that others meet its lock there.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sortedcontainers import SortedDict

from .collation import order_key
from .sqltypes import Value

if TYPE_CHECKING:
    from .transactions import Transaction

Row = tuple[Value, ...]
Key = tuple[Any, ...]
"""The values of a key in a form that sorts and hashes as the engine compares; opaque to others."""


class _Top:
    """Greater than any part of a key."""

    def __lt__(self, other: object) -> bool:
        return False

    def __gt__(self, other: object) -> bool:
        return True


TOP: Any = _Top()
INFINITY = "infinity"
"""Stands for the key behind the last one in lock resources."""


class Record:
    """A row. ``row`` is the image in place, committed or not (None: deleted); ``history`` has older committed ones."""

    __slots__ = ("history", "key", "row", "stamp", "writer")

    def __init__(self, key: Key) -> None:
        self.key = key
        self.row: Row | None = None
        self.writer: Transaction | None = None
        self.stamp = 0  # the commit that made ``row`` what it is; 0 as long as there was none
        self.history: list[tuple[int, Row | None]] = []  # newest first

    def visible(self, snapshot: int, reader: Transaction | None) -> Row | None:
        """The image that a reader of the state after commit number ``snapshot`` sees."""
        if self.writer is reader if self.writer is not None else self.stamp <= snapshot:
            return self.row
        return next((row for stamp, row in self.history if stamp <= snapshot), None)


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: values of the leading key columns. NULL sorts before everything."""

    values: Sequence[Value]
    inclusive: bool = True


class Index:
    """A clustered or a secondary index. ``columns`` and ``included`` are ordinals. A heap is clustered by no column."""

    def __init__(
        self,
        id: int,
        name: str,
        columns: Sequence[int],
        *,
        unique: bool = False,
        clustered: bool = False,
        constraint: str = "",
        included: Sequence[int] = (),
    ) -> None:
        """``constraint`` is 'PRIMARY KEY' or 'UNIQUE KEY' where the index implements one."""
        self.id = id
        self.name = name
        self.columns = list(columns)
        self.unique = unique
        self.clustered = clustered
        self.constraint = constraint
        self.included = list(included)
        self.entries: SortedDict[Key, Record] = SortedDict()
        self.changes = 0  # how often an entry came or went
        self._parts: list[tuple[int, str | None]] = []
        self._place: Hashable = None

    def copy(self) -> Index:
        """The same definition without entries."""
        return Index(
            self.id,
            self.name,
            self.columns,
            unique=self.unique,
            clustered=self.clustered,
            constraint=self.constraint,
            included=self.included,
        )

    def bind(self, place: Hashable, collations: Sequence[str | None]) -> None:
        self._place = (*place, self.id) if isinstance(place, tuple) else place
        self._parts = [(ordinal, collations[ordinal]) for ordinal in self.columns]

    def resource(self, key: Key | None) -> Hashable:
        """What a lock on the key is called; None is the place behind the last key."""
        return (self._place, INFINITY if key is None else key)

    def key_of(self, row: Row, tail: Key) -> Key:
        """The key of the row's entry. ``tail`` (clustered key or a number) makes it unique where the index is not."""
        key = tuple(order_key(row[ordinal], collation) for ordinal, collation in self._parts)
        return key if self.unique else key + tail

    def entry(self, record: Record, row: Row) -> Key:
        """Where the record has, had or will have its entry when its image is ``row``."""
        return record.key if self.clustered else self.key_of(row, record.key)

    def span(self, low: Bound | None, high: Bound | None) -> tuple[Key, Key]:
        """The range as half-open: low <= key < high."""
        start = self._prefix(low.values, above=not low.inclusive) if low else ()
        return start, self._prefix(high.values, above=high.inclusive) if high else (TOP,)

    def _prefix(self, values: Sequence[Value], *, above: bool) -> Key:
        key = tuple(order_key(value, part[1]) for value, part in zip(values, self._parts, strict=False))
        return (*key, TOP) if above else key

    def covers(self, low: Bound | None, high: Bound | None) -> bool:
        """Whether the range is an equality on the whole of a unique key."""
        if not self.unique or low is None or high is None or len(low.values) != len(self.columns):
            return False
        return low.inclusive and high.inclusive and tuple(low.values) == tuple(high.values)

    def first(self, position: Key) -> Key | None:
        """The first key, ghosts too, that is not less than ``position``."""
        place = self.entries.bisect_left(position)
        return self.entries.peekitem(place)[0] if place < len(self.entries) else None

    def last(self, position: Key) -> Key | None:
        """The last key, ghosts too, that is less than ``position``."""
        place = self.entries.bisect_left(position)
        return self.entries.peekitem(place - 1)[0] if place else None

    def live(self, key: Key, record: Record) -> bool:
        """Whether the record, at present, has its entry under this key."""
        if record.row is None:
            return False
        return record.writer is None or self.entry(record, record.row) == key

    def put(self, key: Key, record: Record) -> None:
        if key not in self.entries:
            self.changes += 1
        self.entries[key] = record

    def clean(self, key: Key) -> None:
        """Remove the entry if it is a ghost; its transaction has ended."""
        record = self.entries.get(key)
        if record is not None and (record.row is None or self.entry(record, record.row) != key):
            del self.entries[key]
            self.changes += 1
