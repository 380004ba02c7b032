"""hold() with a replica: the keep-alive believes no renewal that the replica has not shown.

In real time, since keep-alives are threads: leases of two seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AsyncExitStack
from typing import Any

import pytest

from sqllease import AsyncLeaseStore, LeaseLost, LeaseNotAcquired, LeaseOptions, LeaseStore, ReplicaOptions
from sqllease.base import LeaseBase
from sqllease.clock import SYSTEM_CLOCK
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import wait_until

from .conftest import Journal
from .stage import RENEW, Stage, is_look

SHORT = LeaseOptions(duration=4, safety_margin=0.4, command_timeout=1, lock_timeout=0.5)
KEPT = "not confirmed for me, kept: the row has not arrived"


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    """Whose clocks go on."""
    with LocalSqlServer(tls=False, replica=True) as started:
        yield started


@pytest.fixture
def colour() -> str:
    """Of the leases that a stage makes: nobody here holds one of those."""
    return "sync"


def primary_and_replica(server: LocalSqlServer, driver: Driver, **keywords: Any) -> tuple[str, ReplicaOptions]:
    replica = ReplicaOptions(server.replica.connection_string(driver.odbc), timeout=0.2, poll_interval=0.05, **keywords)
    return server.connection_string(driver.odbc), replica


def times_unconfirmed(journal: Journal) -> int:
    return sum(KEPT in text for _, text in journal.so_far)


def runs_out_at_the_last_confirmed_deadline(stage: Stage, lease: LeaseBase, lost: Any, journal: Journal) -> None:
    """The replica shows nothing from here on. The primary goes on to renew."""
    stage.replica.pause()
    wait_until(lambda: times_unconfirmed(journal), "a renewal was not confirmed")
    ends = SYSTEM_CLOCK.now() + lease.remaining  # from here on nothing moves it
    wait_until(lost.is_set, "the hold is lost")
    assert SYSTEM_CLOCK.now() >= ends - 0.01
    assert lost.reason
    assert (lease.held, stage.owner) == (False, "me")  # and not at the deadline of the row: the primary renews it
    assert stage.lease("you", options=SHORT, clock=SYSTEM_CLOCK, timeout=1).try_acquire() is False
    assert len(stage.sent(RENEW)) >= 1


def test_a_hold_whose_renewals_are_not_shown_is_lost_at_the_last_deadline_that_was(
    ms_stage: Stage, ms_driver: Driver, journal: Journal
) -> None:
    dsn, replica = primary_and_replica(ms_stage.server, ms_driver)
    store = LeaseStore(dsn, replica=replica)
    lease = store.lease("job", owner_id="me", options=SHORT)
    block = lease.hold()
    held = block.__enter__()
    assert lease.confirmed is True
    runs_out_at_the_last_confirmed_deadline(ms_stage, lease, held.lost, journal)
    with pytest.raises(LeaseLost):
        block.__exit__(None, None, None)
    store.close()


async def test_an_async_hold_whose_renewals_are_not_shown_is_lost_at_the_last_deadline_that_was(
    ms_stage: Stage, ms_driver: Driver, journal: Journal
) -> None:
    """The test blocks the loop: the keep-alive does not need it."""
    dsn, replica = primary_and_replica(ms_stage.server, ms_driver)
    store = AsyncLeaseStore(dsn, replica=replica)
    lease = store.lease("job", owner_id="me", options=SHORT)
    block = lease.hold()
    held = await block.__aenter__()
    assert lease.confirmed is True
    runs_out_at_the_last_confirmed_deadline(ms_stage, lease, held.lost, journal)
    with pytest.raises(LeaseLost):
        await block.__aexit__(None, None, None)
    await store.aclose()


@pytest.mark.parametrize("keywords", [{"on_unconfirmed": "proceed"}, {"confirm_renewals": False}], ids=str)
@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_hold_goes_on_where_renewals_need_no_confirmation(
    ms_stage: Stage, ms_driver: Driver, journal: Journal, keywords: dict[str, Any], colour: str
) -> None:
    dsn, replica = primary_and_replica(ms_stage.server, ms_driver, **keywords)
    store: Any = LeaseStore(dsn, replica=replica) if colour == "sync" else AsyncLeaseStore(dsn, replica=replica)
    lease = store.lease("job", owner_id="me", options=SHORT)
    async with AsyncExitStack() as stack:
        if colour == "sync":
            held = stack.enter_context(lease.hold())
        else:
            held = await stack.enter_async_context(lease.hold())
        ms_stage.replica.pause()
        first = SYSTEM_CLOCK.now() + held.remaining
        wait_until(lambda: SYSTEM_CLOCK.now() > first, "the time that was confirmed is over")
        held.check()
        assert lease.confirmed is ("on_unconfirmed" not in keywords)
        assert (times_unconfirmed(journal) > 0) is ("on_unconfirmed" in keywords)
    assert ms_stage.row is None
    store.close() if colour == "sync" else await store.aclose()


@pytest.mark.parametrize("colour", ["sync", "async"])
async def test_a_waiting_hold_is_not_entered_with_a_lease_that_is_not_shown(
    ms_stage: Stage, ms_driver: Driver, colour: str
) -> None:
    dsn, replica = primary_and_replica(ms_stage.server, ms_driver)
    ms_stage.replica.pause()
    store: Any = LeaseStore(dsn, replica=replica) if colour == "sync" else AsyncLeaseStore(dsn, replica=replica)
    lease = store.lease("job", owner_id="me", options=SHORT)
    with pytest.raises(LeaseNotAcquired):
        await _entered(lease, colour, timeout=0)
    assert ms_stage.row is None
    ms_stage.replica.resume()
    assert await _entered(lease, colour, timeout=10) is True
    assert len([request for request in ms_stage.replica.log.requests if is_look(request)]) >= 2
    store.close() if colour == "sync" else await store.aclose()


async def _entered(lease: Any, colour: str, timeout: float) -> object:
    if colour == "sync":
        with lease.hold(timeout=timeout):
            return lease.confirmed
    async with lease.hold(timeout=timeout):
        return lease.confirmed
