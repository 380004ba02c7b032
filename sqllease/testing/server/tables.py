"""Tables: rows, their indexes, and the locks that writing takes. Expressions and permissions are the interpreter's.

Lock escalation and page locks do not exist here: every lock is a key's or a table's.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .conversion import convert
from .indexes import Bound, Index, Key, Record, Row
from .reading import Access, locking_walk, walk
from .sqltypes import SqlError, SqlType, Value, nvarchar
from .transactions import Counters, Transaction

if TYPE_CHECKING:
    from .storage import Database


@dataclass
class Column:
    """``identity`` is seed and increment; ``default`` is opaque here. A rowversion is filled in by the table itself."""

    name: str
    type: SqlType
    nullable: bool = True
    collation: str | None = None
    identity: tuple[int, int] | None = None
    default: Any = None
    default_name: str = ""


class Table:
    """Keys handed out by reads are opaque; they identify the row in ``update``, ``delete`` and ``unlock``."""

    def __init__(
        self,
        database: Database,
        id: int,
        schema: str,
        name: str,
        columns: Sequence[Column],
        clustered: Index | None = None,
    ) -> None:
        self.database = database
        self.id = id
        self.schema = schema
        self.name = name
        self.columns = list(columns)
        self.clustered = clustered or Index(0, "", [], clustered=True)
        self.indexes: list[Index] = []
        self.checks: list[Any] = []
        self.triggers: list[Any] = []
        self.lock_escalation = "TABLE"
        self.properties: dict[str, Any] = {}
        self.versioned: dict[Record, None] = {}
        """Records whose present image is not the one that everybody sees."""
        self._number = 0  # the last one given to a row whose clustered key is not unique
        self.identity_last: int | None = None
        self._bind(self.clustered)

    @property
    def full_name(self) -> str:
        return f"{self.schema}.{self.name}"

    def _bind(self, index: Index) -> None:
        index.bind(("KEY", self.database.id, self.id), [column.collation for column in self.columns])

    # --- locks of the whole table ----------------------------------------------------------------

    @property
    def resource(self) -> Hashable:
        return ("OBJECT", self.database.id, self.id)

    def lock(self, tx: Transaction, mode: str, *, keep: bool = True) -> None:
        """Lock the table: Sch-S, Sch-M, IS, IX, S, X."""
        tx.lock(self.resource, mode, keep=keep)

    # --- reading ---------------------------------------------------------------------------------

    def seek(self, tx: Transaction, access: Access, index: Index, prefix: Sequence[Value]) -> Iterator[tuple[Key, Row]]:
        """Rows whose leading key columns equal ``prefix`` (None finds NULL)."""
        return self.scan(tx, access, index, Bound(prefix), Bound(prefix))

    def scan(
        self,
        tx: Transaction,
        access: Access,
        index: Index,
        low: Bound | None = None,
        high: Bound | None = None,
        *,
        reverse: bool = False,
    ) -> Iterator[tuple[Key, Row]]:
        """Rows in the order of the index. Lazy: locks are taken as it goes, and changes made meanwhile are met."""
        start, stop = index.span(low, high)
        # An update under SNAPSHOT finds its rows in the snapshot, and locks them only when it writes.
        found_in_snapshot = access.mode == "U" and not access.keep and tx.isolation == "SNAPSHOT"
        if access.mode in (None, "snapshot") or found_in_snapshot:
            self.lock(tx, "Sch-S", keep=False)
            snapshot = tx.snapshot(self.database) if access.mode else None
            found = walk(self, tx, snapshot, index, start, stop, reverse)
        else:
            keep = access.keep or access.range
            self.lock(tx, "IS" if access.mode == "S" else "IX", keep=keep or access.mode != "S")
            found = locking_walk(self, tx, access, index, start, stop, reverse, single=index.covers(low, high))
        for record, row in found:
            tx.session.work.rows_read += 1
            yield record.key, row

    def unlock(self, tx: Transaction, key: Key) -> None:
        """Drop the U lock, taken without ``keep``, of a row that did not qualify."""
        resource = self.clustered.resource(key)
        tx.drop(resource)
        if resource in tx.beside:
            tx.drop(tx.beside.pop(resource))

    def peek(self, key: Key) -> Row | None:
        """The row in place, without any lock."""
        record = self.clustered.entries.get(key)
        return record.row if record is not None else None

    def records(self) -> set[Record]:
        """All, also those that are only there for a transaction or a snapshot."""
        return {*self.clustered.entries.values(), *self.versioned}

    @property
    def counters(self) -> Counters:
        """What a replica of the table has to go on from."""
        return self.identity_last, self._number

    @counters.setter
    def counters(self, counters: Counters) -> None:
        self.identity_last, self._number = counters

    def row_count(self) -> int:
        return sum(record.row is not None for record in self.clustered.entries.values())

    # --- writing ---------------------------------------------------------------------------------

    def insert(self, tx: Transaction, row: Sequence[Value]) -> tuple[Key, Row]:
        """The new key, and the row with its rowversion. Raises 2627 or 2601; nothing of the row is left then."""
        self._prepare(tx)
        mark = tx.mark()
        try:
            return self._insert(tx, tuple(row))
        except BaseException:
            tx.undo_to(mark)
            raise

    def update(self, tx: Transaction, key: Key, row: Sequence[Value]) -> tuple[Key, Row] | None:
        """Replace the row. The key changes with its columns. None: the row has vanished. Raises 2627, 2601, 3960."""
        self._prepare(tx)
        mark = tx.mark()
        try:
            record = self._lock_row(tx, key)
            if record is None or record.row is None:
                return None
            old, new = record.row, tuple(row)
            if self.clustered.key_of(new, key[len(self.clustered.columns) :]) != key:
                self._delete(tx, record, old)
                return self._insert(tx, new)
            new = self._stamped(new)
            tx.change(self, record, new)
            for index in self.indexes:
                before, after = index.key_of(old, key), index.key_of(new, key)
                if before != after:
                    tx.lock(index.resource(before), "X", keep=True)
                    tx.leave(index, before)
                    self._claim(tx, index, after, new, record)
                    tx.enter(index, after, record)
                elif any(old[i] != new[i] for i in (*index.columns, *index.included)):
                    tx.lock(index.resource(before), "X", keep=True)
            return key, new
        except BaseException:
            tx.undo_to(mark)
            raise

    def delete(self, tx: Transaction, key: Key) -> Row | None:
        """The deleted row; None: it has vanished. Raises 3960."""
        self._prepare(tx)
        mark = tx.mark()
        try:
            record = self._lock_row(tx, key)
            if record is None or record.row is None:
                return None
            row = record.row
            self._delete(tx, record, row)
            return row
        except BaseException:
            tx.undo_to(mark)
            raise

    def truncate(self, tx: Transaction) -> None:
        """Remove all rows under Sch-M."""
        self._check_writable()
        self.lock(tx, "Sch-M")
        for key, record in self.clustered.entries.items():
            if record.row is not None:
                for index in self.indexes:
                    tx.leave(index, index.key_of(record.row, key))
                tx.leave(self.clustered, key)
                tx.change(self, record, None)
        self.identity_last = None

    def next_identity(self) -> int:
        """Never goes back, also not when the insert is rolled back."""
        seed, increment = next(column.identity for column in self.columns if column.identity)
        self.identity_last = seed if self.identity_last is None else self.identity_last + increment
        return self.identity_last

    def _check_writable(self) -> None:
        if not self.database.writable:
            raise SqlError(3906, f'Failed to update database "{self.database.name}" because the database is read-only.')

    def _prepare(self, tx: Transaction) -> None:
        self._check_writable()
        self.lock(tx, "IX")

    def _insert(self, tx: Transaction, row: Row) -> tuple[Key, Row]:
        self._number += 1
        key = self.clustered.key_of(row, ((self._number,),))
        ghost = self._claim(tx, self.clustered, key, row)
        record = ghost or Record(key)
        row = self._stamped(row)
        tx.change(self, record, row)
        tx.enter(self.clustered, key, record)
        for index in self.indexes:
            entry = index.key_of(row, key)
            self._claim(tx, index, entry, row, record)
            tx.enter(index, entry, record)
        return key, row

    def _delete(self, tx: Transaction, record: Record, row: Row) -> None:
        tx.change(self, record, None)
        tx.leave(self.clustered, record.key)
        for index in self.indexes:
            entry = index.key_of(row, record.key)
            tx.lock(index.resource(entry), "X", keep=True)
            tx.leave(index, entry)

    def _claim(self, tx: Transaction, index: Index, key: Key, row: Row, mine: Record | None = None) -> Record | None:
        """Test the range (RangeI-N on the next key), then take X on the new key. Returns the ghost that is there.

        A range that the transaction itself holds is split by the new key, which keeps its part of it (RangeX-X).
        When this returns, nothing has run since both locks were free: the caller puts the entry in without a pause.
        """
        locks = self.database.instance.locks
        place = index.resource(key)
        self.database.instance.scheduler.pause()
        while True:
            mode = "X"
            if key not in index.entries:
                gap = index.resource(index.first(key))
                if not locks.try_acquire(tx, gap, "RangeI-N", lasting=False):
                    locks.acquire(tx, gap, "RangeI-N", lasting=False)
                    continue
                if tx.held.get(gap, "").startswith("Range"):
                    mode = "RangeX-X"
            before = tx.held.get(place)
            if not locks.try_acquire(tx, place, mode):
                tx.lock(place, mode, keep=True)
                continue
            tx.note(place, before, keep=True)
            record: Record | None = index.entries.get(key)
            if record is not None and record is not mine and index.live(key, record):
                raise self._duplicate(index, row)
            return record

    def _lock_row(self, tx: Transaction, key: Key) -> Record | None:
        tx.lock(self.clustered.resource(key), "X", keep=True)
        record: Record | None = self.clustered.entries.get(key)
        tx.check_conflict(self, record)
        return record

    def _stamped(self, row: Row) -> Row:
        """With a new rowversion. The caller holds X on the row, so its values rise in the order of commits."""
        for ordinal, column in enumerate(self.columns):
            if column.type.name == "rowversion":
                return (*row[:ordinal], self.database.next_rowversion(), *row[ordinal + 1 :])
        return row

    def _duplicate(self, index: Index, row: Row) -> SqlError:
        value = self._shown(index, row)
        if index.constraint:
            return SqlError(
                2627,
                f"Violation of {index.constraint} constraint '{index.name}'. Cannot insert duplicate key in object"
                f" '{self.full_name}'. The duplicate key value is ({value}).",
                severity=14,
            )
        return SqlError(
            2601,
            f"Cannot insert duplicate key row in object '{self.full_name}' with unique index '{index.name}'."
            f" The duplicate key value is ({value}).",
            severity=14,
        )

    def _shown(self, index: Index, row: Row) -> str:
        texts = [convert(row[i], self.columns[i].type, nvarchar()) for i in index.columns]
        return ", ".join("<NULL>" if text is None else str(text) for text in texts)

    # --- versions --------------------------------------------------------------------------------

    def settle(self, record: Record) -> None:
        """Forget the older images of a record that no transaction writes, once no snapshot can need them."""
        oldest = self.database.oldest_snapshot()
        if record.writer is None and (oldest is None or oldest >= record.stamp):
            record.history.clear()
            self.versioned.pop(record, None)

    # --- definition (the caller holds Sch-M) -------------------------------------------------------

    def copy(self, database: Database) -> Table:
        """The same definition without rows."""
        table = Table(database, self.id, self.schema, self.name, self.columns, self.clustered.copy())
        table.checks, table.triggers = list(self.checks), list(self.triggers)
        table.lock_escalation, table.properties = self.lock_escalation, dict(self.properties)
        for index in self.indexes:
            table.attach(index.copy())
        return table

    def attach(self, index: Index) -> None:
        """Build a secondary index. Raises 1505."""
        self._bind(index)
        for record in self.clustered.entries.values():
            if record.row is not None:
                key = index.key_of(record.row, record.key)
                if key in index.entries:
                    value = self._shown(index, record.row)
                    raise SqlError(
                        1505,
                        "The CREATE UNIQUE INDEX statement terminated because a duplicate key was found for the object"
                        f" name '{self.full_name}' and the index name '{index.name}'. The duplicate key value is"
                        f" ({value}).",
                    )
                index.put(key, record)
        self.indexes.append(index)

    def add_index(self, tx: Transaction, index: Index) -> None:
        def redo(database: Database) -> None:
            database.by_id(self.id).attach(index.copy())

        self.attach(index)
        tx.ddl(self.database, lambda: self.indexes.remove(index), redo)

    def drop_index(self, tx: Transaction, index: Index) -> None:
        def redo(database: Database) -> None:
            table = database.by_id(self.id)
            table.indexes = [other for other in table.indexes if other.id != index.id]

        place = self.indexes.index(index)
        del self.indexes[place]
        tx.ddl(self.database, lambda: self.indexes.insert(place, index), redo)

    def alter_columns(self, tx: Transaction, columns: Sequence[Column], convert: Callable[[Row], Row]) -> None:
        """New columns, and every row as ``convert`` makes it. Key columns stay where they are."""
        new = list(columns)

        def redo(database: Database) -> None:
            database.by_id(self.id)._convert(new, convert)

        tx.ddl(self.database, self._convert(new, convert), redo)

    def _convert(self, columns: list[Column], convert: Callable[[Row], Row]) -> Callable[[], None]:
        rows = [(r, r.row, r.history) for r in {**dict.fromkeys(self.clustered.entries.values()), **self.versioned}]
        old, self.columns = self.columns, columns
        for record, row, history in rows:
            record.row = convert(row) if row is not None else None
            record.history = [(stamp, convert(image) if image is not None else None) for stamp, image in history]

        def undo() -> None:
            self.columns = old
            for record, row, history in rows:
                # An image that became history since then is the row as it was.
                record.history = [(record.stamp, row), *history] if len(record.history) > len(history) else history
                record.row = row

        return undo
