"""One contender of the simulation: the real calls, beliefs, holds and elections, with a generator for the shell.

What it sends, what an answer means, when to ask or renew, whether to believe, and how a hold is left is the library's
own code; only the waiting is simulated.
"""

from __future__ import annotations

import math
import random
from collections.abc import Generator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from sqllease.base import LeaseBase, ReplicaMemory, SweepTimer
from sqllease.calls import Acquire, Call, Find, Release, Renew
from sqllease.candidacy import Candidacy, ElectionState, Event, Order
from sqllease.clock import Clock
from sqllease.errors import LeaseError
from sqllease.faults import Fault, Kind, Retry
from sqllease.grants import Verdict
from sqllease.hold import HoldBase, Terms
from sqllease.leaving import Leaving
from sqllease.names import TableName
from sqllease.options import LeaseOptions, ReplicaOptions
from sqllease.pacing import Pace
from sqllease.replica import Confirmation
from sqllease.statements import Statements

NAME = "simulated"
UNANSWERED = Fault(Kind.MOVED, text="no answer", sent=True)
_STATEMENTS = Statements(TableName())
_POLL_S = 0.5
_DRAIN_S = 6.0
_TICK_S = 0.001


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


class Term:
    """One term of a leader: what happens next, by the library's hold, pace and candidacy."""

    def __init__(self, candidacy: Candidacy, hold: HoldBase, now: float, chance: random.Random) -> None:
        self._candidacy, self.hold, self._random = candidacy, hold, chance
        pace = hold._terms.pace
        assert pace is not None
        self._pace: Pace = pace
        self._failures = 0
        self.renewed(now)
        ends = now + chance.expovariate(1 / 15)
        resigns = chance.random() < 0.3
        self._resigns_at, self._returns_at = (ends, math.inf) if resigns else (math.inf, ends)

    def news(self, now: float) -> Order:
        """What has to be done about what has happened by now."""
        candidacy = self._candidacy
        if candidacy.state in (ElectionState.LEADING, ElectionState.DRAINING) and self.hold.lost.is_set():
            return self._on(Event.LOST, now)
        if now >= self._returns_at:
            return self._on(Event.RETURNED, now)
        if now >= self._resigns_at:
            self._resigns_at = math.inf
            return self._on(Event.RESIGN, now)
        due = candidacy.due(now)
        return Order.NOTHING if due is None else self._on(due, now)

    def _on(self, event: Event, now: float) -> Order:
        order = self._candidacy.on(event, now)
        if order is Order.TELL:  # the work hears of it, and returns some time later
            self._returns_at = min(self._returns_at, now + self._random.expovariate(1 / 2))
        return order

    def renewal_due(self, now: float) -> bool:
        """Whether a renewal is due."""
        return self.hold.may_renew and not self.hold.lost.is_set() and now >= self._renewal_at

    def renewed(self, now: float) -> None:
        """A renewal was answered True."""
        self._failures = 0
        self._renewal_at = now + self._pace.until_renewal(self.hold.remaining)

    def failed(self, now: float) -> None:
        """Nobody knows what became of a renewal."""
        self._failures += 1
        self._renewal_at = now + self._pace.until_retry(self._failures, self.hold.remaining)

    def pause(self, now: float) -> float:
        """Seconds until something may have to be done."""
        moments = [self._returns_at - now, self._resigns_at - now, 3.0]
        alarm = self._candidacy.pause(now)
        if alarm is not None:
            moments.append(alarm)
        if not self.hold.lost.is_set():
            moments += [self._renewal_at - now, self.hold.remaining]
        return min(moments)


class Contender:
    """A process that stands for election again and again, and works while it leads."""

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
        self._terms = Terms.of(
            options,
            timeout=0,
            poll_interval=_POLL_S,
            keep_alive=True,
            hold_at_least=None,
            on_lost=None,
            max_hold=None,
        )
        self._rules = rules
        self._random = chance
        self._candidacy = self._anew()
        self.tokens: list[int] = []
        self.outlived = 0
        self._transactions = 0

    @property
    def asks(self) -> bool:
        """Whether it tries to acquire at each poll."""
        return self._candidacy.state in (ElectionState.CANDIDATE, ElectionState.NO_DATABASE)

    def live(self) -> Script:
        """The whole life: stands, leads, leaves; and stands again once it has resigned."""
        while True:
            candidacy = self._candidacy = self._anew()
            while not candidacy.over:
                yield Sleep(max(_TICK_S, candidacy.pause(self._now()) or 0.0))
                due = candidacy.due(self._now())
                if due is None or candidacy.on(due, self._now()) is not Order.CAMPAIGN:
                    continue
                event = yield from self._campaign()
                if candidacy.on(event, self._now(), self.lease.holder) is Order.START:
                    yield from self._lead()

    def _anew(self) -> Candidacy:
        return Candidacy(self.lease.options, _POLL_S, _DRAIN_S, self._now())

    def _now(self) -> float:
        return self.lease._clock.now()

    def _campaign(self) -> Script:
        try:
            won = yield from self._perform(Acquire(self.lease))
        except LeaseError:
            return Event.UNANSWERED
        return Event.WON if won else Event.REFUSED

    def _lead(self) -> Script:
        """One term, from the hold's begin to its end. Work is fenced writes now and then, also once it has outlived."""
        term = Term(self._candidacy, HoldBase(self.lease, self._terms), self._now(), self._random)
        self.tokens.append(term.hold.fencing_token)
        while True:
            match term.news(self._now()):
                case Order.LEAVE:
                    return (yield from self._leave(term.hold))
                case Order.ABANDON:
                    term.hold.lost.set("its work has not returned", told=True)
                    self.outlived += 1
                case Order.REPORT:
                    self.outlived += 1
            if self._random.random() < 0.3:
                yield from self._write_fenced(term.hold)
            if term.renewal_due(self._now()):
                yield from self._renew(term)
            else:
                yield Sleep(max(_TICK_S, term.pause(self._now())))

    def _renew(self, term: Term) -> Script:
        """As the keep-alive: renewed, lost, or unknown."""
        try:
            if (yield from self._perform(Renew(self.lease))):
                term.renewed(self._now())
            else:
                term.hold.lost.set("a renewal found it gone, expired or taken", told=True)
        except LeaseError:
            term.failed(self._now())

    def _leave(self, hold: HoldBase) -> Script:
        leaving = Leaving(hold)
        patience = leaving.stopped(in_time=True)
        if patience is not None:
            try:
                leaving.released((yield from self._give_back(patience)))
            except LeaseError as error:
                leaving.failed(error)
        leaving.end()

    def _write_fenced(self, hold: HoldBase) -> Script:
        """A transaction of the caller, on a link of its own: fence, then commit."""
        tenure = hold._stake.began
        self._transactions += 1
        link = f"{self.lease.owner_id}-{self._transactions}"
        if (yield Send("fence", (link, self.lease.owner_id, tenure))) is True:
            yield Send("commit", (link, tenure))

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
        done = yield from self._perform(release)
        if not self._rules.held_before_release:
            lease._belief = lease._belief.ended()
        find = Find(lease, budget=budget)
        if not done and lease._belief.in_doubt and (yield from self._perform(find)):
            done = yield from self._perform(Release(lease, find.began, budget=budget))
        return done or (None if release.repeated else False)

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
