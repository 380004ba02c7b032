"""A caller of the fence, of either colour: a lease, and transactions of its own in the database of the lease table.

Gives blocking steps for both, so that one suite says what the fence promises. Knows nothing of what a test wants.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyodbc

from sqllease import AsyncLeaseStore, LeaseOptions, LeaseStore, schema
from sqllease.testing import LocalSqlServer, ManualClock
from tests.lease.driven import Desk

OPTIONS = LeaseOptions(duration=60, command_timeout=20, lock_timeout=15, sweep_limit=0)
"""Lock waits that outlast any test: what is to wait waits until it is let go."""


class Transactions:
    """One connection of the caller's, autocommit off, with blocking steps."""

    def __init__(self, desk: Desk | None, raw: Any) -> None:
        self._desk = desk
        self.raw = raw

    def execute(self, sql: str, *parameters: object) -> list[Any]:
        async def ask() -> list[Any]:
            cursor = await self.raw.cursor()
            try:
                await cursor.execute(sql, *parameters)
                return list(await cursor.fetchall()) if cursor.description else []
            finally:
                await cursor.close()

        if self._desk is not None:
            return self._desk.run(ask())
        cursor = self.raw.cursor()
        cursor.execute(sql, *parameters)
        rows = list(cursor.fetchall()) if cursor.description else []
        cursor.close()
        return rows

    def write(self, what: str) -> None:
        self.execute("INSERT INTO dbo.Work (Done) VALUES (?)", what)

    def commit(self) -> None:
        self._run(self.raw.commit)

    def rollback(self) -> None:
        self._run(self.raw.rollback)

    def close(self) -> None:
        self._run(self.raw.close)

    def _run(self, step: Any) -> None:
        async def wait() -> None:
            await step()

        if self._desk is None:
            step()
        else:
            self._desk.run(wait())


class Caller:
    """Use it in ``with``: what was opened through it is closed at the end."""

    def __init__(self, server: LocalSqlServer, odbc: str, colour: str, stack: ExitStack) -> None:
        self.server, self._odbc, self._stack = server, odbc, stack
        server.execute(schema.create_script())
        server.execute("CREATE TABLE dbo.Work (Done nvarchar(50) NOT NULL)")
        server.clock.freeze()
        stack.callback(server.clock.thaw)
        self.clock = ManualClock()
        self.desk = stack.enter_context(Desk()) if colour == "async" else None
        self._dsn = server.connection_string(driver=odbc)
        self.operator = LeaseStore(self._dsn, max_connections=8)
        stack.callback(self.operator.close)
        if self.desk is None:
            self._store: Any = self.operator
        else:
            self._store = AsyncLeaseStore(self._dsn)
            stack.callback(lambda: self.run(self._store.aclose()))

    def run(self, call: Any) -> Any:
        """The answer, awaited where the lease is an async one."""
        return self.desk.run(call) if self.desk is not None else call

    def lease(self, name: str = "job", **keywords: Any) -> Any:
        """A lease of the colour under test."""
        return self._store.lease(name, options=OPTIONS, clock=self.clock, **keywords)

    def held(self, name: str = "job") -> Any:
        lease = self.lease(name)
        assert self.run(lease.try_acquire())
        return lease

    def other(self, name: str = "job") -> Any:
        """Another owner, who always blocks."""
        return self.operator.lease(name, options=OPTIONS, clock=self.clock)

    def transactions(self, *, autocommit: bool = False) -> Transactions:
        if self.desk is None:
            mine = Transactions(None, pyodbc.connect(self._dsn, autocommit=autocommit, timeout=5))
        else:
            mine = Transactions(self.desk, self.run(_connect(self._dsn, autocommit)))
        self._stack.callback(mine.close)
        return mine

    def fence(self, lease: Any, mine: Transactions, token: int | None = None) -> None:
        """The fence of a lease or of a hold."""
        self.run(lease.fence(mine.raw, token) if token is not None else lease.fence(mine.raw))

    @contextmanager
    def fenced(self, lease: Any, mine: Transactions) -> Iterator[Any]:
        """``with lease.fenced(connection)``, also of a hold."""
        with self.block(lease.fenced(mine.raw)) as cursor:
            yield cursor

    @contextmanager
    def block(self, manager: Any) -> Iterator[Any]:
        """An ``async with`` as a ``with``."""
        if self.desk is None:
            with manager as entered:
                yield entered
            return
        entered = self.run(manager.__aenter__())
        try:
            yield entered
        except BaseException as error:
            if not self.run(manager.__aexit__(type(error), error, error.__traceback__)):
                raise
        else:
            self.run(manager.__aexit__(None, None, None))

    def expire(self) -> None:
        """The lease runs out by the server's clock; its holder believes in it still."""
        self.server.clock.advance(OPTIONS.duration + 1)

    def break_lease(self, lease: Any) -> None:
        assert self.operator.break_lease(lease.name, lease.owner_id) is not None

    def written(self) -> list[str]:
        """What is committed."""
        found: list[Any] = self.server.execute("SELECT Done FROM dbo.Work WITH (READPAST, READCOMMITTEDLOCK)")
        return [done for (done,) in found]


async def _connect(dsn: str, autocommit: bool) -> Any:
    import aioodbc

    return await aioodbc.connect(dsn=dsn, autocommit=autocommit, timeout=5)
