"""Lock providers for asyncio: the contract, the names and the meanings of ``providers``, with ``await``.

What was obtained here, and on which terms, stands there, for both colours.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from contextvars import copy_context
from typing import Any, Protocol, TypeAlias, runtime_checkable

from sqllease.clock import Clock
from sqllease.errors import LeaseError, LeaseLost, LeaseNotAcquired
from sqllease.options import LeaseOptions
from sqllease.providers import LeaseLocks, MemoryLockProvider

from .holding import AsyncHold
from .lease import AsyncSqlLease
from .store import AsyncLeaseStore

Leave: TypeAlias = Callable[[], Awaitable[bool]]


@runtime_checkable
class AsyncLockProvider(Protocol):
    """As ``LockProvider``, for asyncio."""

    async def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it. Never waits for another holder."""
        ...

    async def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now. A wrong or an old id does nothing to anybody."""
        ...


@asynccontextmanager
async def async_locked(provider: AsyncLockProvider, resource: str) -> AsyncIterator[str | None]:
    """As ``locked``, with ``async with``."""
    lock_id = await provider.obtain_lock(resource)
    try:
        yield lock_id
    finally:
        if lock_id is not None:
            await provider.release_lock(resource, lock_id)


class AsyncSqlLockProvider(LeaseLocks[AsyncSqlLease, Leave]):
    """As ``SqlLockProvider``, on an ``AsyncLeaseStore``. A cancelled obtain leaves nothing behind."""

    def __init__(
        self,
        store: AsyncLeaseStore,
        *,
        options: LeaseOptions | None = None,
        prefix: str = "",
        release: bool = True,
        keep_alive: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(prefix=prefix, release=release, keep_alive=keep_alive)
        self._store = store
        self._keywords: dict[str, Any] = {"options": options} if clock is None else {"options": options, "clock": clock}

    async def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it."""
        lease = self._store.lease(self._prefix + resource, **self._keywords)
        leave: Leave | None
        if self._keep_alive:
            leave = await _enter_hold(lease)
        else:
            leave = lease.try_release if await lease.try_acquire() else None
        return None if leave is None else self._remember(lease, leave)

    async def release_lock(self, resource: str, lock_id: str) -> bool:
        """As ``SqlLockProvider.release_lock``."""
        found = self._take(resource, lock_id)
        if found is None:
            return False
        try:
            return await found.leave()
        except BaseException:
            self._remember(found.lease, found.lease.try_release)
            raise


async def _enter_hold(lease: AsyncSqlLease) -> Leave | None:
    # The hold is entered in one task and left in another: it gets a context of its own.
    context, block = copy_context(), lease.hold(timeout=0)

    async def enter() -> AsyncHold:
        return await block.__aenter__()

    async def exit_() -> None:
        await block.__aexit__(None, None, None)

    async def leave() -> bool:
        try:
            await asyncio.create_task(exit_(), context=context)
        except LeaseLost:
            return False
        if hold.unreleased is not None:
            raise hold.unreleased
        return True

    entering = asyncio.create_task(enter(), context=context)
    try:
        hold = await entering
    except LeaseNotAcquired:
        return None
    except asyncio.CancelledError:
        # It may have been entered in the moment before this task would have heard of it.
        if entering.done() and not entering.cancelled() and entering.exception() is None:
            hold = entering.result()
            with suppress(LeaseError):
                await leave()
        raise
    return leave


class AsyncMemoryLockProvider:
    """As ``MemoryLockProvider``. locks: one to share with threads; by default one of its own."""

    def __init__(self, locks: MemoryLockProvider | None = None) -> None:
        self._locks = MemoryLockProvider() if locks is None else locks

    async def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it."""
        return self._locks.obtain_lock(resource)

    async def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now."""
        return self._locks.release_lock(resource, lock_id)

    def is_held(self, resource: str, lock_id: str) -> bool:
        """Whether the lock is held under this id."""
        return self._locks.is_held(resource, lock_id)
