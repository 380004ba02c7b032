"""Leases of both colours whose verbs answer what a test has written down, on a clock that the test moves.

They write down in turn what was asked of them. All else is the library's: holding, keeping alive, leaving.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, cast

from sqllease import LeaseInfo, LeaseOptions, SqlLease
from sqllease.aio.holding import AsyncHoldable
from sqllease.base import LeaseBase, SweepTimer
from sqllease.clock import Clock
from sqllease.hold import Terms
from sqllease.holding import Holdable
from sqllease.options import Seconds
from sqllease.tenure import Tenure
from sqllease.testing import ManualClock
from tests.lease.bench import Bench
from tests.lease.support import PATIENCE_S

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

Answer: TypeAlias = "bool | BaseException | Callable[[], bool | None] | None"


def held_by(owner: str = "other", remaining: float = 100.0, *, resting: bool = False) -> LeaseInfo:
    """Another holder, as a lost acquire sees it."""
    return LeaseInfo("job", owner, NOON, NOON, NOON, remaining, None, resting)


KEPT = LeaseOptions(duration=6, command_timeout=3, lock_timeout=0.5)
"""Belief for 5.4 s after the send, a renewal due after 2 s."""


class HoldBench(Bench):
    """Gives leases that can be kept alive."""

    def lease(self, *arguments: Any, options: LeaseOptions = KEPT, **keywords: Any) -> SqlLease:
        return super().lease(*arguments, options=options, **keywords)


class Gate:
    """A call that hangs until the test lets it go."""

    def __init__(self, answer: bool = True) -> None:
        self._answer = answer
        self._reached, self._open = threading.Event(), threading.Event()

    def __call__(self) -> bool:
        self._reached.set()
        assert self._open.wait(PATIENCE_S)
        return self._answer

    def reached(self) -> None:
        """Waits until somebody hangs there."""
        assert self._reached.wait(PATIENCE_S)

    def open(self) -> None:
        self._open.set()


class Scripted(LeaseBase):
    """acquires: holders that are in the way, True, or trouble. renews, releases: what they answer. When all are used
    up: True.
    """

    def __init__(self, name: str = "job", *, duration: float = 30.0, clock: Clock | None = None) -> None:
        super().__init__(
            name,
            owner_id=None,
            metadata=None,
            options=LeaseOptions(duration=duration),
            clock=clock or ManualClock(),
            statements=cast(Any, None),
            sweep=SweepTimer(),
            replica=None,
        )
        self.asked: list[str] = []
        self.acquires: deque[LeaseInfo | Answer] = deque()
        self.renews: deque[Answer] = deque()
        self.releases: deque[Answer] = deque()
        self._changed = threading.Condition()

    @property
    def clock(self) -> ManualClock:
        assert isinstance(self._clock, ManualClock)
        return self._clock

    def wait_for(self, *asked: str) -> None:
        """Returns once these were asked, in this order and nothing else."""
        with self._changed:
            assert self._changed.wait_for(lambda: self.asked == [*asked], PATIENCE_S), self.asked

    def _ask(self, verb: str, answers: deque[Any]) -> Any:
        with self._changed:
            self.asked.append(verb)
            self._changed.notify_all()
        answer = answers.popleft() if answers else True
        if isinstance(answer, BaseException):
            raise answer
        return answer() if callable(answer) else answer

    def _try_acquire(self) -> bool:
        answer = self._ask("acquire", self.acquires)
        if answer is not True:
            self._belief = self._belief.lost_to(answer)
            return False
        number = self.asked.count("acquire")
        self._belief = replace(self._belief, tenure=Tenure(str(number), number, self._deadline(), number))
        return True

    def _try_renew(self) -> bool:
        era, sent = self._era, self._deadline()
        answer: bool = self._ask("renew", self.renews)
        tenure = self._belief.tenure
        if not answer or tenure is None:
            self._belief = self._belief.ended()
            return False
        return self._believe(replace(self._belief, tenure=replace(tenure, deadline=sent)), era)

    def _try_release(self) -> bool | None:
        self._belief = self._belief.ended()
        answer: bool | None = self._ask("release", self.releases)
        return answer

    def _deadline(self) -> float:
        return self._clock.now() + self._options.duration - self._options.safety_margin


class ScriptedLease(Scripted, Holdable):
    """Blocking."""

    def _acquire(self, terms: Terms | None) -> bool:
        return self._try_acquire()

    def _renew(self, duration: Seconds | None, *, raw: bool = False) -> bool:
        return self._try_renew()

    def _release(self, patience: float | None = None) -> bool | None:
        return self._try_release()


class AsyncScriptedLease(Scripted, AsyncHoldable):
    """For asyncio. A release passes through the loop as often as ``release_takes`` says."""

    release_takes = 1

    async def _acquire(self, terms: Terms | None) -> bool:
        return self._try_acquire()

    async def _renew(self, duration: Seconds | None, *, raw: bool = False) -> bool:
        return self._try_renew()

    def _renew_blocking(self) -> bool:
        return self._try_renew()

    async def _release(self, patience: float | None = None) -> bool | None:
        import asyncio

        for _ in range(self.release_takes):
            await asyncio.sleep(0)
        return self._try_release()

    async def _release_behind(self, began: str) -> None:
        self._ask("release behind", self.releases)


def library_threads() -> list[str]:
    """Names of the threads that keep a hold alive, of those that live."""
    return sorted(
        thread.name for thread in threading.enumerate() if thread.name in ("sqllease-renew", "sqllease-watch")
    )


class Slept:
    """In place of the module ``time`` where a lease waits: sleeping moves the clock, and takes no time."""

    def __init__(self, clock: ManualClock) -> None:
        self._clock = clock
        self.pauses: list[float] = []

    def sleep(self, pause: float) -> None:
        self.pauses.append(pause)
        self._clock.advance(pause)

    monotonic = staticmethod(time.monotonic)
