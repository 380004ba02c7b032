"""``MemoryLease`` and ``AsyncMemoryLease``: leases over a table in memory, for tests of code that works under a lease.

They are the library's own leases and holds, with a store that asks a ``MemoryTable`` instead of a server: no driver, no
network, no extra. They exclude each other in this process only.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar, cast

from sqllease.aio import AsyncLeaseStore, AsyncSqlLease
from sqllease.answers import Row
from sqllease.clock import Clock
from sqllease.connection import Connection
from sqllease.lease import SqlLease
from sqllease.options import LeaseOptions
from sqllease.statements import Statement
from sqllease.store import LeaseStore
from sqllease.table import Job
from sqllease.verification import Check

from .table import MemoryStatements, MemoryTable

T = TypeVar("T")

_DEFAULTS = LeaseOptions()


class MemoryLeaseStore(LeaseStore):
    """A ``LeaseStore`` over a table in memory, with all that hangs on a store: leases, ``guarded``, lock providers.

    table: one to share with other stores and leases; by default one of its own.
    """

    def __init__(self, table: MemoryTable | None = None) -> None:
        super().__init__(_no_connection)
        self.table = MemoryTable() if table is None else table
        self._statements = MemoryStatements()

    def lease(
        self,
        name: str,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions | None = None,
        clock: Clock | None = None,
    ) -> MemoryLease:
        """As ``LeaseStore.lease``. clock: by default that of the table."""
        return MemoryLease(name, self, owner_id=owner_id, metadata=metadata, options=options or _DEFAULTS, clock=clock)

    def ensure_created(self) -> None:
        """The table is there."""

    def verify(self) -> builtins.list[Check]:
        """Nothing is amiss."""
        return []

    def ask(self, prepare: Callable[[], Statement], settle: Callable[[Sequence[Row]], T], **limits: Any) -> T:
        """One question to the table."""
        return settle(self.table.run(prepare()))

    def _obey(self, job: Job[T], budget: float = 0.0) -> T:
        return job(_as_connection(self.table))


class AsyncMemoryLeaseStore(AsyncLeaseStore):
    """As ``MemoryLeaseStore``, for asyncio. On one table, sync and async leases exclude each other."""

    blocking: MemoryLeaseStore

    def __init__(self, table: MemoryTable | None = None) -> None:
        super().__init__(_no_connection)
        self.blocking = MemoryLeaseStore(table)
        self.table = self.blocking.table
        self._statements = self.blocking._statements

    def lease(
        self,
        name: str,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions | None = None,
        clock: Clock | None = None,
    ) -> AsyncMemoryLease:
        """As ``AsyncLeaseStore.lease``. clock: by default that of the table."""
        return AsyncMemoryLease(
            name, self, owner_id=owner_id, metadata=metadata, options=options or _DEFAULTS, clock=clock
        )

    async def ensure_created(self) -> None:
        """The table is there."""

    async def verify(self) -> builtins.list[Check]:
        """Nothing is amiss."""
        return []

    async def ask(self, prepare: Callable[[], Statement], settle: Callable[[Sequence[Row]], T], **limits: Any) -> T:
        """One question to the table."""
        return self.blocking.ask(prepare, settle)

    async def _obey(self, job: Job[T], budget: float = 0.0) -> T:
        return self.blocking._obey(job)


class MemoryLease(SqlLease):
    """A lease with the verbs, properties, errors and holds of ``SqlLease``, over a table in memory.

    table: what contenders share, a ``MemoryTable`` or a ``MemoryLeaseStore``; without one nobody competes. clock: what
    this owner believes in, by default the table's; give it another to test a host whose clock is wrong.
    """

    def __init__(
        self,
        name: str,
        table: MemoryTable | MemoryLeaseStore | None = None,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions = _DEFAULTS,
        clock: Clock | None = None,
    ) -> None:
        store = table if isinstance(table, MemoryLeaseStore) else MemoryLeaseStore(table)
        self.table = store.table
        super().__init__(
            name, store, owner_id=owner_id, metadata=metadata, options=options, clock=clock or store.table.clock
        )


class AsyncMemoryLease(AsyncSqlLease):
    """As ``MemoryLease``, with the verbs of ``AsyncSqlLease``."""

    def __init__(
        self,
        name: str,
        table: MemoryTable | AsyncMemoryLeaseStore | None = None,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions = _DEFAULTS,
        clock: Clock | None = None,
    ) -> None:
        store = table if isinstance(table, AsyncMemoryLeaseStore) else AsyncMemoryLeaseStore(table)
        self.table = store.table
        super().__init__(
            name, store, owner_id=owner_id, metadata=metadata, options=options, clock=clock or store.table.clock
        )


class _Door:
    """A MemoryTable where jobs want an open connection: they only ever ``ask``."""

    def __init__(self, table: MemoryTable) -> None:
        self._table = table

    def ask(self, statement: Statement, command_timeout: int) -> list[Row]:
        return self._table.run(statement)


def _as_connection(table: MemoryTable) -> Connection:
    return cast(Connection, _Door(table))


def _no_connection() -> NoReturn:
    raise AssertionError("a table in memory has no connection")
