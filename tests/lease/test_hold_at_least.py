"""hold_at_least: a lease given back early rests, so that a job of five milliseconds runs once, not once on each host.

The hold is server time after the begin of the tenure. It needs no column of its own, so the row shows what is promised.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sqllease import LeaseOptions, LeaseStore
from sqllease.testing import ManualClock

from .support import MakeLease, World

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

MOMENT_S = 1e-6
HOLD = LeaseOptions(duration=30, hold_at_least=600)


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests move the server's clock."""
    return server.connection_string(driver=driver.odbc)


class TestWhileHeld:
    @pytest.mark.parametrize(("hold", "lasts"), [(0, 30), (10, 30), (30, 30), (600, 600), (600.25, 600.25)])
    def test_the_row_lasts_for_the_longer_of_lease_and_hold(
        self, world: World, make_lease: MakeLease, hold: float, lasts: float
    ) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, hold_at_least=hold), clock=world.client)
        lease.try_acquire()
        row = world.row(lease.name)
        assert row is not None
        assert row.lasts == lasts

    def test_the_holder_is_told_of_the_lease_only(self, world: World, make_lease: MakeLease, store: LeaseStore) -> None:
        lease = make_lease(options=HOLD, clock=world.client)
        lease.try_acquire()
        row = store.get(lease.name)
        assert row is not None
        assert lease.expires_at is not None
        assert (lease.expires_at - row.acquired_at).total_seconds() == 30
        assert lease.remaining == 27

    @pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
    def test_no_renew_shortens_the_hold(self, world: World, make_lease: MakeLease, verb: str) -> None:
        lease = make_lease(options=HOLD, clock=world.client)
        lease.try_acquire()
        for _ in range(3):
            world.passes(20)
            assert getattr(lease, verb)() is True
            row = world.row(lease.name)
            assert row is not None
            assert row.lasts == 600

    def test_a_hold_that_is_asked_for_later_covers_the_row_as_well(self, world: World, store: LeaseStore) -> None:
        lease = store.lease("job", options=LeaseOptions(duration=30), clock=world.client)
        lease.try_acquire()
        world.passes(5)
        with lease.hold(hold_at_least=600):
            row = world.row(lease.name)
            assert row is not None
            assert row.lasts == 600

    def test_a_renew_lengthens_the_row_once_the_lease_outlasts_the_hold(
        self, world: World, make_lease: MakeLease
    ) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, hold_at_least=40), clock=world.client)
        lease.try_acquire()
        world.passes(20)
        lease.try_renew()
        row = world.row(lease.name)
        assert row is not None
        assert row.lasts == 50


class TestAfterACrash:
    def test_nobody_gets_it_before_the_hold_has_passed(self, world: World, make_lease: MakeLease) -> None:
        dead = make_lease(options=LeaseOptions(duration=10, hold_at_least=60), clock=world.client)
        other = make_lease(options=LeaseOptions(duration=10, hold_at_least=60), clock=world.client)
        dead.try_acquire()
        world.passes(60 - MOMENT_S)
        assert other.try_acquire() is False
        assert other.holder is not None
        assert other.holder.resting is False
        world.server.clock.advance(MOMENT_S)
        assert other.try_acquire() is True

    def test_a_lease_that_outlasts_the_hold_ends_as_any_other(self, world: World, make_lease: MakeLease) -> None:
        dead = make_lease(options=LeaseOptions(duration=30, hold_at_least=10), clock=world.client)
        other = make_lease(clock=world.client)
        dead.try_acquire()
        world.passes(30 - MOMENT_S)
        assert other.try_acquire() is False
        world.server.clock.advance(MOMENT_S)
        assert other.try_acquire() is True


class TestReleasedEarly:
    def test_the_row_rests_until_the_hold_has_passed(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=HOLD, clock=world.client)
        lease.try_acquire()
        world.passes(5)
        assert lease.try_release() is True
        assert lease.held is False
        row = world.row(lease.name)
        assert row is not None
        assert row.owner == "\x01" + lease.owner_id
        assert (row.lasts, row.acquired_ago) == (600, 5)

    def test_a_release_never_lengthens_the_row_past_the_hold(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=300, hold_at_least=20), clock=world.client)
        lease.try_acquire()
        world.passes(5)
        lease.try_release()
        row = world.row(lease.name)
        assert row is not None
        assert row.lasts == 20

    def test_another_host_is_refused_up_to_the_last_moment_whatever_its_own_clock_says(
        self, world: World, make_lease: MakeLease
    ) -> None:
        options = LeaseOptions(duration=30, hold_at_least=60)
        quick = make_lease(options=options, clock=world.client)
        skewed = make_lease(options=options, clock=ManualClock(1_180))
        quick.try_acquire()
        world.server.clock.advance(0.005)
        quick.try_release()
        world.server.clock.advance(1.995)
        assert skewed.try_acquire() is False
        world.server.clock.advance(58 - MOMENT_S)
        assert skewed.try_acquire() is False
        world.server.clock.advance(MOMENT_S)
        assert skewed.try_acquire() is True

    def test_who_is_refused_sees_that_it_rests_and_whose_it_was(self, world: World, make_lease: MakeLease) -> None:
        quick, other = make_lease(options=HOLD, clock=world.client), make_lease(options=HOLD, clock=world.client)
        quick.try_acquire()
        world.passes(100)
        quick.try_release()
        assert other.try_acquire() is False
        assert other.holder is not None
        assert (other.holder.resting, other.holder.owner_id) == (True, quick.owner_id)
        assert other.holder.remaining == 500

    def test_its_last_holder_is_refused_too(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=HOLD, clock=world.client)
        lease.try_acquire()
        lease.try_release()
        world.passes(2)
        assert lease.try_acquire() is False
        assert lease.holder is not None
        assert lease.holder.resting is True
        world.passes(598)
        assert lease.try_acquire() is True

    @pytest.mark.parametrize("owner", ["db-host-1", "o" * 128])
    def test_a_second_run_under_the_same_owner_id_is_refused(
        self, world: World, make_lease: MakeLease, owner: str
    ) -> None:
        first = make_lease(owner_id=owner, options=HOLD, clock=world.client)
        second = make_lease(owner_id=owner, options=HOLD, clock=world.client)
        first.try_acquire()
        first.try_release()
        world.passes(2)
        assert second.try_acquire() is False
        world.passes(598)
        assert second.try_acquire() is True

    def test_who_knows_no_hold_is_refused_as_well(self, world: World, make_lease: MakeLease) -> None:
        quick, plain = make_lease(options=HOLD, clock=world.client), make_lease(clock=world.client)
        quick.try_acquire()
        quick.try_release()
        world.passes(599)
        assert plain.try_acquire() is False

    def test_a_resting_row_is_neither_renewed_nor_released(self, world: World, make_lease: MakeLease) -> None:
        first = make_lease(owner_id="one", options=HOLD, clock=world.client)
        first.try_acquire()
        first.try_release()
        before = world.row(first.name)
        assert first.try_renew() is False
        assert first.try_release() is False
        assert world.row(first.name) == before

    def test_the_next_tenure_has_a_higher_token_and_the_full_hold(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=HOLD, clock=world.client)
        lease.try_acquire()
        token = lease.fencing_token
        lease.try_release()
        world.passes(600)
        assert lease.try_acquire() is True
        assert lease.fencing_token is not None
        assert token is not None
        assert lease.fencing_token > token
        row = world.row(lease.name)
        assert row is not None
        assert (row.owner, row.acquired_ago, row.lasts) == (lease.owner_id, 0, 600)


class TestReleasedLate:
    @pytest.mark.parametrize(
        ("hold", "worked"), [(0, 5), (20, 20), (20, 25)], ids=["no hold", "at its end", "after its end"]
    )
    def test_the_row_goes_and_the_lease_is_free(
        self, world: World, make_lease: MakeLease, hold: float, worked: float
    ) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, hold_at_least=hold), clock=world.client)
        lease.try_acquire()
        world.passes(worked)
        assert lease.try_release() is True
        assert world.row(lease.name) is None
        assert make_lease(clock=world.client).try_acquire() is True

    def test_a_job_of_many_renews_that_outlives_its_hold_rests_not(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, hold_at_least=100), clock=world.client)
        lease.try_acquire()
        for _ in range(6):
            world.passes(20)
            assert lease.try_renew() is True
        assert lease.try_release() is True
        assert world.row(lease.name) is None
