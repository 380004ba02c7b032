"""What the async tests share: one stand-in with a lease table in it, stores on it, and how to wait for an event in a
loop.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from sqllease import AsyncLeaseStore, AsyncSqlLease, LeaseOptions, schema
from sqllease.testing import LocalSqlServer
from sqllease.testing.server.requestlog import Request

T = TypeVar("T")

PATIENCE_S = 20.0
"""How long something that must happen may take before the test fails."""
SLOW = LeaseOptions(duration=400, command_timeout=30)
"""Time-outs so long that what ends earlier has not waited for them."""
ACQUIRE, RENEW, RELEASE = "MERGE INTO", "Move the expiry", "Give one tenure back"
"""Part of the text of each verb's batch."""


class Desk:
    """A stand-in, its lease table, and the way to it."""

    def __init__(self, server: LocalSqlServer, odbc: str) -> None:
        self.server = server
        self.dsn = server.connection_string(driver=odbc)
        self._stores: list[AsyncLeaseStore] = []
        server.execute(schema.create_script())

    def store(self, connection: str | Callable[[], Any] | None = None, **keywords: Any) -> AsyncLeaseStore:
        store = AsyncLeaseStore(self.dsn if connection is None else connection, **keywords)
        self._stores.append(store)
        return store

    def contenders(self, **keywords: Any) -> tuple[AsyncSqlLease, AsyncSqlLease]:
        """Two leases of one name, with a store each."""
        keywords = {"options": SLOW, **keywords}
        return self.store().lease("job", **keywords), self.store().lease("job", **keywords)

    def rows(self, name: str = "job") -> list[tuple[str, str]]:
        """Owner and beginning of the row of this name, as the administrator sees it."""
        found: list[Any] = self.server.execute(
            "SELECT OwnerInstanceId, CONVERT(nvarchar(34), AcquiredAtUtc, 126) FROM [lease].[Leases] "
            f"WHERE LeaseName = N'{name}'"
        )
        return [(str(owner), str(began)) for owner, began in found]

    def sent(self, text: str) -> list[Request]:
        """What clients have asked with this in it, so far."""
        return [request for request in self.server.log.requests if text in request.text and not request.housekeeping]

    async def settle(self) -> None:
        """Waits until every call that was cancelled has been followed to its end. Closes the stores' connections."""
        for store in self._stores:
            await store.aclose()
        await until(
            lambda: not any(thread.name.startswith("sqllease") for thread in threading.enumerate()),
            "the library's threads have ended",
        )
        await until(lambda: self.server.connections == 0, "the server's connections have ended")


async def until(condition: Callable[[], object], what: str) -> None:
    """Returns as soon as the condition is true; the loop goes on meanwhile."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.002)


async def ended_by_cancel(task: asyncio.Task[T]) -> float:
    """Cancels the task, which must end by that; the seconds that it took."""
    began = time.monotonic()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled(), f"not cancelled: {task}"
    return time.monotonic() - began
