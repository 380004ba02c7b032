"""Leases in memory keep the contract that any lease must keep, sync and async."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease.testing import AsyncMemoryLease, ManualClock, MemoryLease, MemoryTable
from sqllease.testing.contract import LeaseContract, LeaseTimeContract, MakeLease, PassTime
from tests.lease.driven import Desk, DrivenLease


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=["sync", "async"])
def make_lease(request: pytest.FixtureRequest, clock: ManualClock) -> Iterator[MakeLease]:
    table = MemoryTable(clock)
    if request.param == "sync":
        yield lambda name="job", **keywords: MemoryLease(name, table, **keywords)
        return
    with Desk() as desk:
        yield lambda name="job", **keywords: DrivenLease(desk, AsyncMemoryLease(name, table, **keywords))


class TestMemoryLease(LeaseContract):
    pass


class TestMemoryLeaseInTime(LeaseTimeContract):
    @pytest.fixture
    def pass_time(self, clock: ManualClock) -> PassTime:
        return clock.advance
