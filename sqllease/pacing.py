"""When to try again and when to renew: the arithmetic of waiting, shared by every colour. No clock, no thread.

Jitter keeps many instances that started together from asking together for ever.
"""

from __future__ import annotations

import random
from dataclasses import dataclass

from .answers import LeaseInfo
from .errors import LeaseValueError
from .options import LeaseOptions, Seconds, seconds

_JITTER = 0.1
_FIRST_RETRY_S = 0.1


def jittered(pause: float) -> float:
    """The pause, or up to a tenth less."""
    return pause * (1.0 - _JITTER * random.random())


def next_try(holder: LeaseInfo | None, grace: float, poll_interval: float, left: float | None) -> float | None:
    """Seconds until the next acquire: a jittered poll, or less when the present holder's time is up sooner.

    left: seconds of patience, None without end. None when it has run out; the last try comes at its very end.
    """
    pause = jittered(poll_interval)
    if holder is not None:
        pause = min(pause, holder.remaining + grace)
    if left is None:
        return pause
    return None if left <= 0 else min(pause, left)


@dataclass(frozen=True, slots=True)
class Pace:
    """When a keep-alive renews: a third of the duration after each confirmed renewal, so that two tries fit."""

    interval: float
    usable: float

    @classmethod
    def of(cls, options: LeaseOptions, interval: Seconds | None = None) -> Pace:
        """Raises LeaseValueError when a renewal that is sent after the interval could come back too late."""
        usable = options.duration - options.safety_margin
        chosen = options.duration / 3 if interval is None else seconds("interval", interval, low=0.001)
        if not chosen + options.command_timeout < usable:
            raise LeaseValueError(
                f"interval ({chosen:g} s) + command_timeout ({options.command_timeout} s) + safety_margin "
                f"({options.safety_margin:g} s) must be below duration ({options.duration:g} s): "
                "else a renewal could come back too late"
            )
        return cls(chosen, usable)

    def until_renewal(self, remaining: float) -> float:
        """Seconds until the next renewal, ``remaining`` being what is left of the lease."""
        return max(0.0, jittered(remaining - self.usable + self.interval))

    def until_retry(self, failures: int, remaining: float) -> float:
        """Seconds until the next try after so many failures in a row: short, growing, and never past the end."""
        doubled: float = _FIRST_RETRY_S * 2.0 ** min(failures - 1, 10)
        return min(doubled, self.interval / 2, max(0.0, remaining))
