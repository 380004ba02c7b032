"""The local clock: seconds that only rise, and count the time that the machine sleeps.

Every belief of this process about a lease is a difference of two readings of one such clock.
It is never compared with the server's clock, nor with another machine's.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """What a lease needs of a clock. Tests give a ``sqllease.testing.ManualClock``."""

    def now(self) -> float:
        """Seconds since some fixed moment; never goes back."""
        ...


class SystemClock:
    """CLOCK_BOOTTIME where there is one (Linux), else CLOCK_MONOTONIC.

    Linux's monotonic clock stands still while the machine is suspended: a laptop that wakes up would believe in a
    lease that ended hours ago. macOS's CLOCK_MONOTONIC and Windows' counter go on during sleep (Apple,
    clock_gettime(3); Microsoft, "QueryPerformanceCounter").
    """

    def __init__(self) -> None:
        self._id = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))

    def now(self) -> float:
        return time.monotonic() if self._id is None else time.clock_gettime(self._id)


SYSTEM_CLOCK = SystemClock()
