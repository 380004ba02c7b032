"""Transactions: undo, savepoints, statement-duration locks, snapshots, and what a commit leaves in the log.

They know records and indexes as things to restore; which locks a statement needs is known elsewhere.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .indexes import Index, Key, Record, Row
from .locks import Owner, Session
from .sqltypes import SqlError

if TYPE_CHECKING:
    from .storage import Database, Instance, Table


@dataclass(frozen=True, slots=True)
class RowImage:
    """In the log: the row that a key has from here on; None: it is gone."""

    table: int
    key: Key
    row: Row | None


@dataclass(frozen=True, slots=True)
class SchemaChange:
    """In the log: a change to a schema, repeated by calling ``redo`` with the replica's database."""

    redo: Callable[[Database], object]


Counters = tuple[int | None, int]
"""A table's: the last identity value, the last row number."""


@dataclass(frozen=True, slots=True)
class Commit:
    """One committed transaction, as far as it concerns one database. ``changes`` are in their order."""

    sequence: int
    changes: tuple[RowImage | SchemaChange, ...]
    rowversion: int
    """The database's counter at the commit."""
    reserved: int = 0
    """How far the counter was reserved at the commit."""
    counters: tuple[tuple[int, Counters], ...] = ()
    """Of the tables that it changed, by id."""


@dataclass(frozen=True, slots=True)
class _RowUndo:
    table: Table
    record: Record
    before: Row | None
    after: Row | None

    @property
    def database(self) -> Database:
        return self.table.database

    def logged(self) -> RowImage:
        return RowImage(self.table.id, self.record.key, self.after)

    def undo(self) -> None:
        self.record.row = self.before
        if self.before is not None:
            for index in (self.table.clustered, *self.table.indexes):
                index.put(index.entry(self.record, self.before), self.record)


@dataclass(frozen=True, slots=True)
class _SchemaUndo:
    database: Database
    undo: Callable[[], object]
    redo: Callable[[Database], object]

    def logged(self) -> SchemaChange:
        return SchemaChange(self.redo)


class Transaction(Owner):
    """``isolation`` is the session's present level in capitals ('READ COMMITTED', ...); it may change on the way."""

    def __init__(self, instance: Instance, session: Session, isolation: str = "READ COMMITTED") -> None:
        super().__init__(session)
        self.instance = instance
        self.id = instance.new_id()
        self.isolation = isolation
        self.doomed = False
        """Set by the interpreter: it can only be rolled back."""
        self.ended = False
        self.beside: dict[Hashable, Hashable] = {}
        """A row's statement-duration lock -> the index entry's that was taken before it."""
        self._began_as = isolation
        self._log: list[_RowUndo | _SchemaUndo] = []
        self._savepoints: list[tuple[str, int]] = []
        self._records: dict[Record, Table] = {}
        self._entries: dict[tuple[Index, Key], None] = {}
        self._statement_locks: dict[Hashable, tuple[str, str | None]] = {}  # mode then, mode before
        self._snapshots: dict[Database, int] = {}
        self._statement_snapshots: dict[Database, int] = {}

    @property
    def log_used(self) -> int:
        return len(self._log)

    # --- locks -----------------------------------------------------------------------------------

    def lock(self, resource: Hashable, mode: str, *, keep: bool) -> None:
        """Acquire; without ``keep`` only to the end of the statement."""
        self.note(resource, self.instance.locks.acquire(self, resource, mode), keep=keep)

    def note(self, resource: Hashable, before: str | None, *, keep: bool) -> None:
        """Remember how long to keep a lock just acquired; ``before`` is the mode held until then."""
        if keep:
            self._statement_locks.pop(resource, None)
        elif self.held[resource] != before:
            self._statement_locks.setdefault(resource, (self.held[resource], before))

    def drop(self, resource: Hashable) -> None:
        """Release a statement-duration lock early; one that was made stronger since stays."""
        mode, before = self._statement_locks.pop(resource, (None, None))
        if mode is not None and self.held.get(resource) == mode:
            self.instance.locks.release(self, resource, before)

    def end_statement(self) -> None:
        """Drop what lasts for a statement only: locks that are not kept, the snapshot of READ COMMITTED SNAPSHOT."""
        for resource in list(self._statement_locks):
            self.drop(resource)
        self.beside.clear()
        _close(self._statement_snapshots)

    # --- snapshots -------------------------------------------------------------------------------

    def snapshot(self, database: Database) -> int:
        """The last commit that a versioned read sees: one for the transaction under SNAPSHOT, else the statement's."""
        if database.secondary:  # everything is mapped to snapshot isolation there, whatever the database's options
            return _open(self._snapshots, database)
        if self.isolation != "SNAPSHOT":
            return _open(self._statement_snapshots, database)
        if self._began_as != "SNAPSHOT":
            raise SqlError(
                3951,
                f"Transaction failed in database '{database.name}' because the statement was run under snapshot"
                " isolation but the transaction did not start in snapshot isolation. You cannot change the isolation"
                " level of the transaction to snapshot after the transaction has started unless the transaction was"
                " originally started under snapshot isolation level.",
            )
        if not database.allow_snapshot:
            raise SqlError(
                3952,
                f"Snapshot isolation transaction failed accessing database '{database.name}' because snapshot isolation"
                " is not allowed in this database. Use ALTER DATABASE to allow snapshot isolation.",
            )
        return _open(self._snapshots, database)

    def check_conflict(self, table: Table, record: Record | None) -> None:
        """A SNAPSHOT transaction may only write what nobody has changed since its snapshot (None: the row is gone)."""
        if self.isolation != "SNAPSHOT" or (record is not None and record.writer is self):
            return
        if record is None or record.stamp > self.snapshot(table.database):
            raise SqlError(
                3960,
                "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to"
                f" access table '{table.full_name}' directly or indirectly in database '{table.database.name}' to"
                " update, delete, or insert the row that has been modified or deleted by another transaction. Retry the"
                " transaction or change the isolation level for the update/delete statement.",
                state=2,
            )

    # --- changes ---------------------------------------------------------------------------------

    def change(self, table: Table, record: Record, row: Row | None) -> None:
        """Put a new image in place. The caller holds X on the key, and tells of entries by ``enter`` and ``leave``."""
        if record.writer is None:
            record.writer = self
            record.history.insert(0, (record.stamp, record.row))
            self._records[record] = table
            table.versioned[record] = None
        self._log.append(_RowUndo(table, record, record.row, row))
        record.row = row

    def enter(self, index: Index, key: Key, record: Record) -> None:
        """Give the record an entry, to be removed again if the transaction does not end with it."""
        index.put(key, record)
        self._entries[index, key] = None

    def leave(self, index: Index, key: Key) -> None:
        """The entry becomes a ghost until the transaction ends."""
        self._entries[index, key] = None

    def ddl(self, database: Database, undo: Callable[[], object], redo: Callable[[Database], object]) -> None:
        """Record a schema change that has just been made; ``redo`` makes it again in a replica's database."""
        self._log.append(_SchemaUndo(database, undo, redo))

    # --- savepoints and the end ------------------------------------------------------------------

    def mark(self) -> int:
        """Where ``undo_to`` can go back to: taken before a statement, used when it fails."""
        return len(self._log)

    def undo_to(self, mark: int) -> None:
        """Undo rows and schemas; locks stay, as do counters (rowversion, identity)."""
        while len(self._log) > mark:
            self._log.pop().undo()
        self._savepoints = [point for point in self._savepoints if point[1] <= mark]

    def save(self, name: str) -> None:
        self._savepoints.append((name, self.mark()))

    def rollback_to(self, name: str) -> None:
        """ROLLBACK TRANSACTION name: to the latest savepoint of that name, which stays."""
        for place in reversed(range(len(self._savepoints))):
            if self._savepoints[place][0] == name:
                mark = self._savepoints[place][1]
                del self._savepoints[place + 1 :]
                self.undo_to(mark)
                return
        raise SqlError(6401, f"Cannot roll back {name}. No transaction or savepoint of that name was found.")

    def commit(self) -> None:
        sequences = {database: database.sequence + 1 for database in {change.database: None for change in self._log}}
        changed = {change.record for change in self._log if isinstance(change, _RowUndo)}
        for record in changed:
            record.stamp = sequences[self._records[record].database]
        for database, sequence in sequences.items():
            database.sequence = sequence
            if database.on_commit is not None:
                database.on_commit(self._logged(database))
        self._finish(changed)

    def _logged(self, database: Database) -> Commit:
        changes = [change for change in self._log if change.database is database]
        tables = {change.table: None for change in changes if isinstance(change, _RowUndo)}
        counters = tuple((table.id, table.counters) for table in tables)
        logged = tuple(change.logged() for change in changes)
        return Commit(database.sequence, logged, database.rowversion, database.reserved, counters)

    def rollback(self) -> None:
        self.undo_to(0)
        self._finish(set())

    def _finish(self, changed: set[Record]) -> None:
        for record, table in self._records.items():
            record.writer = None
            if record not in changed:
                del record.history[0]
            table.settle(record)
        for index, key in self._entries:
            index.clean(key)
        self.end_statement()
        _close(self._snapshots)
        self.instance.locks.release_all(self)
        self.ended = True


def _open(snapshots: dict[Database, int], database: Database) -> int:
    if database not in snapshots:
        snapshots[database] = database.open_snapshot()
    return snapshots[database]


def _close(snapshots: dict[Database, int]) -> None:
    for database, number in snapshots.items():
        database.close_snapshot(number)
    snapshots.clear()
