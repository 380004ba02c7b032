"""What the tests of lock providers share: providers of every kind behind blocking verbs, each the worker of one process
or of another.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from sqllease import (
    AppLockProvider,
    AsyncAppLockProvider,
    AsyncLeaseStore,
    AsyncMemoryLockProvider,
    AsyncSqlLockProvider,
    LeaseStore,
    MemoryLockProvider,
    SqlLockProvider,
)
from sqllease.testing import LocalSqlServer
from tests.lease.driven import Desk

KINDS = ("memory", "sql", "sql kept alive", "applock")
DURABLE = ("sql", "sql kept alive")
"""Those whose locks are rows of a table."""


class Provider(Protocol):
    """A lock provider of the library, whatever its colour, with ``is_held``."""

    def obtain_lock(self, resource: str) -> str | None: ...
    def release_lock(self, resource: str, lock_id: str) -> bool: ...
    def is_held(self, resource: str, lock_id: str) -> bool: ...


class Driven:
    """An async provider behind blocking verbs."""

    def __init__(self, desk: Desk, provider: Any) -> None:
        self.desk, self.provider = desk, provider

    def obtain_lock(self, resource: str) -> str | None:
        lock_id: str | None = self.desk.run(self.provider.obtain_lock(resource))
        return lock_id

    def release_lock(self, resource: str, lock_id: str) -> bool:
        released: bool = self.desk.run(self.provider.release_lock(resource, lock_id))
        return released

    def is_held(self, resource: str, lock_id: str) -> bool:
        answer: Any = self.provider.is_held(resource, lock_id)
        held: bool = answer if isinstance(answer, bool) else self.desk.run(answer)
        return held


class Makers:
    """Makes providers over one server. ``fresh`` is as another process would have it: nothing shared but the server."""

    def __init__(self, server: LocalSqlServer, odbc: str, colour: str, desk: Desk) -> None:
        self.server, self.colour, self.desk = server, colour, desk
        self.dsn = server.connection_string(driver=odbc)
        self._memory = MemoryLockProvider()
        self.closing: list[Callable[[], object]] = []

    def fresh(self, kind: str, **keywords: Any) -> Provider:
        if kind == "sql kept alive":
            keywords["keep_alive"] = True
        if self.colour == "sync":
            return self._sync(kind, keywords)
        return Driven(self.desk, self._async(kind, keywords))

    def _sync(self, kind: str, keywords: dict[str, Any]) -> Provider:
        if kind == "memory":
            return self._memory
        if kind == "applock":
            locks = AppLockProvider(self.dsn, **keywords)
            self.closing.append(locks.close)
            return locks
        store = LeaseStore(self.dsn)
        self.closing.append(store.close)
        return SqlLockProvider(store, **keywords)

    def _async(self, kind: str, keywords: dict[str, Any]) -> object:
        if kind == "memory":
            return AsyncMemoryLockProvider(self._memory)
        if kind == "applock":
            locks = AsyncAppLockProvider(self.dsn, **keywords)
            self.closing.append(lambda: self.desk.run(locks.aclose()))
            return locks
        store = AsyncLeaseStore(self.dsn)
        self.closing.append(lambda: self.desk.run(store.aclose()))
        return AsyncSqlLockProvider(store, **keywords)
