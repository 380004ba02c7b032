"""What a double has beside the contract of a lease: the holds, errors and owner rules of the real one, and the ways in
which a test can make things go wrong.
"""

from __future__ import annotations

import asyncio
import threading
from datetime import timedelta
from typing import Any

import pytest

from sqllease import (
    LeaseError,
    LeaseInUse,
    LeaseLost,
    LeaseNotAcquired,
    LeaseOptions,
    LeaseStoreError,
    LeaseValueError,
    assert_held,
    guarded,
)
from sqllease.testing import (
    AsyncMemoryLease,
    AsyncMemoryLeaseStore,
    ManualClock,
    MemoryLease,
    MemoryLeaseStore,
    MemoryTable,
)

CRON = LeaseOptions(duration=30, hold_at_least=600)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> MemoryTable:
    return MemoryTable(clock)


class TestHolds:
    def test_work_under_a_hold_is_alone_and_the_lease_is_free_after_it(self, table: MemoryTable) -> None:
        first, second = MemoryLease("job", table), MemoryLease("job", table)
        with first.hold() as held:
            assert held.fencing_token == first.fencing_token
            assert assert_held("job") is held
            with second.try_hold() as nothing:
                assert nothing is None
        with second.try_hold() as now:
            assert now is not None

    def test_a_hold_that_is_not_to_be_had_tells_who_has_it(self, table: MemoryTable) -> None:
        holder = MemoryLease("job", table)
        holder.try_acquire()
        with pytest.raises(LeaseNotAcquired) as refused, MemoryLease("job", table).hold(timeout=0):
            pass
        assert refused.value.holder is not None
        assert refused.value.holder.owner_id == holder.owner_id

    def test_a_run_gives_its_value_or_the_holder(self, table: MemoryTable) -> None:
        holder, other = MemoryLease("job", table), MemoryLease("job", table)
        outcome = holder.run(lambda held: (other.run(lambda _: "never"), "done")[1])
        assert (outcome.ran, outcome.value) == (True, "done")
        holder.try_acquire()
        skipped = other.run(lambda held: "never")
        assert (skipped.ran, skipped.holder and skipped.holder.owner_id) == (False, holder.owner_id)

    def test_the_raw_verbs_are_refused_while_a_hold_is_entered(self, table: MemoryTable) -> None:
        lease = MemoryLease("job", table)
        with lease.hold(), pytest.raises(LeaseInUse):
            lease.try_release()

    def test_a_lease_that_is_taken_away_under_the_work_is_lost(self, table: MemoryTable) -> None:
        def work() -> None:
            with MemoryLease("job", table).hold(keep_alive=False) as held:
                assert table.delete("job") is True
                held.ensure(30)

        with pytest.raises(LeaseLost):
            work()

    def test_a_lease_that_runs_out_under_the_work_is_lost(self, table: MemoryTable, clock: ManualClock) -> None:
        told = threading.Event()

        def work() -> None:
            with MemoryLease("job", table).hold(keep_alive=False, on_lost=told.set) as held:
                clock.advance(30)
                assert held.lost.is_set() is True

        with pytest.raises(LeaseLost):
            work()
        assert told.is_set()

    async def test_the_async_double_holds_and_excludes_the_sync_one(self, table: MemoryTable) -> None:
        lease = AsyncMemoryLease("job", table)
        async with lease.hold() as held:
            await held.extend(60)
            assert lease.remaining > 30
            assert MemoryLease("job", table).try_acquire() is False
        assert MemoryLease("job", table).try_acquire() is True

    async def test_a_cancelled_body_gives_the_lease_back(self, table: MemoryTable) -> None:
        entered = asyncio.Event()

        async def work() -> None:
            async with AsyncMemoryLease("job", table).hold():
                entered.set()
                await asyncio.Event().wait()

        task = asyncio.create_task(work())
        await entered.wait()
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert MemoryLease("job", table).try_acquire() is True


class TestTime:
    def test_grace_keeps_others_off_after_the_end(self, table: MemoryTable, clock: ManualClock) -> None:
        options = LeaseOptions(duration=30, takeover_grace=5)
        holder, other = MemoryLease("job", table, options=options), MemoryLease("job", table, options=options)
        holder.try_acquire()
        clock.advance(34.999_999)
        assert other.try_acquire() is False
        clock.advance(0.000_001)
        assert other.try_acquire() is True

    def test_a_lease_given_back_early_rests_for_everybody(self, table: MemoryTable, clock: ManualClock) -> None:
        quick, other = MemoryLease("job", table, options=CRON), MemoryLease("job", table, options=CRON)
        quick.try_acquire()
        clock.advance(5)
        assert quick.try_release() is True
        for contender in (quick, other):
            assert contender.try_acquire() is False
            assert contender.holder is not None
            assert (contender.holder.resting, contender.holder.owner_id) == (True, quick.owner_id)
            assert contender.holder.remaining == 595
        clock.advance(595)
        assert other.try_acquire() is True

    def test_a_crash_does_not_shorten_the_hold(self, table: MemoryTable, clock: ManualClock) -> None:
        MemoryLease("job", table, options=CRON).try_acquire()
        clock.advance(599)
        other = MemoryLease("job", table)
        assert other.try_acquire() is False
        clock.advance(1)
        assert other.try_acquire() is True

    def test_nor_does_one_after_a_hold_that_was_asked_for_later(self, table: MemoryTable, clock: ManualClock) -> None:
        lease = MemoryLease("job", table)
        lease.try_acquire()
        dead = lease.hold(keep_alive=False, hold_at_least=600)
        dead.__enter__()
        clock.advance(599)
        other = MemoryLease("job", table)
        assert other.try_acquire() is False
        clock.advance(1)
        assert other.try_acquire() is True

    def test_a_host_with_a_slow_clock_finds_out_at_its_renew(self, table: MemoryTable, clock: ManualClock) -> None:
        slow = MemoryLease("job", table, clock=ManualClock())
        slow.try_acquire()
        clock.advance(31)
        assert slow.held is True
        assert slow.try_renew() is False
        assert slow.held is False

    def test_without_a_clock_the_systems_is_used(self) -> None:
        lease = MemoryLease("job")
        assert lease.try_acquire() is True
        assert 26 < lease.remaining <= 27


class TestTrouble:
    def test_in_an_outage_nobody_knows_and_belief_goes_on(self, table: MemoryTable, clock: ManualClock) -> None:
        lease = MemoryLease("job", table)
        lease.try_acquire()
        table.outage = True
        with pytest.raises(LeaseStoreError) as trouble:
            lease.try_renew()
        assert trouble.value.transient is True
        assert lease.held is True
        clock.advance(30)
        assert lease.held is False

    def test_after_an_outage_what_was_left_is_released(self, table: MemoryTable) -> None:
        lease = MemoryLease("job", table)
        lease.try_acquire()
        table.outage = True
        with pytest.raises(LeaseStoreError):
            lease.try_release()
        assert lease.held is False
        table.outage = False
        assert lease.try_release() is True
        assert MemoryLease("job", table).try_acquire() is True

    @pytest.mark.parametrize("name", ["", " job", "n" * 201])
    def test_names_are_checked_as_those_of_the_real_one(self, table: MemoryTable, name: str) -> None:
        with pytest.raises(LeaseValueError):
            MemoryLease(name, table)


class TestTenures:
    def test_a_new_tenure_begins_strictly_later_also_while_the_clock_stands_still(self, table: MemoryTable) -> None:
        lease, begins = MemoryLease("job", table), []
        for _ in range(4):
            lease.try_acquire()
            assert lease._belief.tenure is not None
            begins.append(lease._belief.tenure.began)
            lease.try_release()
        assert begins == sorted(set(begins))

    def test_after_an_unanswered_release_an_acquire_begins_a_new_tenure(self, table: MemoryTable) -> None:
        lease = MemoryLease("job", table)
        lease.try_acquire()
        before = lease._belief.tenure
        table.outage = True
        with pytest.raises(LeaseStoreError):
            lease.try_release()
        table.outage = False
        assert lease.try_acquire() is True
        after = lease._belief.tenure
        assert before is not None
        assert after is not None
        assert after.token > before.token
        assert after.began > before.began

    def test_a_lease_that_was_won_too_late_is_given_back_and_does_not_rest(
        self, table: MemoryTable, clock: ManualClock
    ) -> None:
        class Slow(MemoryLeaseStore):
            def ask(self, prepare: Any, settle: Any, **limits: Any) -> Any:
                answer = self.table.run(prepare())
                clock.advance(28)
                return settle(answer)

        with pytest.raises(LeaseStoreError, match="given back"):
            MemoryLease("job", Slow(table), options=CRON).try_acquire()
        assert MemoryLeaseStore(table).get("job") is None


class TestStores:
    def test_a_store_in_memory_shows_breaks_and_purges(self, table: MemoryTable, clock: ManualClock) -> None:
        store = MemoryLeaseStore(table)
        store.ensure_created()
        assert store.verify() == []
        lease = store.lease("b", metadata="about")
        lease.try_acquire()
        store.lease("a").try_acquire()
        assert [row.name for row in store.list()] == ["a", "b"]
        row = store.get("b")
        assert row is not None
        assert (row.owner_id, row.metadata, row.remaining) == (lease.owner_id, "about", 30)
        assert row.expires_at - row.acquired_at == timedelta(seconds=30)
        assert store.break_lease("b", "somebody else") is None
        assert store.break_lease("b", lease.owner_id) == row
        assert lease.try_renew() is False
        clock.advance(31)
        assert store.purge(older_than=2) == 0
        assert store.purge(older_than=1) == 1
        assert store.get("a") is None

    def test_a_won_acquire_sweeps_what_expired_long_ago(self, table: MemoryTable, clock: ManualClock) -> None:
        store = MemoryLeaseStore(table)
        store.lease("old").try_acquire()
        clock.advance(30 + 3_602)
        store.lease("new").try_acquire()
        assert [row.name for row in store.list()] == ["new"]

    async def test_an_async_store_in_memory_does_the_same(self, table: MemoryTable) -> None:
        store = AsyncMemoryLeaseStore(table)
        await store.ensure_created()
        assert await store.verify() == []
        lease = store.lease("job")
        await lease.try_acquire()
        assert [row.owner_id for row in await store.list()] == [lease.owner_id]
        assert await store.break_lease("job", lease.owner_id) is not None
        assert await store.purge() == 0
        await store.aclose()

    async def test_guarded_functions_run_on_stores_in_memory(self, table: MemoryTable) -> None:
        @guarded(MemoryLeaseStore(table), "job")
        def work() -> int:
            return 7

        @guarded(AsyncMemoryLeaseStore(table), "job")
        async def work_async() -> int:
            assert work().ran is False
            return 8

        assert work().value == 7
        assert (await work_async()).value == 8

    def test_errors_of_the_work_come_through_and_release(self, table: MemoryTable) -> None:
        with pytest.raises(ZeroDivisionError), MemoryLease("job", table).hold():
            _ = 1 / 0
        assert MemoryLease("job", table).try_acquire() is True
        assert issubclass(LeaseInUse, LeaseError)
