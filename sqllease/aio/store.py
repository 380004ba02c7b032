"""``AsyncLeaseStore``: the lease table for asyncio. The same names and meanings as ``LeaseStore``, with ``await``
before the verbs.

Knows how to wait without blocking a loop. What is asked, and what it means, stands in the rooms that both colours
share.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import AsyncRetrying

from sqllease.answers import LeaseInfo, Row
from sqllease.clock import SYSTEM_CLOCK, Clock
from sqllease.connection import Connect
from sqllease.faults import Fault, Retry
from sqllease.options import LeaseOptions, ReplicaOptions, Seconds
from sqllease.replica import Confirmation
from sqllease.statements import Statement
from sqllease.store import LeaseStore
from sqllease.table import PATIENCE, Job, LeaseTable
from sqllease.verification import Check

from .connection import TooLate, ask_once, behind, wait_a_moment
from .pool import AsyncPool

if TYPE_CHECKING:
    from .lease import AsyncSqlLease

T = TypeVar("T")


class AsyncLeaseStore(LeaseTable):
    """One lease table in one database, for asyncio. Arguments as those of ``LeaseStore``.

    Bound to no loop: one store may serve several ``asyncio.run`` one after the other without a new login. Each
    connection has a thread of its own, so a lease call never waits behind the default executor. Needs
    ``sqllease[aio]``, unless ``connection`` is a callable.
    """

    def __init__(
        self,
        connection: str | Connect,
        *,
        schema: str = "lease",
        table: str = "Leases",
        max_connections: int = 4,
        login_timeout: Seconds | None = None,
        replica: ReplicaOptions | None = None,
    ) -> None:
        arguments: dict[str, Any] = {
            "schema": schema,
            "table": table,
            "login_timeout": login_timeout,
            "replica": replica,
        }
        super().__init__(connection, max_connections=max_connections, **arguments)
        self._pool = AsyncPool(self._connector, max_connections)
        self._replica_pool = AsyncPool(self._replica_connector, 1) if self._replica_connector else None
        self.blocking = LeaseStore(connection, max_connections=max_connections, **arguments)
        """For the threads that keep leases alive, which must wait neither for the loop nor for another lease's row:
        connections of their own, opened when first needed. Mostly that is one.
        """

    def lease(
        self,
        name: str,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> AsyncSqlLease:
        """A lease of this table; the same as ``AsyncSqlLease(name, store, ...)``."""
        from .lease import AsyncSqlLease

        return AsyncSqlLease(
            name,
            self,
            owner_id=owner_id,
            metadata=metadata,
            options=LeaseOptions() if options is None else options,
            clock=clock,
        )

    async def get(self, name: str) -> LeaseInfo | None:
        """As ``LeaseStore.get``."""
        return await self._obey(self._get(name))

    async def list(self) -> list[LeaseInfo]:
        """As ``LeaseStore.list``."""
        return await self._obey(self._list())

    async def break_lease(self, name: str, owner_id: str) -> LeaseInfo | None:
        """As ``LeaseStore.break_lease``, with the same warning."""
        return await self._obey(self._break_lease(name, owner_id), budget=0.0)

    async def purge(self, older_than: Seconds = 3600.0, *, progress: Callable[[int], object] | None = None) -> int:
        """As ``LeaseStore.purge``."""
        batch = self._purge_batch(older_than)
        total = 0
        while deleted := await self._obey(batch):
            total += deleted
            if progress is not None:
                progress(total)
        return total

    async def ensure_created(self) -> None:
        """As ``LeaseStore.ensure_created``."""
        await self._obey(self._ensure_created())

    async def verify(self) -> builtins.list[Check]:
        """As ``LeaseStore.verify``."""
        return await self._obey(self._verify())

    async def aclose(self) -> None:
        """Closes the idle connections. Releases no lease. The store can be used again."""
        self._pool.close()
        if self._replica_pool is not None:
            self._replica_pool.close()
        self.blocking.close()

    async def ask(
        self,
        prepare: Callable[[], Statement],
        settle: Callable[[Sequence[Row]], T],
        *,
        too_late: TooLate,
        command_timeout: int,
        login_timeout: int,
        patience: float,
    ) -> T:
        """One question on one connection; see ``AsyncConnection.ask``. Raises Retry with the fault."""
        async with self._pool.take(self._login_timeout or login_timeout, patience) as connection:
            return settle(await connection.ask(prepare, command_timeout, too_late))

    async def look(self, confirmation: Confirmation) -> None:
        """One look at the replica; what it shows, or why it does not, goes to the confirmation."""
        assert self._replica_pool is not None
        patience = confirmation.patience
        try:
            async with self._replica_pool.take(patience, patience) as connection:
                rows = await connection.ask(lambda: confirmation.statement, patience, lambda rows, ask: None)
        except Retry as retry:
            confirmation.failed(retry.fault)
        else:
            confirmation.saw(rows)

    async def send_behind(self, statement: Statement, command_timeout: int, login_timeout: int) -> None:
        """Sends a statement on a connection of its own behind the back of a cancelled caller; waits a second at
        most.
        """
        login_timeout = self._login_timeout or login_timeout
        await wait_a_moment(behind(lambda: ask_once(self._connector, login_timeout, statement, command_timeout)))

    async def _obey(self, job: Job[T], budget: float = PATIENCE.retry_budget) -> T:
        fault: Fault
        login_timeout = self._login_timeout or PATIENCE.login_timeout
        try:
            async for attempt in AsyncRetrying(**self._policy(budget)):
                with attempt:
                    async with self._pool.take(login_timeout, PATIENCE.login_timeout) as connection:
                        return await connection.do(job)
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        raise fault.error()
