"""The lease table in memory: the same statements as the T-SQL of ``sqllease/sql``, on a dictionary under one lock.

What a statement does to a row is said here a second time, and the contract suite holds both to the same promises. What
an answer means is not: the rows that come out are those that the server sends. Knows no lease object.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

from sqllease.answers import ANSWER_COLUMNS, INFO_COLUMNS, Row
from sqllease.clock import SYSTEM_CLOCK, Clock
from sqllease.errors import LeaseStoreError
from sqllease.names import TableName, resting_owner
from sqllease.options import LeaseOptions
from sqllease.statements import Statement, Statements

_TICKS = 10_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def _ticks(seconds: float) -> int:
    """Seconds as ticks of 100 ns, whole microseconds as in the T-SQL."""
    return round(seconds * 1_000_000) * 10


def _text(ticks: int) -> str:
    """ISO text with seven digits, as CONVERT style 126 writes it."""
    moment = _EPOCH + timedelta(seconds=ticks // _TICKS)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{ticks % _TICKS:07}+00:00"


def _read(text: str) -> int:
    whole, fraction = text.removesuffix("+00:00").split(".")
    passed = datetime.fromisoformat(f"{whole}+00:00") - _EPOCH
    return (passed.days * 86_400 + passed.seconds) * _TICKS + int(fraction)


@dataclass(frozen=True, slots=True)
class _Lease:
    """One row. Times are ticks since 1970."""

    name: str
    owner: str
    acquired: int
    renewed: int
    expires: int
    metadata: str | None
    version: int

    def shown(self, now: int) -> Row:
        """As INFO_COLUMNS."""
        times = (_text(self.acquired), _text(self.renewed), _text(self.expires))
        return (self.name, self.owner, *times, (self.expires - now) // 10, self.metadata)


class MemoryTable:
    """One lease table in the memory of this process, and its server's clock.

    clock: the one that the leases use as well, unless they are given another. ``outage``: while True nothing can be
    asked, every call raises LeaseStoreError, as when the database is down.
    """

    def __init__(self, clock: Clock = SYSTEM_CLOCK) -> None:
        self.clock = clock
        self.outage = False
        self._began = datetime.now(UTC) - timedelta(seconds=clock.now())
        self._rows: dict[str, _Lease] = {}
        self._version = 2_000
        self._lock = threading.Lock()

    def delete(self, name: str) -> bool:
        """Takes the row away, as somebody does by hand: its holder loses the lease at its next renew."""
        with self._lock:
            return self._rows.pop(name, None) is not None

    def run(self, statement: Statement) -> list[Row]:
        """Does what one of MemoryStatements says."""
        assert isinstance(statement, _Step)
        if self.outage:
            raise LeaseStoreError("the server could not be reached (outage)", transient=True)
        with self._lock:
            return statement.act(self)

    # What follows runs under the lock, one statement at a time.

    def now(self) -> int:
        passed = self._began - _EPOCH
        return (passed.days * 86_400 + passed.seconds) * _TICKS + passed.microseconds * 10 + _ticks(self.clock.now())

    def row(self, name: str) -> _Lease | None:
        return self._rows.get(name)

    def rows(self) -> list[_Lease]:
        return sorted(self._rows.values(), key=lambda row: row.name)

    def put(self, row: _Lease) -> _Lease:
        self._version += 1
        self._rows[row.name] = row = replace(row, version=self._version)
        return row

    def drop(self, row: _Lease) -> None:
        del self._rows[row.name]

    def sweep(self, before: int, limit: int) -> int:
        stale = sorted((row for row in self._rows.values() if row.expires <= before), key=lambda row: row.expires)
        for row in stale[:limit]:
            self.drop(row)
        return len(stale[:limit])


@dataclass(frozen=True, slots=True)
class _Step(Statement):
    """A statement for a MemoryTable."""

    act: Callable[[MemoryTable], list[Row]] = lambda table: []


class MemoryStatements(Statements):
    """The statements of a lease table, for a MemoryTable."""

    def __init__(self) -> None:
        super().__init__(TableName())

    def acquire(
        self,
        name: str,
        owner_id: str,
        metadata: str | None,
        options: LeaseOptions,
        *,
        last: str | None,
        keep: bool,
        sweep: bool,
    ) -> Statement:
        """acquire.sql, and sweep.sql behind it."""

        def act(table: MemoryTable) -> list[Row]:
            now, known = table.now(), _read(last) if last else 0
            expires, takeable = now + _ticks(options.duration), now - _ticks(options.takeover_grace)
            begin = known + 1 if known >= now else now
            row = table.row(name)
            if row is not None and row.expires > takeable and row.owner != owner_id:
                return _answer(now, expires, None, row)
            until = max(expires, begin + _ticks(options.hold_at_least))
            if row is not None and keep and row.acquired == known and row.expires > now:
                begin = row.acquired
                until = max(row.expires, expires, begin + _ticks(options.hold_at_least))
            elif row is not None:
                begin = max(begin, row.acquired + 1)
            done = table.put(_Lease(name, owner_id, begin, now, until, metadata, 0))
            if sweep:
                table.sweep(now - _ticks(int(options.sweep_after) + 1), options.sweep_limit)
            return _answer(now, expires, done, None, previous=row.owner if row else None)

        return _step(ANSWER_COLUMNS, act)

    def renew(self, name: str, owner_id: str, tenure: str, options: LeaseOptions) -> Statement:
        """renew.sql."""

        def act(table: MemoryTable) -> list[Row]:
            now = table.now()
            expires = now + _ticks(options.duration)
            row, done = table.row(name), None
            if row is not None and (row.owner, row.acquired) == (owner_id, _read(tenure)) and row.expires > now:
                done = table.put(replace(row, renewed=now, expires=max(row.expires, expires)))
            return _answer(now, expires, done, row)

        return _step(ANSWER_COLUMNS, act)

    def release(self, name: str, owner_id: str, tenure: str, options: LeaseOptions, *, rest: bool) -> Statement:
        """release.sql."""
        hold = _ticks(options.hold_at_least) if rest else 0

        def act(table: MemoryTable) -> list[Row]:
            now, began = table.now(), _read(tenure)
            row, done = table.row(name), None
            if row is not None and (row.owner, row.acquired) == (owner_id, began):
                done = row
                if hold and began + hold > now:
                    table.put(replace(row, owner=resting_owner(owner_id), renewed=now, expires=began + hold))
                else:
                    table.drop(row)
            return _answer(now, began + hold, done, row)

        return _step(ANSWER_COLUMNS, act)

    def get(self, name: str) -> Statement:
        """inspect.sql of one name."""
        return _step(INFO_COLUMNS, lambda table: [row.shown(table.now()) for row in table.rows() if row.name == name])

    def list(self) -> Statement:
        """inspect.sql."""
        return _step(INFO_COLUMNS, lambda table: [row.shown(table.now()) for row in table.rows()])

    def break_lease(self, name: str, owner_id: str, lock_timeout: float) -> Statement:
        """break.sql."""

        def act(table: MemoryTable) -> list[Row]:
            row = table.row(name)
            if row is None or row.owner not in (owner_id, resting_owner(owner_id)):
                return []
            table.drop(row)
            return [row.shown(table.now())]

        return _step(INFO_COLUMNS, act)

    def purge(self, older_than: float, limit: int, lock_timeout: float) -> Statement:
        """purge.sql."""
        return _step(("Deleted",), lambda table: [(table.sweep(table.now() - _ticks(older_than), limit),)])


def _step(columns: tuple[str, ...], act: Callable[[MemoryTable], list[Row]]) -> Statement:
    return _Step("", columns=columns, act=act)


def _answer(now: int, expires: int, done: _Lease | None, seen: _Lease | None, previous: str | None = None) -> list[Row]:
    """answer.sql: one row of ANSWER_COLUMNS."""
    left: Row = (None,) * 6
    if done is not None:
        left = (done.name, done.owner, previous, _text(done.acquired), _text(expires), done.version)
    shown: Row = (None,) * 7 if done is not None or seen is None else seen.shown(now)
    return [(0, *left, *shown)]
