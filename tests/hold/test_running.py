"""``lease.run()`` on a real wire: work that runs on one machine, or is skipped."""

from __future__ import annotations

import pytest

from sqllease import AsyncHold, LeaseLost, LeaseNotAcquired, LeaseStore, LeaseValueError, Outcome
from sqllease.holding import Hold
from tests.lease.bench import ACQUIRE, Bench

from .scripted import AsyncScriptedLease


@pytest.fixture
def store(bench: Bench) -> LeaseStore:
    return bench.store()


def test_it_tells_what_the_work_returned(bench: Bench) -> None:
    def work(held: Hold) -> int:
        held.check()
        return 7

    outcome = bench.lease().run(work)
    assert outcome == Outcome(True, 7)
    assert outcome
    assert not bench.rows()


def test_or_that_it_was_skipped_and_for_whom(store: LeaseStore, bench: Bench) -> None:
    holder = bench.lease(connection=store)
    with holder.hold():
        outcome = bench.lease(connection=store).run(lambda held: pytest.fail("ran"))
    assert not outcome
    assert outcome.holder is not None
    assert outcome.holder.owner_id == holder.owner_id


def test_it_tells_work_that_returned_nothing_from_work_that_did_not_run(bench: Bench) -> None:
    assert bench.lease().run(lambda held: None).ran


def test_a_not_acquired_of_the_work_itself_comes_through(bench: Bench) -> None:
    def work(held: Hold) -> None:
        raise LeaseNotAcquired("another one, inside")

    with pytest.raises(LeaseNotAcquired, match="inside"):
        bench.lease().run(work)
    assert not bench.rows()


def test_work_whose_lease_was_lost_is_no_outcome(bench: Bench) -> None:
    with pytest.raises(LeaseLost):
        bench.lease().run(lambda held: bench.server.execute("DELETE FROM [lease].[Leases]"))


def test_a_coroutine_function_is_refused(bench: Bench) -> None:
    async def work(held: Hold) -> None: ...

    with pytest.raises(LeaseValueError, match="plain function"):
        bench.lease().run(work)
    assert not bench.sent(ACQUIRE)


def test_work_that_would_run_after_its_lease_is_an_error_and_not_an_outcome(bench: Bench) -> None:
    async def later() -> None: ...

    def now(held: Hold) -> object:
        return later()

    for work in (now, lambda held: (number for number in range(3))):
        with pytest.raises(LeaseValueError, match="after its lease was given back"):
            bench.lease().run(work)
        assert not bench.rows()


async def test_under_asyncio_too() -> None:
    async def work(held: AsyncHold) -> object:
        return (number for number in range(3))

    lease = AsyncScriptedLease()
    with pytest.raises(LeaseValueError, match="after its lease was given back"):
        await lease.run(work)
    assert lease.asked == ["acquire", "release"]
