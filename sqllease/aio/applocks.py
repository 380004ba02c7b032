"""``AsyncAppLockProvider``: locks by ``sp_getapplock`` for asyncio. What is asked stands in ``applocks``."""

from __future__ import annotations

import os
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

from tenacity import AsyncRetrying

from sqllease.applocks import BROKEN, PATIENCE, AppLocks
from sqllease.connection import Connect
from sqllease.faults import Fault, Retry
from sqllease.names import new_owner_id
from sqllease.options import Seconds
from sqllease.statements import Statement

from .connection import AsyncConnection, Rows
from .pool import AsyncPool
from .turns import Turns


@dataclass(eq=False, slots=True)
class _Pinned:
    """One lock and the connection that it lives on. ``undo`` gives the connection back."""

    name: str
    connection: AsyncConnection
    undo: AsyncExitStack
    turns: Turns = field(default_factory=lambda: Turns(1))
    pid: int = field(default_factory=os.getpid)


class AsyncAppLockProvider(AppLocks):
    """As ``AppLockProvider``, for asyncio; ``is_held`` is awaited too. A cancelled call ends the session that it was
    made on: whatever it had obtained is free. So does the end of the loop, as that of ``asyncio.run``, in which a lock
    was obtained.
    """

    def __init__(
        self,
        connection: str | Connect,
        *,
        prefix: str = "",
        principal: str = "public",
        max_locks: int = 8,
        login_timeout: Seconds | None = None,
    ) -> None:
        super().__init__(
            connection, prefix=prefix, principal=principal, max_locks=max_locks, login_timeout=login_timeout
        )
        self._pool = AsyncPool(self._connector, max_locks)
        self._pinned: dict[str, _Pinned] = {}

    async def obtain_lock(self, resource: str) -> str | None:
        """As ``AppLockProvider.obtain_lock``."""
        name = self._name(resource)
        fault: Fault
        try:
            async for attempt in AsyncRetrying(**self._policy()):
                with attempt:
                    return await self._obtain(name)
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        raise fault.error()

    async def release_lock(self, resource: str, lock_id: str) -> bool:
        """As ``AppLockProvider.release_lock``."""
        return await self._end(self._name(resource), lock_id, "release")

    async def is_held(self, resource: str, lock_id: str) -> bool:
        """As ``AppLockProvider.is_held``."""
        pinned = self._find(self._name(resource), lock_id)
        if pinned is None:
            return False
        await pinned.turns.take()
        try:
            if self._pinned.get(lock_id) is pinned and await self._ask(pinned, "look"):
                return True
        finally:
            pinned.turns.give()
        await self._end(pinned.name, lock_id, None)
        return False

    async def aclose(self) -> None:
        """As ``AppLockProvider.close``."""
        for lock_id, pinned in list(self._pinned.items()):
            await self._end(pinned.name, lock_id, None)
        self._pool.close()

    async def _obtain(self, name: str) -> str | None:
        async with AsyncExitStack() as undo:
            connection = await undo.enter_async_context(self._pool.take(self._login_timeout, self._login_timeout))
            granted = self._granted(await _ask(connection, self._statement("obtain", name)))
            if not connection.usable:
                raise Retry(BROKEN)
            if not granted:
                return None
            lock_id = new_owner_id()
            self._pinned[lock_id] = _Pinned(name, connection, undo.pop_all())
        return lock_id

    def _find(self, name: str, lock_id: str) -> _Pinned | None:
        pinned = self._pinned.get(lock_id)
        return pinned if pinned is not None and pinned.name == name and pinned.pid == os.getpid() else None

    async def _end(self, name: str, lock_id: str, verb: str | None) -> bool:
        pinned = self._find(name, lock_id)
        if pinned is None:
            return False
        del self._pinned[lock_id]
        async with pinned.undo:
            await pinned.turns.take()
            try:
                released = verb is not None and await self._ask(pinned, verb)
            finally:
                pinned.turns.give()
            if not released:
                pinned.connection.drop()
        return released

    async def _ask(self, pinned: _Pinned, verb: str) -> bool:
        if not pinned.connection.usable:
            return False
        try:
            rows = await _ask(pinned.connection, self._statement(verb, pinned.name))
        except Retry:
            return False
        return bool(rows[0][0] == 0)


async def _ask(connection: AsyncConnection, statement: Statement) -> Rows:
    # Nothing is to be undone after a cancel: the connection is closed then, and its lock goes with it.
    return await connection.ask(lambda: statement, PATIENCE.command_timeout, lambda rows, ask: None)
