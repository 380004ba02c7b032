"""Messages that the network keeps back: executed after their sender has given up, or answered when it is too late.

None of them may ever touch a later tenure, and none may make two holders.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import LeaseError, LeaseStoreError, SqlLease
from sqllease.testing import LocalSqlServer
from sqllease.testing.server.faults import Hold
from sqllease.testing.server.requestlog import Request
from tests.drivers import Driver

from .bench import ACQUIRE, FOR_EVER, RELEASE, RENEW, Bench
from .support import PATIENCE_S, in_background


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def swallow(bench: Bench, lease: SqlLease, verb: str, text: str, *, answered: bool) -> tuple[Hold, Request]:
    """The network keeps the verb's first message, cuts its link, and (``answered`` False) cuts all further attempts."""
    hold = bench.server.faults.hold("before", matching=text)
    if not answered:
        bench.slow(1.5)
    bench.server.log.clear()
    call = in_background(getattr(lease, verb))
    assert hold.held.wait(PATIENCE_S)
    if not answered:
        bench.server.faults.drop("before", times=FOR_EVER)
    bench.server.drop_links()
    if answered:
        assert call.result(PATIENCE_S) is True
    else:
        with pytest.raises(LeaseStoreError, match="outcome is unknown"):
            call.result(PATIENCE_S)
    bench.server.faults.clear()
    return hold, bench.arrived(text)


def deliver(bench: Bench, hold: Hold, request: Request) -> None:
    hold.release()
    bench.finished(request)


@pytest.mark.parametrize("answered", [True, False], ids=["retried", "given up"])
def test_a_release_delivered_after_the_same_objects_next_acquire_harms_nothing(bench: Bench, answered: bool) -> None:
    lease = bench.lease()
    lease.try_acquire()
    old = bench.row()
    late, request = swallow(bench, lease, "try_release", RELEASE, answered=answered)
    assert not lease.held
    assert lease.try_acquire() is True
    new = bench.row()
    assert new.acquired > old.acquired
    deliver(bench, late, request)
    assert bench.row() == new
    assert lease.try_renew() is True
    assert bench.lease().try_acquire() is False


def test_a_release_delivered_late_frees_the_tenure_that_it_was_sent_for(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    late, request = swallow(bench, lease, "try_release", RELEASE, answered=False)
    assert bench.row().owner == lease.owner_id
    deliver(bench, late, request)
    assert bench.rows() == []
    assert not lease.held


def test_an_acquire_delivered_after_the_caller_gave_up_leaves_a_row_that_nobody_uses_until_it_expires(
    bench: Bench,
) -> None:
    lease, other = bench.lease(), bench.lease()
    late, request = swallow(bench, lease, "try_acquire", ACQUIRE, answered=False)
    assert bench.rows() == []
    deliver(bench, late, request)
    assert bench.row().owner == lease.owner_id
    assert not lease.held
    assert other.try_acquire() is False
    bench.server.clock.advance(lease.options.duration)
    assert other.try_acquire() is True


def test_try_release_finds_and_frees_the_row_of_an_acquire_that_was_delivered_late(bench: Bench) -> None:
    lease = bench.lease()
    late, request = swallow(bench, lease, "try_acquire", ACQUIRE, answered=False)
    deliver(bench, late, request)
    assert lease.try_release() is True
    assert bench.rows() == []


def test_an_acquire_delivered_late_costs_the_sender_at_worst_its_lease_and_never_makes_two_holders(
    bench: Bench,
) -> None:
    # The late duplicate begins a tenure that its sender does not know of: a spurious loss, and nobody else gets in.
    lease, other = bench.lease(), bench.lease()
    late, request = swallow(bench, lease, "try_acquire", ACQUIRE, answered=True)
    assert lease.held
    deliver(bench, late, request)
    assert bench.row().owner == lease.owner_id
    assert other.try_acquire() is False
    if not lease.try_renew():
        assert not lease.held
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    assert bench.rows() == []


def test_a_first_acquire_delivered_after_anothers_take_over_changes_nothing(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease()
    late, request = swallow(bench, lease, "try_acquire", ACQUIRE, answered=False)
    assert other.try_acquire() is True
    before = bench.row()
    deliver(bench, late, request)
    assert bench.row() == before
    assert other.try_renew() is True


def test_a_renew_delivered_after_the_release_revives_nothing(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease()
    lease.try_acquire()
    late, request = swallow(bench, lease, "try_renew", RENEW, answered=True)
    assert lease.try_release() is True
    assert other.try_acquire() is True
    before = bench.row()
    deliver(bench, late, request)
    assert bench.row() == before
    assert not lease.held


def test_a_renew_delivered_after_the_same_objects_next_acquire_does_not_touch_the_new_tenure(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    late, request = swallow(bench, lease, "try_renew", RENEW, answered=True)
    assert lease.try_release() is True
    assert lease.try_acquire() is True
    new = bench.row()
    bench.server.clock.advance(1)
    deliver(bench, late, request)
    assert bench.row() == new


def test_a_renew_delivered_after_its_lease_has_expired_does_not_revive_it(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease()
    lease.try_acquire()
    late, request = swallow(bench, lease, "try_renew", RENEW, answered=True)
    bench.server.clock.advance(lease.options.duration)
    before = bench.row()
    deliver(bench, late, request)
    assert bench.row() == before
    assert other.try_acquire() is True


def test_a_renew_delivered_late_never_moves_the_expiry_backwards(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    late, request = swallow(bench, lease, "try_renew", RENEW, answered=True)
    before = bench.row().expires
    bench.server.clock.advance(-2)
    deliver(bench, late, request)
    assert bench.row().expires >= before


# --- answers that come too late ---


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_win_that_is_answered_after_its_time_is_given_back_and_raises(bench: Bench, when: str) -> None:
    lease = bench.lease()
    with bench.kept_back(ACQUIRE, when) as hold:
        call = in_background(lease.try_acquire)
        assert hold.held.wait(PATIENCE_S)
        bench.clock.advance(5.4)
    with pytest.raises(LeaseStoreError, match="given back") as caught:
        call.result(PATIENCE_S)
    assert caught.value.transient
    assert not lease.held
    assert bench.rows() == []
    assert lease.try_acquire() is True


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_renew_that_is_answered_after_its_time_raises(bench: Bench, when: str) -> None:
    lease = bench.lease()
    lease.try_acquire()
    with bench.kept_back(RENEW, when) as hold:
        call = in_background(lease.try_renew)
        assert hold.held.wait(PATIENCE_S)
        bench.clock.advance(5.4)
    with pytest.raises(LeaseStoreError) as caught:
        call.result(PATIENCE_S)
    assert caught.value.transient
    assert not lease.held


def test_belief_counts_from_the_send_of_the_answered_attempt(bench: Bench) -> None:
    lease = bench.lease()
    with bench.kept_back(ACQUIRE, "after") as hold:
        call = in_background(lease.try_acquire)
        assert hold.held.wait(PATIENCE_S)
        bench.clock.advance(1.0)
    assert call.result(PATIENCE_S) is True
    assert lease.remaining == pytest.approx(5.4 - 1.0)


def test_an_acquire_whose_row_expires_and_is_taken_between_cut_and_retry_is_lost(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease()
    hold = bench.server.faults.hold("after", matching=ACQUIRE)
    call = in_background(lease.try_acquire)
    assert hold.held.wait(PATIENCE_S)
    assert bench.row().owner == lease.owner_id
    bench.server.clock.advance(lease.options.duration)
    assert other.try_acquire() is True
    hold.cancel()
    assert call.result(PATIENCE_S) is False
    assert not lease.held
    assert lease.holder is not None
    assert lease.holder.owner_id == other.owner_id
    assert bench.row().owner == other.owner_id


@pytest.mark.parametrize("step", [0, -3], ids=["stands still", "goes back"])
def test_a_retry_begins_a_later_tenure_than_the_attempt_whose_answer_was_cut_also_when_the_servers_clock(
    bench: Bench, step: float
) -> None:
    bench.server.clock.freeze()
    lease = bench.lease()
    hold = bench.server.faults.hold("after", matching=ACQUIRE)
    call = in_background(lease.try_acquire)
    assert hold.held.wait(PATIENCE_S)
    before = bench.row()
    bench.server.clock.advance(step)
    hold.cancel()
    assert call.result(PATIENCE_S) is True
    assert bench.row().acquired > before.acquired
    assert lease.try_renew() is True
    assert lease.try_release() is True


def test_an_acquire_after_a_gap_in_which_another_owner_came_and_went_is_a_new_tenure(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease()
    lease.try_acquire()
    before, token = bench.row(), lease.fencing_token
    bench.server.clock.advance(lease.options.duration)
    assert other.try_acquire() is True
    assert other.try_release() is True
    assert lease.try_renew() is False
    assert lease.try_acquire() is True
    assert bench.row().acquired > before.acquired
    assert token is not None
    assert lease.fencing_token is not None
    assert lease.fencing_token > token


def test_held_is_false_before_a_release_is_sent(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    with bench.kept_back(RELEASE) as hold:
        call = in_background(lease.try_release)
        assert hold.held.wait(PATIENCE_S)
        assert bench.row().owner == lease.owner_id
        assert not lease.held
        with pytest.raises(LeaseError):
            lease.check()
    assert call.result(PATIENCE_S) is True
