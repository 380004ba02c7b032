"""The table in memory does what the T-SQL does: the same random verbs at the same moments, on both, end the same."""

from __future__ import annotations

import random
from typing import Any

import pytest

from sqllease import LeaseOptions, LeaseStore
from sqllease.testing import LocalSqlServer, ManualClock, MemoryLeaseStore, MemoryTable
from tests.drivers import Driver

STEPS = 150
OPTIONS = (
    LeaseOptions(duration=10),
    LeaseOptions(duration=10, takeover_grace=4),
    LeaseOptions(duration=10, hold_at_least=25.25, sweep_after=40),
)
PAUSES = (0.0, 0.0, 0.000_001, 3.0, 6.0, 9.0, 12.5)


def seen(lease: Any) -> tuple[object, ...]:
    """What an owner sees, without what two clocks cannot have in common."""
    holder = lease.holder
    last = None if holder is None else (holder.owner_id, holder.resting, holder.remaining, holder.metadata)
    return lease.held, lease.remaining, lease.fencing_token is None, last


def rows(store: LeaseStore) -> list[tuple[object, ...]]:
    """The rows, without the moment at which the server began."""
    return [
        (row.name, row.owner_id, row.resting, row.remaining, row.expires_at - row.acquired_at, row.metadata)
        for row in store.list()
    ]


@pytest.mark.parametrize("seed", [1, 2])
def test_the_same_verbs_at_the_same_moments_end_the_same(server: LocalSqlServer, ms_driver: Driver, seed: int) -> None:
    server.clock.freeze()
    chance, clock = random.Random(seed), ManualClock()
    real, double = LeaseStore(server.connection_string(driver=ms_driver.odbc)), MemoryLeaseStore(MemoryTable(clock))
    real.ensure_created()
    pairs = [
        tuple(
            store.lease(name, owner_id=owner, metadata=owner, options=options, clock=clock) for store in (real, double)
        )
        for name in ("a", "b")
        for owner, options in zip(("x", "x", "y", "z"), (*OPTIONS, OPTIONS[0]), strict=True)
    ]
    for step in range(STEPS):
        one, other = chance.choice(pairs)
        verb = chance.choice(("try_acquire", "try_acquire", "try_renew", "try_release"))
        assert getattr(one, verb)() == getattr(other, verb)(), (step, verb)
        assert seen(one) == seen(other), (step, verb)
        assert rows(real) == rows(double), (step, verb)
        pause = chance.choice(PAUSES)
        server.clock.advance(pause)
        clock.advance(pause)
    real.close()
