"""The main loop of ``run``: the command runs only while the lease is held, and is over before the lease is.

Knows lease, job and guard; the rules of their common life stand here and nowhere else.
"""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass

from sqllease.clock import SYSTEM_CLOCK
from sqllease.errors import LeaseError, LeaseNotAcquired
from sqllease.holding import Hold
from sqllease.lease import SqlLease

from .job import Job, adopt_orphans, fill_streams, reap
from .keeper import Keeper
from .launch import plain_environment
from .source import forget
from .wakeups import Wakeups
from .watchman import Watchman

LOST, TIMED_OUT, NO_PROCESS = 73, 124, 71
_LOOK_S = 0.5
_AGAIN_S = 0.05


@dataclass(frozen=True, slots=True)
class Plan:
    """What to run and how. All checked already."""

    name: str
    command: tuple[str, ...]
    wait: float
    grace: float
    max_runtime: float | None
    child_only: bool


class Stopped(Exception):
    """A signal came before the command began."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.strsignal(number))
        self.code = 128 + number


class Supervisor:
    """One run of one command. ``tell`` takes the lines for people."""

    def __init__(self, plan: Plan, tell: Callable[[str], None]) -> None:
        self._plan, self._tell = plan, tell
        fill_streams()
        self._wakeups = Wakeups()
        self._keeper: Keeper | None = None
        self._deadline = math.inf  # the last moment at which the group may be alive
        self._kill_at = math.inf
        self._verdict: int | None = None
        self._asked: int | None = None

    def prepare(self) -> None:
        """Takes over the signals and the orphans of this process."""
        self._wakeups.install()
        adopt_orphans()

    def finish(self) -> None:
        """All is over, and the exit code stands."""
        self._wakeups.ignore()

    def acquire(self, lease: SqlLease) -> None:
        """Returns when the lease is held. Raises LeaseNotAcquired, LeaseError when the database failed, or Stopped."""
        self._keeper = keeper = Keeper(lease, wait=self._plan.wait, notify=self._wakeups.notify)
        keeper.start()
        while keeper.held is None and not keeper.ended:
            self._wakeups.wait(_LOOK_S)
            signals = self._wakeups.signals()
            if signals:
                self._finish_keeper()
                raise Stopped(signals[0])
        self._raise_trouble(keeper)

    def run(self) -> int:
        """Runs the command, under the lease where one was acquired; the exit code."""
        try:
            job = Job(self._plan.command, self._environment())
        except OSError as error:
            return self._no_process(f"no process can be started: {error.strerror}")
        watchman = Watchman(job.pid, self._plan.grace)
        if not watchman.start(self._look_at_lease):
            job.call_off()
            return self._no_process("the guard process does not start")
        signals = self._wakeups.signals()
        if signals or self._lost or watchman.acted:
            job.call_off()
            watchman.done()
            self._finish_keeper()
            if signals:
                raise Stopped(signals[0])
            self._tell("lease lost before the command began; it was not run")
            return LOST
        # From here on the guard ends the group whatever becomes of this process.
        if self._keeper is not None:
            self._keeper.worked = True
        job.begin()
        self._supervise(job, watchman)
        watchman.done()
        self._finish_keeper()
        return self._code(job)

    def _supervise(self, job: Job, watchman: Watchman) -> None:
        plan = self._plan
        end = math.inf if plan.max_runtime is None else SYSTEM_CLOCK.now() + plan.max_runtime
        while True:
            for pid, code in reap().items():
                if pid == job.pid:
                    job.ended(code)
                else:
                    watchman.ended(pid, code)
            # The job may have ended by the guard's TERM and said that all is well.
            watchman.listen()
            if watchman.acted and self._verdict != LOST:
                self._lose(job, watchman)
            stopping = self._verdict is not None or self._asked is not None
            if job.code is not None and ((plan.child_only and not stopping) or not job.there):
                return
            now = SYSTEM_CLOCK.now()
            self._look_at_lease()
            self._judge(job, watchman, now, end)
            watchman.until(self._deadline)
            acts = [self._kill_at, self._deadline, math.inf if self._verdict == LOST else self._deadline - plan.grace]
            if self._verdict is None:
                acts.append(end)
            pause = min(_LOOK_S, max(_AGAIN_S, min(acts) - now))
            self._wakeups.wait(pause, *([watchman.descriptor] if watchman.descriptor >= 0 else []))

    def _judge(self, job: Job, watchman: Watchman, now: float, end: float) -> None:
        grace = self._plan.grace
        for number in self._wakeups.signals():
            self._asked = self._asked or number
            self._stop(job, number, now + grace)
        if now >= end and self._verdict is None:
            self._verdict = TIMED_OUT
            self._stop(job, signal.SIGTERM, now + grace)
            self._tell(f"the command has run for {self._plan.max_runtime:g} s: it is stopped")
        if self._verdict != LOST and (self._lost or now >= self._deadline - grace):
            self._lose(job, watchman)
        if now >= min(self._kill_at, self._deadline):
            job.send(signal.SIGKILL)

    def _lose(self, job: Job, watchman: Watchman) -> None:
        self._verdict = LOST
        self._stop(job, signal.SIGTERM, SYSTEM_CLOCK.now() + self._plan.grace)
        self._tell(f"{self._why(watchman)}: the command is stopped")

    def _stop(self, job: Job, number: int, kill_at: float) -> None:
        job.send(number)
        self._kill_at = min(self._kill_at, kill_at)

    def _why(self, watchman: Watchman) -> str:
        if self._lost and self._held is not None:
            return f"lease lost: {self._held.lost.reason}"
        if watchman.acted:
            return "lease lost: this process stood still"
        return "lease about to end, no renewal was answered"

    # the lease

    @property
    def _held(self) -> Hold | None:
        return None if self._keeper is None else self._keeper.held

    @property
    def _lost(self) -> bool:
        return self._held is not None and self._held.lost.is_set()

    def _look_at_lease(self) -> float:
        """Moves the deadline with each renewal; it stays where it was when the lease is lost."""
        if self._held is not None:
            now = SYSTEM_CLOCK.now()
            remaining = self._held.remaining
            if remaining > 0 or self._deadline == math.inf:
                self._deadline = now + remaining
        return self._deadline

    def _finish_keeper(self) -> None:
        """Releases; waits for that while it can matter. After the grace, a signal ends the waiting."""
        keeper = self._keeper
        if keeper is None:
            return
        keeper.stop()
        began = SYSTEM_CLOCK.now()
        signalled = False
        while not keeper.ended:
            waited = SYSTEM_CLOCK.now() - began
            signalled = bool(self._wakeups.signals()) or signalled
            if waited > keeper.lease.options.duration or (signalled and waited > self._plan.grace):
                return
            self._wakeups.wait(_LOOK_S)

    @staticmethod
    def _raise_trouble(keeper: Keeper) -> None:
        trouble: LeaseNotAcquired | LeaseError | BaseException | None = (
            keeper.not_acquired or keeper.error or keeper.loss or keeper.bug
        )
        if trouble is not None:
            raise trouble

    # the ends

    def _environment(self) -> dict[str, str]:
        environment = plain_environment()
        forget(environment)
        environment.pop("SQLLEASE_OWNER", None)
        environment.pop("SQLLEASE_TOKEN", None)
        environment["SQLLEASE_NAME"] = self._plan.name
        if self._held is not None:
            environment["SQLLEASE_OWNER"] = self._held.lease.owner_id
            environment["SQLLEASE_TOKEN"] = str(self._held.fencing_token)
        return environment

    def _no_process(self, why: str) -> int:
        self._tell(f"{why}; the command was not run")
        self._finish_keeper()
        return NO_PROCESS

    def _code(self, job: Job) -> int:
        keeper = self._keeper
        if keeper is not None and keeper.bug is not None:
            raise keeper.bug
        if self._verdict is not None:
            return self._verdict
        assert job.code is not None
        own = job.code if job.code >= 0 else 128 + (self._asked or -job.code)
        if keeper is not None and keeper.loss is not None:
            self._tell(f"the command ended with {own}, but without the lease: {keeper.loss.reason}")
            return LOST
        if self._asked is not None:
            self._tell(f"stopped by {signal.Signals(self._asked).name}; the command ended with {own}")
        elif job.code < 0:
            self._tell(f"the command was killed by signal {-job.code} ({signal.strsignal(-job.code)})")
        elif own:
            self._tell(f"the command ended with {own}")
        return own


def supported() -> bool:
    """Whether this system has process groups."""
    return hasattr(os, "killpg")
