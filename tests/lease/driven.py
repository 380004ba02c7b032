"""The async lease behind blocking verbs, so that one suite says what a lease promises, whatever its colour.

Knows asyncio. Knows nothing of what a test wants to see.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from datetime import datetime
from types import TracebackType
from typing import Any, Self, TypeVar

from sqllease import AsyncSqlLease, LeaseInfo, LeaseOptions

from .support import PATIENCE_S

T = TypeVar("T")


class Desk:
    """One ``asyncio.Runner`` in a thread of its own, for any number of threads that want something awaited."""

    def __init__(self) -> None:
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._serve, name="desk", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._closing.set)
        self._thread.join(PATIENCE_S)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Awaits the call; its result or its exception is the caller's."""
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(PATIENCE_S)

    def _serve(self) -> None:
        async def wait() -> None:
            self._loop, self._closing = asyncio.get_running_loop(), asyncio.Event()
            self._ready.set()
            await self._closing.wait()

        with asyncio.Runner() as runner:
            runner.run(wait())


class DrivenLease:
    """An ``AsyncSqlLease`` with the verbs of ``SqlLease``. What needs no I/O is asked in the caller's thread."""

    def __init__(self, desk: Desk, lease: AsyncSqlLease) -> None:
        self._desk, self._lease = desk, lease

    def try_acquire(self) -> bool:
        return self._desk.run(self._lease.try_acquire())

    def try_renew(self) -> bool:
        return self._desk.run(self._lease.try_renew())

    def try_release(self) -> bool:
        return self._desk.run(self._lease.try_release())

    def close(self) -> None:
        self._desk.run(self._lease.aclose())

    def check(self) -> None:
        self._lease.check()

    @property
    def name(self) -> str:
        return self._lease.name

    @property
    def owner_id(self) -> str:
        return self._lease.owner_id

    @property
    def metadata(self) -> str | None:
        return self._lease.metadata

    @property
    def options(self) -> LeaseOptions:
        return self._lease.options

    @property
    def held(self) -> bool:
        return self._lease.held

    @property
    def remaining(self) -> float:
        return self._lease.remaining

    @property
    def expires_at(self) -> datetime | None:
        return self._lease.expires_at

    @property
    def fencing_token(self) -> int | None:
        return self._lease.fencing_token

    @property
    def confirmed(self) -> bool | None:
        return self._lease.confirmed

    @property
    def holder(self) -> LeaseInfo | None:
        return self._lease.holder
