"""How rows are read: without key locks, as they stand or as they were at a snapshot, or under key and range locks.

It knows keys, images and locks; what the rows mean and how they are written is not its business.
"""

from __future__ import annotations

import heapq
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

from .indexes import TOP, Index, Key, Record, Row
from .transactions import Transaction

if TYPE_CHECKING:
    from .tables import Table

_RANGES = {"S": "RangeS-S", "U": "RangeS-U", "X": "RangeX-X"}
_Held = list[tuple[Hashable, str | None]]
"""Locks just taken, each with the mode that the transaction had before."""


@dataclass(frozen=True, slots=True)
class Access:
    """How a read locks. ``mode``: 'S', 'U', 'X'; None for READUNCOMMITTED (rows as they are, no key locks); 'snapshot'
    for row versions (of the transaction under SNAPSHOT isolation, else of the statement).

    Without ``keep`` an S lock goes when the row was read, a U or X lock by ``Table.unlock`` or when the statement ends.
    ``range`` is HOLDLOCK and implies ``keep``.
    """

    mode: str | None = "S"
    keep: bool = False
    range: bool = False
    readpast: bool = False


def walk(
    table: Table, tx: Transaction, snapshot: int | None, index: Index, start: Key, stop: Key, reverse: bool
) -> Iterator[tuple[Record, Row]]:
    """Without key locks: the rows as they stand in place, or as they were at a snapshot."""
    while True:
        changes = index.changes
        moved: dict[Record, None] = {} if snapshot is None else dict(table.versioned)
        older: list[tuple[Key, Record]] = []
        for record in moved:
            row = record.visible(snapshot or 0, tx)
            if row is not None and start <= (key := index.entry(record, row)) < stop:
                older.append((key, record))
        older.sort(key=lambda item: item[0], reverse=reverse)
        present = ((key, index.entries[key]) for key in index.entries.irange(start, stop, (True, False), reverse))
        for key, record in heapq.merge(
            ((k, r) for k, r in present if r not in moved), older, key=lambda item: item[0], reverse=reverse
        ):
            row = record.row if snapshot is None else record.visible(snapshot, tx)
            if row is not None and (snapshot is not None or index.live(key, record)):
                yield record, row
            if index.changes != changes:
                start, stop = (start, key) if reverse else ((*key, TOP), stop)
                break
        else:
            return


def locking_walk(
    table: Table, tx: Transaction, access: Access, index: Index, start: Key, stop: Key, reverse: bool, *, single: bool
) -> Iterator[tuple[Record, Row]]:
    """Under key locks. An equality on a whole unique key that is there (``single``) locks that key only; any other
    search under ``range`` locks every key it meets and the next one. A secondary entry is locked before its row.
    """
    mode = access.mode or "S"
    keep = access.keep or access.range
    entry_mode = _RANGES[mode] if access.range and not single else mode
    while access.range and reverse and not _lock_gap(table, tx, index, stop, mode):
        pass
    while True:
        if access.readpast:
            table.database.instance.scheduler.pause()
        key = index.last(stop) if reverse else index.first(start)
        if key is None or (key < start if reverse else not key < stop):
            if access.range and not reverse and not _lock_gap(table, tx, index, start, mode):
                continue
            return
        held: _Held = []
        try:
            record = _lock_row(table, tx, access, index, key, entry_mode, held)
        except BaseException:
            _give_back(table, tx, held)
            raise
        if key != (index.last(stop) if reverse else index.first(start)):
            _give_back(table, tx, held)  # it has waited, and what is there now is something else
            continue
        row = record.row if record is not None and index.live(key, record) else None
        if mode == "S" and not keep:
            _give_back(table, tx, held)
        for resource, before in held:
            tx.note(resource, before, keep=keep)
        if record is not None and row is not None:
            if mode != "S":
                tx.check_conflict(table, record)
            yield record, row
            if single:
                return
        start, stop = (start, key) if reverse else ((*key, TOP), stop)


def _lock_row(
    table: Table, tx: Transaction, access: Access, index: Index, key: Key, entry_mode: str, held: _Held
) -> Record | None:
    """Lock an entry, then its row. None: there is none now, or READPAST skips it."""
    mode, place = access.mode or "S", index.resource(key)
    if not _take(table, tx, access, place, entry_mode, held):
        return None
    record = index.entries.get(key)
    if record is None or index.clustered or not index.live(key, record):
        return record
    row_lock = table.clustered.resource(record.key)
    if not _take(table, tx, access, row_lock, mode, held):
        _give_back(table, tx, held)
        return None
    if mode != "S" and not access.keep:
        tx.beside[row_lock] = place
    return record


def _take(table: Table, tx: Transaction, access: Access, resource: Hashable, mode: str, held: _Held) -> bool:
    """Lock for a read; False where READPAST skips."""
    locks = table.database.instance.locks
    before = tx.held.get(resource)
    if not access.readpast:
        locks.acquire(tx, resource, mode)
    elif not locks.try_acquire(tx, resource, mode):
        return False
    held.append((resource, before))
    return True


def _give_back(table: Table, tx: Transaction, held: _Held) -> None:
    for resource, before in held:
        if tx.held.get(resource) != before:
            table.database.instance.locks.release(tx, resource, before)
    held.clear()


def _lock_gap(table: Table, tx: Transaction, index: Index, position: Key, mode: str) -> bool:
    """Lock the range that ends at the first key not before ``position``; False if it changed during the wait."""
    key = index.first(position)
    resource = index.resource(key)
    before = tx.held.get(resource)
    tx.lock(resource, _RANGES[mode], keep=True)
    if index.first(position) == key:
        return True
    _give_back(table, tx, [(resource, before)])
    return False
