"""A semaphore that belongs to no loop: nothing is bound before the first wait, and two ``asyncio.run`` in a row may
share it, also with threads that have no loop.

``asyncio.Semaphore`` binds itself to the first loop in which somebody had to wait; a lease outlives loops.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from concurrent.futures import Future


class Turns:
    """At most ``limit`` holders at a time, first come, first served. Safe for threads and loops alike."""

    def __init__(self, limit: int) -> None:
        self._free = limit
        self._waiting: deque[tuple[asyncio.AbstractEventLoop | None, Future[None]]] = deque()
        self._lock = threading.Lock()

    async def take(self, patience: float | None = None) -> bool:
        """Waits for a turn; False when none came within ``patience`` seconds."""
        turn = self._queue(asyncio.get_running_loop())
        if turn is None:
            return True
        try:
            # Not wait_for: up to Python 3.11 it swallows a cancel that comes in the moment of the turn.
            async with asyncio.timeout(patience):
                await asyncio.wrap_future(turn)
        except BaseException as error:
            self._leave(turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def take_blocking(self, patience: float) -> bool:
        """As ``take``, for a thread without a loop."""
        turn = self._queue(None)
        if turn is None:
            return True
        try:
            turn.result(patience)
        except BaseException as error:
            self._leave(turn)
            if isinstance(error, TimeoutError):
                return False
            raise
        return True

    def give(self) -> None:
        """Hands the turn to the next in line. From any thread; never waits."""
        with self._lock:
            while self._waiting:
                loop, turn = self._waiting.popleft()
                gone = loop is not None and loop.is_closed()
                if not gone and turn.set_running_or_notify_cancel():
                    turn.set_result(None)
                    return
            self._free += 1

    def _queue(self, loop: asyncio.AbstractEventLoop | None) -> Future[None] | None:
        """A place in the line; None when a turn is free and now taken."""
        with self._lock:
            if self._free:
                self._free -= 1
                return None
            turn: Future[None] = Future()
            self._waiting.append((loop, turn))
            return turn

    def _leave(self, turn: Future[None]) -> None:
        # What can no longer be cancelled was handed over while we were leaving: the next one gets it.
        if not turn.cancel():
            self.give()
