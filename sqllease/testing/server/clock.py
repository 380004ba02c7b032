"""The server's clock and its timers: real time plus an offset that a test moves. It knows nothing of sessions or locks.

Time here never steps by itself: it is the wall clock at start plus the monotonic time since, plus ``advance()``.
"""

from __future__ import annotations

import heapq
import itertools
import threading
import time
from collections.abc import Callable

from .sqltypes import EPOCH_TICKS, TICKS_PER_SECOND, Moment


class Handle:
    """A timer that can be cancelled."""

    __slots__ = ("callback",)

    def __init__(self, callback: Callable[[], None]) -> None:
        self.callback: Callable[[], None] | None = callback

    def cancel(self) -> None:
        self.callback = None


class ServerClock:
    """UTC in ticks of 100 ns. All may be called from any thread, ``run_due`` in the engine's only."""

    def __init__(self, like: ServerClock | None = None) -> None:
        """like: a clock that shows the same time."""
        self.followers: list[ServerClock] = []
        """Clocks that are moved, frozen and thawed along with this one, each from the time that it shows."""
        self.on_change: Callable[[], None] | None = None
        """Set by the owner of the engine's thread; called, from any thread, when ``next_due`` may have changed."""
        self._lock = threading.RLock()
        self._start = EPOCH_TICKS + time.time_ns() // 100 - time.monotonic_ns() // 100
        self._frozen: int | None = None
        if like is not None:
            self._start, self._frozen = like._start, like._frozen
        self._timers: list[tuple[int, int, Handle]] = []
        self._numbers = itertools.count()

    def ticks(self) -> int:
        with self._lock:
            return self._frozen if self._frozen is not None else self._start + time.monotonic_ns() // 100

    def now(self) -> Moment:
        return Moment(self.ticks())

    def advance(self, seconds: float) -> None:
        """Move the clock, backwards too; timers that became due fire in the engine's thread."""
        ticks = round(seconds * TICKS_PER_SECOND)
        with self._lock:
            self._start += ticks
            if self._frozen is not None:
                self._frozen += ticks
        for clock in self.followers:
            clock.advance(seconds)
        self._changed()

    def freeze(self) -> None:
        """From now on only ``advance`` moves the clock."""
        self._freeze(time.monotonic_ns() // 100)

    def _freeze(self, instant: int) -> None:
        with self._lock:
            if self._frozen is None:
                self._frozen = self._start + instant
        for clock in self.followers:
            clock._freeze(instant)

    def thaw(self) -> None:
        """Go on from the frozen time."""
        self._thaw(time.monotonic_ns() // 100)

    def _thaw(self, instant: int) -> None:
        with self._lock:
            if self._frozen is not None:
                self._start = self._frozen - instant
                self._frozen = None
        for clock in self.followers:
            clock._thaw(instant)
        self._changed()

    def call_at(self, due: int, callback: Callable[[], None]) -> Handle:
        """Run ``callback`` in the engine's thread when the clock reaches ``due`` ticks."""
        handle = Handle(callback)
        with self._lock:
            heapq.heappush(self._timers, (due, next(self._numbers), handle))
        self._changed()
        return handle

    def next_due(self) -> float | None:
        """Real seconds until the next timer; None when no passing of real time will fire one."""
        with self._lock:
            while self._timers and self._timers[0][2].callback is None:
                heapq.heappop(self._timers)
            if not self._timers:
                return None
            left = self._timers[0][0] - self.ticks()
            if left > 0 and self._frozen is not None:
                return None
            return max(0, left) / TICKS_PER_SECOND

    def run_due(self) -> None:
        """Run the callbacks that are due, earliest first."""
        while True:
            with self._lock:
                if not self._timers or self._timers[0][0] > self.ticks():
                    return
                callback = heapq.heappop(self._timers)[2].callback
            if callback is not None:
                callback()

    def _changed(self) -> None:
        if self.on_change is not None:
            self.on_change()
