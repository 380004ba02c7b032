"""Databases and their instance: names, counters, snapshots, the log of commits and how a replica applies it.

Knows nothing of keys and locks beyond handing them on, and nothing of the statements that change a database.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from .clock import ServerClock
from .indexes import Bound, Index, Key, Record, Row
from .locks import LockManager, Session
from .reading import Access
from .scheduler import Scheduler
from .tables import Column, Table
from .transactions import Commit, RowImage, Transaction

__all__ = [
    "Access",
    "Bound",
    "Column",
    "Commit",
    "Database",
    "Index",
    "Instance",
    "Key",
    "Row",
    "Table",
    "Transaction",
]


RESERVATION = 4000
"""How many row versions the engine reserves at a time, in the log, before it hands them out."""


class Database:
    """``schemas`` and ``extra`` are the interpreter's. ``on_commit`` gets every commit at once; no log is kept here."""

    def __init__(self, instance: Instance, id: int, name: str, collation: str) -> None:
        self.instance = instance
        self.id = id
        self.name = name
        self.collation = collation
        self.read_only = False
        self.secondary = False
        """It only follows another instance's database."""
        self.rcsi = False
        self.allow_snapshot = False
        self.delayed_durability = "DISABLED"
        self.schemas: dict[str, Any] = {}
        self.tables: dict[tuple[str, str], Table] = {}
        self.extra: dict[str, Any] = {}
        self.on_commit: Callable[[Commit], None] | None = None
        self.sequence = 0
        """The number of the last commit."""
        self.rowversion = 2000
        self.reserved = self.rowversion + RESERVATION
        """What a replica of the database has to assume to have been handed out."""
        self._snapshots: dict[int, int] = {}  # commit number -> how many read it

    def next_rowversion(self) -> bytes:
        """Rises with every call, also when the transaction is rolled back; values that end in byte 00 are skipped."""
        self.rowversion += 1 if (self.rowversion + 1) % 256 else 2
        if self.rowversion > self.reserved:
            self.reserved += RESERVATION
        return self.rowversion.to_bytes(8, "big")

    @property
    def writable(self) -> bool:
        return not (self.read_only or self.secondary)

    def go_on(self, rowversion: int) -> None:
        """Count on from here, with a new reservation."""
        self.rowversion, self.reserved = rowversion, rowversion + RESERVATION

    def table(self, schema: str, name: str) -> Table | None:
        return self.tables.get((schema.lower(), name.lower()))

    def by_id(self, number: int) -> Table:
        found = self._find(number)
        assert found is not None
        return found

    def _find(self, number: int) -> Table | None:
        return next((table for table in self.tables.values() if table.id == number), None)

    def create_table(self, tx: Transaction, table: Table) -> None:
        """Add a table, complete with its indexes and checks."""

        def redo(database: Database) -> None:
            database.tables[place] = definition.copy(database)

        place = (table.schema.lower(), table.name.lower())
        definition = table.copy(self)
        self.tables[place] = table
        tx.ddl(self, lambda: self._forget(place), redo)

    def drop_table(self, tx: Transaction, table: Table) -> None:
        def undo() -> None:
            self.tables[place] = table

        place = (table.schema.lower(), table.name.lower())
        del self.tables[place]
        tx.ddl(self, undo, lambda database: database._forget(place))

    def _forget(self, place: tuple[str, str]) -> None:
        del self.tables[place]

    # --- snapshots -------------------------------------------------------------------------------

    def open_snapshot(self) -> int:
        self._snapshots[self.sequence] = self._snapshots.get(self.sequence, 0) + 1
        return self.sequence

    def close_snapshot(self, number: int) -> None:
        self._snapshots[number] -= 1
        if not self._snapshots[number]:
            del self._snapshots[number]
            for table in self.tables.values():
                for record in list(table.versioned):
                    table.settle(record)

    def oldest_snapshot(self) -> int | None:
        return min(self._snapshots, default=None)

    # --- the log ---------------------------------------------------------------------------------

    def copy(self, other: Database) -> None:
        """Become what is committed in another instance's database, with all counters. It has no open DDL."""
        self.read_only, self.rcsi, self.allow_snapshot = other.read_only, other.rcsi, other.allow_snapshot
        self.delayed_durability = other.delayed_durability
        self.schemas, self.extra = dict(other.schemas), deepcopy(other.extra)
        self.sequence, self.rowversion, self.reserved = other.sequence, other.rowversion, other.reserved
        self.tables = {place: table.copy(self) for place, table in other.tables.items()}
        for source, table in zip(other.tables.values(), self.tables.values(), strict=True):
            table.counters = source.counters
            for record in source.records():
                row = record.visible(other.sequence, None)
                self._apply_row(table, RowImage(table.id, record.key, row), other.sequence)

    def apply(self, commit: Commit) -> None:
        """Take over a commit of another instance's database, in the order of its log. Readers here use snapshots."""
        for change in commit.changes:
            if isinstance(change, RowImage):
                self._apply_row(self.by_id(change.table), change, commit.sequence)
            else:
                change.redo(self)
        for number, counters in commit.counters:
            if (found := self._find(number)) is not None:  # else the commit dropped it
                found.counters = counters
        self.rowversion = max(self.rowversion, commit.rowversion)
        self.reserved = max(self.reserved, commit.reserved)
        self.sequence = commit.sequence

    def _apply_row(self, table: Table, change: RowImage, sequence: int) -> None:
        record = table.clustered.entries.get(change.key) or Record(change.key)
        old = record.row
        if record.stamp != sequence:
            record.history.insert(0, (record.stamp, old))
            table.versioned[record] = None
        record.row, record.stamp = change.row, sequence
        for index in (table.clustered, *table.indexes):
            if change.row is not None:
                index.put(index.entry(record, change.row), record)
            if old is not None:
                index.clean(index.entry(record, old))
        table.settle(record)


class Instance:
    """All databases of a server, with the clock, the scheduler and the locks that they share."""

    def __init__(self, clock: ServerClock, scheduler: Scheduler) -> None:
        self.clock = clock
        self.scheduler = scheduler
        self.locks = LockManager(scheduler)
        self.databases: dict[str, Database] = {}
        self._last_id = 1_000

    def new_id(self) -> int:
        """For transactions, tables, indexes and whatever needs a number of its own."""
        self._last_id += 1
        return self._last_id

    def skip_ids(self, other: Instance) -> None:
        """Never give a number that the other instance has given until now."""
        self._last_id = max(self._last_id, other._last_id)

    def create_database(self, name: str, collation: str = "SQL_Latin1_General_CP1_CI_AS") -> Database:
        database = self.databases[name.lower()] = Database(self, self.new_id(), name, collation)
        return database

    def begin(self, session: Session, isolation: str = "READ COMMITTED") -> Transaction:
        return Transaction(self, session, isolation)
