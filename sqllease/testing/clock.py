"""A local clock that a test moves: together with the server's clock, expiry is tested without sleeping."""

from __future__ import annotations

import threading


class ManualClock:
    """Seconds that pass only when ``advance`` is called. Safe for threads."""

    def __init__(self, now: float = 1_000.0) -> None:
        self._now = now
        self._lock = threading.Lock()

    def now(self) -> float:
        """The time that the test has set."""
        return self._now

    def advance(self, seconds: float) -> None:
        """Lets so many seconds pass. Raises ValueError below zero: a monotonic clock never goes back."""
        if seconds < 0:
            raise ValueError(f"a monotonic clock never goes back, not even by {-seconds:g} s")
        with self._lock:
            self._now += seconds
