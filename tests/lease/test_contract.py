"""What a lease promises, verb by verb, on every server and with every driver: the contract that any lease must pass,
and what it means for the row in the table.

No test here needs a clock but the lease's own: a `ManualClock` stands still unless a test moves it, so that what the
process may believe is an exact number.
"""

from __future__ import annotations

from datetime import UTC, timedelta

import pyodbc

from sqllease import LeaseOptions, LeaseStore
from sqllease.testing import ManualClock
from sqllease.testing.contract import LeaseContract

from .support import TABLE, MakeLease, value

DURATION = LeaseOptions(duration=30)
MARGIN_S = 3.0
"""safety_margin's default: a tenth of the duration."""


class TestAnyLease(LeaseContract):
    """The promises of any lease, kept by those of a SQL Server table."""


class TestAcquire:
    def test_a_lost_try_changes_nothing_of_the_holders_row(self, make_lease: MakeLease, store: LeaseStore) -> None:
        holder, other = make_lease(), make_lease(metadata="other")
        assert holder.try_acquire()
        before = store.get(holder.name)
        assert other.try_acquire() is False
        after = store.get(holder.name)
        assert before is not None
        assert after is not None
        assert (after.owner_id, after.acquired_at, after.renewed_at, after.expires_at, after.metadata) == (
            before.owner_id,
            before.acquired_at,
            before.renewed_at,
            before.expires_at,
            before.metadata,
        )
        assert holder.try_renew() is True

    def test_a_lost_try_tells_who_holds(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(metadata="host 7"), make_lease()
        assert holder.try_acquire()
        assert other.try_acquire() is False
        seen = other.holder
        assert seen is not None
        assert (seen.name, seen.owner_id, seen.metadata) == (holder.name, holder.owner_id, "host 7")
        assert (seen.resting, seen.expired) == (False, False)
        assert 0 < seen.remaining <= holder.options.duration
        assert seen.expires_at == holder.expires_at

    def test_the_row_says_who_holds_since_when_and_until_when(self, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease(options=DURATION)
        assert lease.try_acquire()
        row = store.get(lease.name)
        assert row is not None
        assert row.owner_id == lease.owner_id
        assert row.renewed_at == row.acquired_at
        assert row.expires_at - row.acquired_at == timedelta(seconds=30)

    def test_expires_at_is_the_rows_expiry_in_aware_utc(self, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease()
        assert lease.try_acquire()
        row = store.get(lease.name)
        assert row is not None
        assert lease.expires_at == row.expires_at
        assert row.expires_at.tzinfo is UTC


class TestRefresh:
    def test_acquiring_while_holding_keeps_tenure_and_token(self, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease()
        assert lease.try_acquire()
        before, token = store.get(lease.name), lease.fencing_token
        assert lease.try_acquire() is True
        after = store.get(lease.name)
        assert before is not None
        assert after is not None
        assert after.acquired_at == before.acquired_at
        assert after.expires_at >= before.expires_at
        assert lease.fencing_token == token

    def test_a_refresh_counts_the_duration_anew(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock, options=DURATION)
        lease.try_acquire()
        clock.advance(20)
        assert lease.try_acquire() is True
        assert lease.remaining == 30 - MARGIN_S


class TestRenew:
    def test_a_held_lease_is_renewed(self, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease(options=DURATION)
        lease.try_acquire()
        before, token = store.get(lease.name), lease.fencing_token
        assert lease.try_renew() is True
        after = store.get(lease.name)
        assert before is not None
        assert after is not None
        assert after.acquired_at == before.acquired_at
        assert after.renewed_at >= before.renewed_at
        assert after.expires_at - after.renewed_at == timedelta(seconds=30)
        assert lease.fencing_token == token
        assert lease.expires_at == after.expires_at

    def test_a_renew_counts_the_duration_anew(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock, options=DURATION)
        lease.try_acquire()
        clock.advance(20)
        assert lease.try_renew() is True
        assert lease.remaining == 30 - MARGIN_S

    def test_a_row_deleted_by_hand_is_a_loss_at_the_next_renew(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName = ?", lease.name)
        assert lease.try_renew() is False
        assert lease.held is False
        assert lease.fencing_token is None

    def test_a_renew_after_a_loss_does_not_bring_it_back(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName = ?", lease.name)
        lease.try_renew()
        assert lease.try_renew() is False

    def test_a_new_acquire_on_the_same_object_works_after_a_loss(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        first = lease.fencing_token
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName = ?", lease.name)
        lease.try_renew()
        assert lease.try_acquire() is True
        assert lease.fencing_token is not None
        assert first is not None
        assert lease.fencing_token > first


class TestRelease:
    def test_a_held_lease_is_released_and_its_row_is_gone(self, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease()
        lease.try_acquire()
        assert lease.try_release() is True
        assert lease.held is False
        assert lease.remaining == 0.0
        assert lease.fencing_token is None
        assert store.get(lease.name) is None

    def test_a_release_of_a_row_deleted_by_hand_is_false_and_raises_nothing(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName = ?", lease.name)
        assert lease.try_release() is False
        assert lease.held is False


class TestTenure:
    def test_the_token_is_the_row_version_that_began_the_tenure(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        query = f"SELECT CAST(RowVersion AS bigint) FROM {TABLE} WHERE LeaseName = ?"
        assert lease.fencing_token == value(beside, query, lease.name)
        lease.try_renew()
        assert value(beside, query, lease.name) > lease.fencing_token

    def test_each_acquire_after_a_release_begins_strictly_later(
        self, make_lease: MakeLease, beside: pyodbc.Connection
    ) -> None:
        lease = make_lease()
        begins = []
        for _ in range(5):
            assert lease.try_acquire()
            exact = "CONVERT(nvarchar(34), AcquiredAtUtc, 126)"
            begins.append(value(beside, f"SELECT {exact} FROM {TABLE} WHERE LeaseName = ?", lease.name))
            lease.try_release()
        assert begins == sorted(set(begins))

    def test_the_second_object_of_one_owner_begins_a_tenure_of_its_own(
        self, make_lease: MakeLease, store: LeaseStore
    ) -> None:
        first, second = make_lease(owner_id="web-1"), make_lease(owner_id="web-1")
        first.try_acquire()
        before, first_token = store.get(first.name), first.fencing_token
        second.try_acquire()
        after = store.get(first.name)
        assert before is not None
        assert after is not None
        assert after.acquired_at >= before.acquired_at
        assert second.fencing_token is not None
        assert first_token is not None
        assert second.fencing_token > first_token
