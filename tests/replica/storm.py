"""A failover in the middle of contention, as a function of a seed: contenders for one lease, a replica that lags, and a
moment at which the primary is lost together with what the replica had not got.

One thread, no waiting: each contender is a greenlet, and all time is one number that only ``World.passes`` moves, the
servers' clocks and the contenders' own with it. Whatever the library would sleep hands over to the next one who has
something to do. The requests take time too, and some answers are lost.

Right values: none here. It counts for how long two contenders believed that they hold.
"""

from __future__ import annotations

import heapq
import itertools
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from types import SimpleNamespace
from typing import NamedTuple
from unittest.mock import patch

import greenlet

from sqllease import LeaseOptions, LeaseStore, LeaseStoreError, ReplicaOptions, SqlLease, schema
from sqllease.testing import LocalSqlServer, ManualClock
from sqllease.testing.server.requestlog import Request

OPTIONS = LeaseOptions(duration=10, safety_margin=1, takeover_grace=1, command_timeout=1)
BUDGET = OPTIONS.safety_margin + OPTIONS.takeover_grace
"""What drift, steps and skew may add up to."""
CONTENDERS = 3
FOR_EVER = 10**9
TICK = 1e-7


class Mode(Enum):
    TRUSTING = "no replica is asked"
    ACQUIRES = "acquires are confirmed, renewals are not"
    BOTH = "acquires and renewals are confirmed"


class Plan(NamedTuple):
    """What a seed has in store, the same for each mode."""

    seed: int
    lag: float
    lag_after: float  # of the new primary's replica, which is the old primary
    failover_at: float
    reissue: bool
    skew: float  # of the new primary's clock against the old one's
    step_at: float
    step: float  # forward, of the primary's clock
    rates: tuple[float, ...]  # of the contenders' clocks
    ends_at: float

    @classmethod
    def of(cls, seed: int) -> Plan:
        chance = random.Random(seed)
        drift = chance.uniform(0, OPTIONS.safety_margin / 2)
        step = chance.choice((0.0, chance.uniform(0, (BUDGET - drift) / 2)))
        failover_at = chance.uniform(5, 20)
        farthest = BUDGET - drift - step
        return cls(
            seed=seed,
            lag=chance.uniform(0, 6),
            lag_after=chance.uniform(0, 2),
            failover_at=failover_at,
            reissue=chance.random() < 0.5,
            skew=chance.choice((farthest, chance.uniform(-BUDGET, farthest))),
            step_at=chance.uniform(0, failover_at + 10),
            step=step,
            rates=tuple(1 + chance.choice((-drift, 0.0, drift)) / OPTIONS.duration for _ in range(CONTENDERS)),
            ends_at=failover_at + 11,
        )


@dataclass
class Outcome:
    """What came of one run. overlap, worked: seconds in which two, or at least one, believed to hold."""

    overlap: float = 0.0
    worked: float = 0.0
    worked_after: float = 0.0
    """After the failover."""
    tenures: int = 0
    story: list[tuple[float, str, str]] = field(default_factory=list)
    """When, who, what: the same for the same seed."""


class World:
    """True time, and all clocks that follow it. Between two calls of ``passes`` nothing takes time."""

    def __init__(self, server: LocalSqlServer, plan: Plan) -> None:
        self.now = 0.0
        self.outcome = Outcome()
        self._server, self._plan = server, plan
        self._leases: list[tuple[SqlLease, ManualClock, float]] = []
        self._due: list[tuple[float, int, Callable[[], object]]] = []
        self._numbers = itertools.count()
        self._hub = greenlet.getcurrent()

    def add(self, lease: SqlLease, clock: ManualClock, rate: float) -> None:
        self._leases.append((lease, clock, rate))

    def passes(self, seconds: float) -> None:
        """Lets so much time pass everywhere, and counts who believes to hold meanwhile."""
        seconds = round(seconds / TICK) * TICK
        for_how_long = sorted((min(seconds, lease.remaining / rate) for lease, _, rate in self._leases), reverse=True)
        self.outcome.worked += for_how_long[0]
        self.outcome.worked_after += for_how_long[0] if self.now > self._plan.failover_at else 0.0
        self.outcome.overlap += for_how_long[1]
        self.now += seconds
        self._server.clock.advance(seconds)
        for _, clock, rate in self._leases:
            clock.advance(seconds * rate)

    def at(self, moment: float, act: Callable[[], object]) -> None:
        heapq.heappush(self._due, (moment, next(self._numbers), act))

    def spawn(self, act: Callable[[], None]) -> None:
        self.at(self.now, greenlet.greenlet(act).switch)

    def sleep(self, seconds: float) -> None:
        """In a greenlet: lets the others act until so much time has passed."""
        self.at(self.now + seconds, greenlet.getcurrent().switch)
        self._hub.switch()

    def run(self) -> None:
        """Until nobody has anything left to do."""
        while self._due:
            moment, _, act = heapq.heappop(self._due)
            if moment > self.now:
                self.passes(moment - self.now)
            act()

    def tell(self, who: str, what: str) -> None:
        self.outcome.story.append((round(self.now, 6), who, what))


class Network:
    """Each request of the library takes a while on its way there and back; now and then an answer is lost."""

    def __init__(self, world: World, chance: random.Random) -> None:
        self._world, self._chance = world, chance

    def serve(self, server: LocalSqlServer) -> None:
        for endpoint in (server, server.replica):
            endpoint.faults.drop("before", times=FOR_EVER, matching=self._travels)
        server.faults.drop("after", times=FOR_EVER, matching=lambda request: self._travels(request, lost=0.03))

    def _travels(self, request: Request, lost: float = 0.0) -> bool:
        """Whether it is lost."""
        if request.housekeeping or "LeaseName" not in request.text:
            return False
        slow = self._chance.random() < 0.1
        self._world.passes(self._chance.uniform(0.001, 0.4 if slow else 0.02))
        return self._chance.random() < lost


def contend(world: World, lease: SqlLease, chance: random.Random, ends_at: float) -> None:
    """The life of a contender: it takes the lease, renews it a few times, gives it back, and takes it again."""
    who = lease.owner_id

    def succeeds(verb: Callable[[], bool]) -> bool | None:
        """None: nobody knows."""
        try:
            answer: bool | None = verb()
        except LeaseStoreError:
            answer = None
        world.tell(who, f"{verb.__name__} {answer}")
        return answer

    while world.now < ends_at:
        world.sleep(chance.uniform(0.3, 1.8))
        if not succeeds(lease.try_acquire):
            continue
        world.outcome.tenures += 1
        for _ in range(chance.randint(1, 4)):
            world.sleep(lease.remaining * chance.uniform(0.3, 0.95))
            if not lease.held or succeeds(lease.try_renew) is False:
                break
        world.sleep(lease.remaining * chance.uniform(0.3, 0.95))
        succeeds(lease.try_release)


def storm(plan: Plan, mode: Mode, odbc: str) -> Outcome:
    """One run."""
    with LocalSqlServer(tls=False, replica=True) as server:
        server.clock.freeze()
        server.execute(schema.create_script())
        server.replica.lag = plan.lag
        world = World(server, plan)
        stores = []
        for number, rate in enumerate(plan.rates):
            clock = ManualClock()
            store = LeaseStore(server.connection_string(odbc), replica=_replica(server, mode, odbc))
            lease = store.lease("storm", owner_id=f"contender {number}", options=OPTIONS, clock=clock)
            stores.append(store)
            world.add(lease, clock, rate)
            world.spawn(partial(contend, world, lease, random.Random(plan.seed * 10 + number), plan.ends_at))
        world.at(plan.step_at, lambda: server.clock.advance(plan.step))
        world.at(plan.failover_at, lambda: _fail_over(world, server, plan))
        Network(world, random.Random(plan.seed)).serve(server)
        state = random.getstate()
        random.seed(plan.seed)  # the jitter of retries
        try:
            with patch("sqllease.shell.time", SimpleNamespace(sleep=world.sleep)):
                world.run()
        finally:
            random.setstate(state)
            server.faults.clear()
            for store in stores:
                store.close()
    return world.outcome


def _replica(server: LocalSqlServer, mode: Mode, odbc: str) -> ReplicaOptions | None:
    if mode is Mode.TRUSTING:
        return None
    return ReplicaOptions(
        server.replica.connection_string(odbc), timeout=5, poll_interval=0.5, confirm_renewals=mode is Mode.BOTH
    )


def _fail_over(world: World, server: LocalSqlServer, plan: Plan) -> None:
    world.tell("the primary", "is lost")
    server.failover(lose_tail=True, reissue=plan.reissue, clock_skew=plan.skew)
    server.replica.lag = plan.lag_after
