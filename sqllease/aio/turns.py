"""A semaphore for asyncio that belongs to no loop: nothing is bound before the first wait, and two ``asyncio.run`` in
a row may share it.

``asyncio.Semaphore`` binds itself to the first loop in which somebody had to wait; a lease outlives loops.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque


class Turns:
    """At most ``limit`` holders at a time, first come, first served. Safe for threads and loops alike."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[tuple[asyncio.AbstractEventLoop, asyncio.Future[None]]] = deque()
        self._lock = threading.Lock()

    async def take(self, patience: float | None = None) -> bool:
        """Waits for a turn; False when none came within ``patience`` seconds."""
        loop = asyncio.get_running_loop()
        with self._lock:
            if self._free:
                self._free -= 1
                return True
            turn = loop.create_future()
            self._waiting.append((loop, turn))
        try:
            # Not wait_for: up to Python 3.11 it swallows a cancel that comes in the moment of the turn.
            async with asyncio.timeout(patience):
                await turn
        except BaseException as error:
            self._withdraw(loop, turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def give(self) -> None:
        """Hands the turn to the next in line. From any thread; never waits."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                if not loop.is_closed():
                    loop.call_soon_threadsafe(self._pass_on, turn)
                    return
            self._free += 1

    def _pass_on(self, turn: asyncio.Future[None]) -> None:
        if turn.done():
            self.give()
        else:
            turn.set_result(None)

    def _withdraw(self, loop: asyncio.AbstractEventLoop, turn: asyncio.Future[None]) -> None:
        with self._lock:
            if (loop, turn) in self._waiting:
                self._waiting.remove((loop, turn))
                return
        # The turn was handed over, or is about to be, while we were leaving: the next one gets it.
        if turn.done() and not turn.cancelled():
            self.give()
        else:
            turn.cancel()
