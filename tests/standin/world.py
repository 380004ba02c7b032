"""A storage without parser and wire: sessions as greenlets that a test scripts in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from sqllease.testing.server.clock import ServerClock
from sqllease.testing.server.scheduler import Scheduler, Task
from sqllease.testing.server.sqltypes import INT, ROWVERSION, SqlError, Work, nvarchar
from sqllease.testing.server.storage import Access, Column, Commit, Index, Instance, Row, Table, Transaction

BINARY = "Latin1_General_100_BIN2"
READ = Access("S")
REPEATABLE = Access("S", keep=True)
HOLDLOCK = Access("S", range=True)
UPDATE = Access("U")
UPDLOCK = Access("U", keep=True)
UPDLOCK_HOLDLOCK = Access("U", range=True)
NOLOCK = Access(None)
VERSIONED = Access("snapshot")


class FakeSession:
    def __init__(self, number: int) -> None:
        self.id = number
        self.lock_timeout = -1
        self.deadlock_priority = 0
        self.work = Work()


class World:
    """One database with one table (name nvarchar(20) primary key, expires int with an index, version rowversion)."""

    def __init__(self, seed: int = 0, switch_probability: float = 0) -> None:
        self.clock = ServerClock()
        self.scheduler = Scheduler(self.clock, seed)
        self.scheduler.switch_probability = switch_probability
        self.instance = Instance(self.clock, self.scheduler)
        self.locks = self.instance.locks
        self.database = self.instance.create_database("app")
        self.log: list[Commit] = []
        self.database.on_commit = self.log.append
        self.sessions = 50
        columns = [
            Column("name", nvarchar(20), nullable=False, collation=BINARY),
            Column("expires", INT),
            Column("version", ROWVERSION, nullable=False),
        ]
        self.key = Index(1, "PK_t", [0], unique=True, clustered=True, constraint="PRIMARY KEY")
        self.expiry = Index(2, "IX_t", [1])
        self.table = Table(self.database, 7, "dbo", "t", columns, self.key)
        self.table.attach(self.expiry)
        tx = self.begin()
        self.database.create_table(tx, self.table)
        tx.commit()

    def begin(self, isolation: str = "READ COMMITTED") -> Transaction:
        self.sessions += 1
        return self.instance.begin(FakeSession(self.sessions), isolation)

    def fill(self, **rows: int) -> None:
        tx = self.begin()
        for name, expires in rows.items():
            self.table.insert(tx, (name, expires, None))
        tx.commit()

    def task(self, function: Callable[..., object], *arguments: Any) -> Task:
        """Start it and let everything run that can."""
        task = self.scheduler.spawn(lambda: function(*arguments))
        self.scheduler.run()
        return task

    def finish(self, *tasks: Task) -> None:
        self.scheduler.run()
        for task in tasks:
            assert task.done
            if task.error is not None:
                raise task.error

    def read(self, tx: Transaction, access: Access, name: str) -> Row | None:
        return next((row for _, row in self.table.seek(tx, access, self.key, (name,))), None)

    def put(self, tx: Transaction, name: str, expires: int) -> Row:
        return self.table.insert(tx, (name, expires, None))[1]

    def change(self, tx: Transaction, name: str, expires: int) -> Row | None:
        """UPDATE t SET expires = ... WHERE name = ..."""
        for key, row in list(self.table.seek(tx, UPDATE, self.key, (name,))):
            done = self.table.update(tx, key, (row[0], expires, row[2]))
            return done[1] if done else None
        return None

    def remove(self, tx: Transaction, name: str) -> None:
        for key, _ in list(self.table.seek(tx, UPDATE, self.key, (name,))):
            self.table.delete(tx, key)

    def merge(self, tx: Transaction, access: Access, name: str, expires: int) -> None:
        """MERGE with these hints: update the row or insert it. Another session may run before it writes."""
        found = list(self.table.seek(tx, access, self.key, (name,)))
        self.scheduler.pause()
        for key, row in found:
            self.table.update(tx, key, (name, expires, row[2]))
        if not found:
            self.put(tx, name, expires)

    def rows(self, access: Access = NOLOCK, tx: Transaction | None = None) -> list[tuple[Any, ...]]:
        """Names and expiries, in the order of the primary key."""
        reader = tx or self.begin()
        found = [row[:2] for _, row in self.table.scan(reader, access, self.key)]
        if tx is None:
            reader.commit()
        return found

    def locked(self, tx: Transaction) -> dict[tuple[str, Any], str]:
        """The transaction's key locks, by index name and first column (or 'infinity')."""
        names = {("KEY", self.database.id, 7, index.id): index for index in (self.key, self.expiry)}
        found = {}
        for resource, mode in tx.held.items():
            assert isinstance(resource, tuple)
            if resource[0] in names:
                index, key = names[resource[0]], resource[1]
                record = index.entries.get(key) if key != "infinity" else None
                row = record and (record.row or record.history[0][1])
                found[index.name, row[index.columns[0]] if row else "infinity"] = mode
        return found


def never_wait(tx: Transaction) -> None:
    """SET LOCK_TIMEOUT 0."""
    assert isinstance(tx.session, FakeSession)
    tx.session.lock_timeout = 0


def number_of(task: Task) -> int:
    """The number of the SQL error that ended the task."""
    assert task.done
    assert isinstance(task.error, SqlError), task.error
    return task.error.number
