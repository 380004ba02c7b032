"""How a lease ends, and who may have it then. Both clocks stand still until a test lets time pass.

So every boundary is met exactly: a lease of 30 seconds is alive after 29.999999 s on the server and gone after 30.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sqllease import LeaseOptions, LeaseStore, LeaseStoreError

from .support import MakeLease, World, in_background, locked_row, wait_until_somebody_waits_for_a_lock

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

MOMENT_S = 1e-6
OPTIONS = LeaseOptions(duration=30)


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests move the server's clock."""
    return server.connection_string(driver=driver.odbc)


class TestTheEnd:
    def test_a_lease_is_refused_to_others_up_to_its_last_moment(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.server.clock.advance(30 - MOMENT_S)
        assert other.try_acquire() is False

    def test_an_expired_lease_is_taken_over(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.server.clock.advance(30)
        assert other.try_acquire() is True
        row = world.row(other.name)
        assert row is not None
        assert (row.owner, row.acquired_ago, row.expires_in) == (other.owner_id, 0, 30)

    def test_the_holder_stops_believing_a_margin_before_others_may_take_over(
        self, world: World, make_lease: MakeLease
    ) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.passes(27)
        assert holder.held is False
        assert other.try_acquire() is False

    def test_a_takeover_has_a_higher_token(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        token = holder.fencing_token
        world.passes(30)
        other.try_acquire()
        assert other.fencing_token is not None
        assert token is not None
        assert other.fencing_token > token

    def test_who_was_taken_over_can_neither_renew_nor_release(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.passes(30)
        other.try_acquire()
        assert holder.try_renew() is False
        assert holder.try_release() is False
        assert other.try_renew() is True

    def test_a_lost_try_tells_how_long_the_holder_has_left(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.passes(12.5)
        other.try_acquire()
        assert other.holder is not None
        assert other.holder.remaining == 17.5

    def test_a_renew_starts_the_duration_anew_on_the_server(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.passes(20)
        assert holder.try_renew() is True
        world.passes(30 - MOMENT_S)
        assert other.try_acquire() is False
        world.passes(2 * MOMENT_S)
        assert other.try_acquire() is True


class TestAnExpiredRowOfOnesOwn:
    def test_renew_never_revives_it(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        before = world.row(lease.name)
        world.passes(30)
        assert lease.try_renew() is False
        assert lease.held is False
        after = world.row(lease.name)
        assert before is not None
        assert after is not None
        assert (after.expires, after.version) == (before.expires, before.version)

    @pytest.mark.parametrize("renew_first", [True, False])
    def test_acquiring_it_again_is_a_new_tenure(self, world: World, make_lease: MakeLease, renew_first: bool) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        token, before = lease.fencing_token, world.row(lease.name)
        world.passes(30)
        if renew_first:
            lease.try_renew()
        assert lease.try_acquire() is True
        after = world.row(lease.name)
        assert before is not None
        assert after is not None
        assert token is not None
        assert lease.fencing_token is not None
        assert lease.fencing_token > token
        assert after.acquired == before.acquired + 30 * 10_000_000

    def test_a_gap_in_which_another_came_and_went_is_not_hidden(self, world: World, make_lease: MakeLease) -> None:
        lease, other = make_lease(clock=world.client), make_lease(clock=world.client)
        lease.try_acquire()
        world.passes(30)
        other.try_acquire()
        between = other.fencing_token
        other.try_release()
        assert lease.try_renew() is False
        assert lease.try_acquire() is True
        assert lease.fencing_token is not None
        assert between is not None
        assert lease.fencing_token > between

    def test_it_can_still_be_released(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        world.passes(31)
        assert lease.try_release() is True
        assert world.row(lease.name) is None


class TestTheTenure:
    def test_refresh_and_renew_keep_its_beginning_and_its_token(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        token, begin = lease.fencing_token, world.row(lease.name)
        for verb in (lease.try_acquire, lease.try_renew, lease.try_acquire):
            world.passes(20)
            assert verb() is True
            row = world.row(lease.name)
            assert begin is not None
            assert row is not None
            assert (row.acquired, row.renewed, row.expires_in) == (begin.acquired, row.now, 30)
            assert lease.fencing_token == token

    def test_the_next_one_begins_strictly_later_also_when_the_clock_stands_still(
        self, world: World, make_lease: MakeLease
    ) -> None:
        lease = make_lease(clock=world.client)
        begins = []
        for _ in range(3):
            assert lease.try_acquire()
            row = world.row(lease.name)
            assert row is not None
            begins.append(row.acquired)
            lease.try_release()
        assert begins == [begins[0], begins[0] + 1, begins[0] + 2]

    def test_a_second_object_of_the_owner_begins_strictly_later_also_when_the_clock_stands_still(
        self, world: World, make_lease: MakeLease
    ) -> None:
        first, second = make_lease(owner_id="w", clock=world.client), make_lease(owner_id="w", clock=world.client)
        first.try_acquire()
        before = world.row(first.name)
        second.try_acquire()
        after = world.row(first.name)
        assert before is not None
        assert after is not None
        assert after.acquired == before.acquired + 1


class TestGrace:
    def test_others_keep_off_until_the_grace_has_passed_as_well(self, world: World, make_lease: MakeLease) -> None:
        options = LeaseOptions(duration=30, takeover_grace=10)
        holder = make_lease(options=options, clock=world.client)
        other = make_lease(options=options, clock=world.client)
        holder.try_acquire()
        world.passes(40 - MOMENT_S)
        assert other.try_acquire() is False
        assert other.holder is not None
        assert (other.holder.owner_id, other.holder.expired, other.holder.remaining) == (holder.owner_id, True, 0.0)
        world.server.clock.advance(2 * MOMENT_S)
        assert other.try_acquire() is True

    def test_the_holder_itself_may_take_its_expired_lease_within_the_grace(
        self, world: World, make_lease: MakeLease
    ) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, takeover_grace=10), clock=world.client)
        lease.try_acquire()
        token = lease.fencing_token
        world.passes(35)
        assert lease.try_renew() is False
        assert lease.try_acquire() is True
        assert lease.fencing_token is not None
        assert token is not None
        assert lease.fencing_token > token

    def test_grace_lengthens_no_lease(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=30, takeover_grace=10), clock=world.client)
        lease.try_acquire()
        row = world.row(lease.name)
        assert row is not None
        assert row.lasts == 30
        assert lease.remaining == 27

    def test_who_uses_no_grace_takes_over_at_the_expiry(self, world: World, make_lease: MakeLease) -> None:
        holder = make_lease(options=LeaseOptions(duration=30, takeover_grace=10), clock=world.client)
        other = make_lease(clock=world.client)
        holder.try_acquire()
        world.passes(30)
        assert other.try_acquire() is True


class TestTheServersClock:
    def test_a_step_forward_ends_a_lease_early(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.server.clock.advance(86_400)
        assert holder.try_renew() is False
        assert other.try_acquire() is True

    def test_a_step_back_lets_nobody_in_early(self, world: World, make_lease: MakeLease) -> None:
        holder, other = make_lease(clock=world.client), make_lease(clock=world.client)
        holder.try_acquire()
        world.server.clock.advance(-3600)
        assert other.try_acquire() is False
        assert other.holder is not None
        assert other.holder.remaining == 3630

    @pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
    def test_after_a_step_back_no_verb_moves_the_expiry_back(
        self, world: World, make_lease: MakeLease, verb: str
    ) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        before = world.row(lease.name)
        world.server.clock.advance(-3600)
        world.client.advance(10)
        assert getattr(lease, verb)() is True
        assert lease.remaining == 27
        after = world.row(lease.name)
        assert before is not None
        assert after is not None
        assert (after.acquired, after.expires) == (before.acquired, before.expires)

    def test_after_a_step_back_the_next_tenure_of_the_object_still_begins_later(
        self, world: World, make_lease: MakeLease
    ) -> None:
        lease = make_lease(clock=world.client)
        lease.try_acquire()
        before = world.row(lease.name)
        lease.try_release()
        world.server.clock.advance(-3600)
        assert lease.try_acquire() is True
        after = world.row(lease.name)
        assert before is not None
        assert after is not None
        assert after.acquired == before.acquired + 1

    def test_after_a_step_back_a_lease_can_be_released(self, world: World, make_lease: MakeLease) -> None:
        lease, other = make_lease(clock=world.client), make_lease(clock=world.client)
        lease.try_acquire()
        world.server.clock.advance(-3600)
        assert lease.try_release() is True
        assert other.try_acquire() is True

    def test_the_clients_clock_is_never_compared_with_it(self, world: World, make_lease: MakeLease) -> None:
        early, late = make_lease(clock=world.client), make_lease(clock=type(world.client)(1e9))
        assert early.try_acquire() is True
        assert late.try_acquire() is False
        world.server.clock.advance(30)
        assert late.try_acquire() is True
        assert late.remaining == 27

    def test_it_is_read_before_the_wait_for_a_lock(
        self, world: World, make_lease: MakeLease, store: LeaseStore, dsn: str
    ) -> None:
        holder = make_lease(options=LeaseOptions(duration=60, command_timeout=10, lock_timeout=8), clock=world.client)
        holder.try_acquire()
        begin = world.row(holder.name)
        with locked_row(dsn, holder.name) as unlock:
            renewing = in_background(holder.try_renew)
            wait_until_somebody_waits_for_a_lock(world.server)
            world.passes(5)
            unlock()
            assert renewing.result() is True
        row = world.row(holder.name)
        assert begin is not None
        assert row is not None
        assert row.expires == begin.expires
        assert row.expires_in == 55
        assert holder.remaining == 60 - 6 - 5


class TestALateAnswer:
    def test_a_won_acquire_answered_too_late_is_given_back(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=60, command_timeout=10), clock=world.client)
        answer = world.server.faults.hold("after", matching="MERGE")
        acquiring = in_background(lease.try_acquire)
        assert answer.held.wait(20)
        world.passes(54)
        answer.release()
        with pytest.raises(LeaseStoreError, match="given back") as late:
            acquiring.result()
        assert late.value.transient is True
        assert lease.held is False
        assert world.row(lease.name) is None

    def test_a_won_acquire_answered_just_in_time_is_true(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=60, command_timeout=10), clock=world.client)
        answer = world.server.faults.hold("after", matching="MERGE")
        acquiring = in_background(lease.try_acquire)
        assert answer.held.wait(20)
        world.passes(53.5)
        answer.release()
        assert acquiring.result() is True
        assert lease.remaining == 0.5

    def test_a_late_renew_is_an_error_and_not_true(self, world: World, make_lease: MakeLease) -> None:
        lease = make_lease(options=LeaseOptions(duration=60, command_timeout=10), clock=world.client)
        lease.try_acquire()
        answer = world.server.faults.hold("after")
        renewing = in_background(lease.try_renew)
        assert answer.held.wait(20)
        world.passes(54)
        answer.release()
        with pytest.raises(LeaseStoreError) as late:
            renewing.result()
        assert late.value.transient is True
        assert lease.held is False
