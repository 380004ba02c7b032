"""Where engines run: an event loop in a daemon thread, and what ties an engine's scheduler and clock to it.

Knows when something has to run, not what. A forked child has the objects but not the thread: there, nothing is done.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from .engine import Engine

_T = TypeVar("_T")


class LoopThread:
    """The thread of one server; it may be started again after a stop."""

    def __init__(self) -> None:
        self.loop: asyncio.AbstractEventLoop
        self._thread: threading.Thread | None = None
        self._process = 0

    @property
    def started(self) -> bool:
        return self._thread is not None

    @property
    def running(self) -> bool:
        """Whether it runs in this process."""
        return self._thread is not None and self._process == os.getpid()

    def start(self) -> None:
        self._process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="LocalSqlServer", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()
            self.loop.close()

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Runs a coroutine in the thread and waits for its result."""
        if self._thread is None:
            coroutine.close()
            raise RuntimeError("the server is not running")
        return asyncio.run_coroutine_threadsafe(coroutine, self.loop).result()

    def call(self, function: Callable[[], _T]) -> _T:
        """As ``run``, for a function."""

        async def run() -> _T:
            return function()

        return self.run(run())


class Pump:
    """Runs an engine's tasks and timers in a loop, from now until ``close``. For the loop's thread only."""

    def __init__(self, engine: Engine, loop: asyncio.AbstractEventLoop) -> None:
        def run_soon() -> None:
            loop.call_soon(engine.scheduler.run)

        def look_soon() -> None:
            loop.call_soon_threadsafe(self._look)

        self._engine, self._loop = engine, loop
        self._timer: asyncio.TimerHandle | None = None
        engine.scheduler.on_ready, engine.clock.on_change = run_soon, look_soon
        self._look()

    def close(self) -> None:
        self._engine.clock.on_change = self._engine.scheduler.on_ready = None
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        clock = self._engine.clock
        clock.run_due()
        due = clock.next_due()
        self._timer = None if due is None else self._loop.call_later(due, self._look)
