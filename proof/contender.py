"""One contender of the simulation: the real calls and beliefs of the library, with generators in the place of a shell.

What it sends, what an answer means, when to renew and whether to believe is the library's own code; only the waiting
is simulated.
"""

from __future__ import annotations

import random
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqllease.base import LeaseBase, ReplicaMemory, SweepTimer
from sqllease.calls import Acquire, Call, Find, Release, Renew
from sqllease.clock import Clock
from sqllease.errors import LeaseError
from sqllease.faults import Fault, Kind, Retry
from sqllease.grants import Verdict
from sqllease.names import TableName
from sqllease.options import LeaseOptions, ReplicaOptions
from sqllease.pacing import Pace, jittered, next_try
from sqllease.replica import Confirmation
from sqllease.statements import Statements

NAME = "simulated"
UNANSWERED = Fault(Kind.MOVED, text="no answer", sent=True)
_STATEMENTS = Statements(TableName())
_POLL_S = 0.5


@dataclass(frozen=True, slots=True)
class Send:
    """Ask a server: which statement of the model, with which parameters."""

    verb: str
    parameters: tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class Sleep:
    """Wait so many seconds of the own clock."""

    seconds: float


Script = Generator[Send | Sleep, Any, Any]


@dataclass(frozen=True, slots=True)
class Rules:
    """Rules that a run may leave out, to show that the simulation would see it."""

    tenure: bool = True
    held_before_release: bool = True


class Contender:
    """A process that wants the lease again and again, and works while it believes."""

    def __init__(
        self,
        owner: str,
        clock: Clock,
        options: LeaseOptions,
        replica: ReplicaOptions | None,
        rules: Rules,
        chance: random.Random,
    ) -> None:
        memory = None if replica is None else ReplicaMemory(replica)
        self.lease = LeaseBase(
            NAME,
            owner_id=owner,
            metadata=None,
            options=options,
            clock=clock,
            statements=_STATEMENTS,
            sweep=SweepTimer(),
            replica=memory,
        )
        self._pace = Pace.of(options)
        self._rules = rules
        self._random = chance
        self.tokens: list[int] = []
        self.writing: tuple[str, int] | None = None  # a fenced transaction: tenure and its number

    def live(self) -> Script:
        """The whole life: asks, works, gives back, and again."""
        lease = self.lease
        last = None
        yield Sleep(self._random.uniform(0, _POLL_S))
        while True:
            if not (yield from self._answers(Acquire(lease))):
                pause = next_try(lease.holder, lease._options.takeover_grace, _POLL_S, None)
                assert pause is not None
                yield Sleep(max(0.001, pause))
                continue
            # A refresh keeps its tenure and its token; a new tenure has to have a higher one.
            token = lease.fencing_token
            if token is not None and lease.tenure != last:
                last = lease.tenure
                self.tokens.append(token)
            yield from self._hold()
            yield Sleep(jittered(_POLL_S) * self._random.uniform(0.1, 4))

    def _hold(self) -> Script:
        """As the keep-alive and the hold: renewed, lost, or unknown until the deadline."""
        lease = self.lease
        work_until = lease._clock.now() + self._random.expovariate(1 / 15)
        failures = 0
        pause = self._pace.until_renewal(lease.remaining)
        while self._works(work_until):
            if self._random.random() < 0.3:
                yield from self._write_fenced()
            yield Sleep(max(0.001, min(pause, work_until - lease._clock.now(), lease.remaining)))
            if not self._works(work_until):
                break
            try:
                if not (yield from self._perform(Renew(lease))):
                    return
            except LeaseError:
                failures += 1
                pause = self._pace.until_retry(failures, lease.remaining)
            else:
                failures = 0
                pause = self._pace.until_renewal(lease.remaining)
        if lease.held:
            with suppress(LeaseError):
                yield from self._give_back()

    def _works(self, until: float) -> bool:
        return self.lease.held and self.lease._clock.now() < until

    def _write_fenced(self) -> Script:
        """A transaction of the caller: fence, then commit."""
        tenure = self.lease.tenure
        if tenure is None:
            return
        if (yield Send("fence", (self.lease.owner_id, tenure))) is True:
            yield Send("commit", (tenure,))

    def _answers(self, call: Call) -> Script:
        try:
            return (yield from self._perform(call))
        except LeaseError:
            return False

    def _perform(self, call: Call) -> Script:
        verdict: Verdict = yield from self._ask(call)
        if verdict.confirm is not None:
            verdict = yield from self._confirm(verdict.confirm)
        if verdict.give_back:
            with suppress(LeaseError):
                yield from self._give_back(budget=0.0)
        if verdict.error is not None:
            raise verdict.error
        return verdict.value

    def _give_back(self, budget: float | None = None) -> Script:
        lease = self.lease
        before = lease._belief
        release = Release(lease, budget=budget)
        if not self._rules.held_before_release:
            lease._belief = before
        released = yield from self._perform(release)
        if not self._rules.held_before_release:
            lease._belief = lease._belief.ended()
        if released:
            return True
        find = Find(lease, budget=budget)
        if not lease._belief.in_doubt or not (yield from self._perform(find)):
            return False
        return (yield from self._perform(Release(lease, find.began, budget=budget)))

    def _confirm(self, confirmation: Confirmation) -> Script:
        while (pause := confirmation.pause()) is not None:
            yield Sleep(pause)
            answer = yield Send("look", confirmation.statement.parameters)
            if isinstance(answer, Fault):
                confirmation.failed(answer)
            else:
                confirmation.saw(answer)
        return confirmation.verdict()

    def _ask(self, call: Call) -> Script:
        if call.void:
            return Verdict(False)
        call.begin()
        pause = 0.05
        while True:
            statement = call.prepare()
            answer = yield Send(type(call).__name__.lower(), statement.parameters)
            if isinstance(answer, Fault):
                fault = answer
            else:
                try:
                    return call.settle(answer)
                except Retry as retry:
                    fault = retry.fault
            if call.left < pause:
                return call.exhausted(fault)
            yield Sleep(pause)
            pause = min(1.0, pause * 2)
