"""What a lease promises whose store has a replica: True once the replica has shown it, whatever the lag; and what is
left behind when it does not show it in time.

Right values: "Replica confirmation" in the README; a wait of 5 s on clocks that only the looks let pass.
"""

from __future__ import annotations

import pytest

from sqllease import LeaseStoreError, LeaseValueError, ReplicaOptions

from .conftest import Journal
from .stage import LOOK, OPTIONS, RELEASE, TIMEOUT, Stage

LAGS = {0.0: 0.5, 0.05: 0.02, 1.0: 0.25, 4.5: 0.5}
"""And how long a look then takes."""


def never_shows(stage: Stage, how: str) -> None:
    """From now on the replica does not show a commit in time."""
    {
        "lag above the timeout": lambda: setattr(stage.replica, "lag", TIMEOUT + 1),
        "paused": stage.replica.pause,
        "cut": stage.replica.cut,
    }[how]()
    stage.each_look_takes(0.5)


def shows_again(stage: Stage) -> None:
    stage.replica.lag = 0
    stage.replica.resume()


NEVER = pytest.mark.parametrize("how", ["lag above the timeout", "paused", "cut"])


# --- acquire -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("lag", LAGS)
def test_an_acquire_is_true_as_soon_as_the_replica_shows_it(stage: Stage, journal: Journal, lag: float) -> None:
    look = LAGS[lag]
    stage.replica.lag = lag
    stage.each_look_takes(look)
    lease, began = stage.lease(), stage.clock.now()
    assert lease.try_acquire() is True
    assert (lease.held, lease.confirmed, stage.owner) == (True, True, "me")
    took = stage.clock.now() - began
    assert max(lag, look) <= took <= lag + 2 * look
    assert len(stage.looks) == round(took / look)
    assert lease.remaining == pytest.approx(27 - took)  # the time that it took to be shown is not given twice
    assert stage.row is not None
    assert lease.fencing_token == stage.row.version
    ((level, text),) = journal.take()
    assert level == "INFO"
    assert "acquired by me" in text


@NEVER
def test_an_acquire_that_is_not_shown_in_time_is_false_and_given_back(stage: Stage, journal: Journal, how: str) -> None:
    never_shows(stage, how)
    lease, began = stage.lease(), stage.clock.now()
    assert lease.try_acquire() is False
    assert (lease.held, lease.confirmed, lease.fencing_token, stage.row) == (False, None, None, None)
    assert TIMEOUT <= stage.clock.now() - began <= TIMEOUT + 0.5
    (unconfirmed, released) = journal.take()
    assert unconfirmed == ("WARNING", "lease 'job': not confirmed for me, given back: the row has not arrived")
    assert released == ("INFO", "lease 'job': released by me")
    shows_again(stage)
    assert lease.try_acquire() is True
    assert lease.confirmed is True


@NEVER
def test_to_proceed_is_to_hold_unconfirmed_until_a_renewal_is_shown(stage: Stage, journal: Journal, how: str) -> None:
    never_shows(stage, how)
    lease = stage.lease(on_unconfirmed="proceed")
    assert lease.try_acquire() is True
    assert (lease.held, lease.confirmed, stage.owner) == (True, False, "me")
    assert lease.fencing_token is not None
    (unconfirmed, acquired) = journal.take()
    assert unconfirmed == ("WARNING", "lease 'job': not confirmed for me, kept: the row has not arrived")
    assert acquired[0] == "INFO"
    shows_again(stage)
    assert lease.try_renew() is True
    assert lease.confirmed is True


def test_nobody_is_held_before_the_replica_has_shown_it(ms_stage: Stage) -> None:
    lease = ms_stage.lease()
    with ms_stage.before_the_look(lease.try_acquire) as acquire:
        assert ms_stage.owner == "me"
        assert (lease.held, lease.remaining, lease.confirmed, lease.fencing_token) == (False, 0.0, None, None)
    assert acquire.value is True
    assert lease.held


def test_whoever_comes_meanwhile_is_refused_by_the_primary_and_asks_no_replica(ms_stage: Stage) -> None:
    me, you = ms_stage.lease("me"), ms_stage.lease("you")
    with ms_stage.before_the_look(me.try_acquire):
        looks = len(ms_stage.looks)
        assert you.try_acquire() is False
        assert you.holder is not None
        assert you.holder.owner_id == "me"
        assert len(ms_stage.looks) == looks
    assert you.confirmed is None


# --- renew, and the acquire that is one ------------------------------------------------------------------

PROLONGING = pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
"""An acquire on a tenure that the object has is a renewal of it."""


@PROLONGING
@pytest.mark.parametrize("lag", [0, 1])
def test_a_renewal_that_is_shown_counts_from_its_send(stage: Stage, verb: str, lag: float) -> None:
    lease = stage.lease()
    lease.try_acquire()
    token = lease.fencing_token
    stage.replica.lag = lag
    stage.passes(10)
    stage.each_look_takes(0.5)
    began = stage.clock.now()
    assert getattr(lease, verb)() is True
    assert lease.remaining == pytest.approx(27 - (stage.clock.now() - began))
    assert (lease.confirmed, lease.fencing_token) == (True, token)


@PROLONGING
@NEVER
def test_a_renewal_that_is_not_shown_is_an_error_and_held_ends_at_the_last_one_that_was(
    stage: Stage, journal: Journal, verb: str, how: str
) -> None:
    lease = stage.lease()
    lease.try_acquire()
    journal.take()
    before = stage.row
    stage.passes(10)
    never_shows(stage, how)
    began, token = stage.clock.now(), lease.fencing_token
    with pytest.raises(LeaseStoreError, match="held ends at the last confirmed renewal") as caught:
        getattr(lease, verb)()
    assert caught.value.transient
    left = 17 - (stage.clock.now() - began)
    assert (lease.held, lease.confirmed, lease.fencing_token) == (True, True, token)
    assert lease.remaining == pytest.approx(left)
    assert stage.row is not None
    assert before is not None
    assert (stage.row.owner, stage.row.began) == ("me", before.began)  # renewed on the primary, and not given back
    assert stage.row.version > before.version
    assert stage.sent(RELEASE) == []
    assert journal.take() == [("WARNING", "lease 'job': not confirmed for me, kept: the row has not arrived")]
    stage.passes(left)
    assert not lease.held


@PROLONGING
def test_the_next_renewal_that_is_shown_makes_up_for_it(ms_stage: Stage, verb: str) -> None:
    lease = ms_stage.lease()
    lease.try_acquire()
    token = lease.fencing_token
    never_shows(ms_stage, "paused")
    with pytest.raises(LeaseStoreError):
        getattr(lease, verb)()
    ms_stage.replica.faults.clear()
    shows_again(ms_stage)
    assert getattr(lease, verb)() is True
    assert (lease.remaining, lease.confirmed, lease.fencing_token) == (27, True, token)


@PROLONGING
def test_to_proceed_moves_the_deadline_and_says_that_it_is_not_confirmed(ms_stage: Stage, verb: str) -> None:
    lease = ms_stage.lease(on_unconfirmed="proceed")
    lease.try_acquire()
    never_shows(ms_stage, "paused")
    ms_stage.passes(10)
    began = ms_stage.clock.now()
    assert getattr(lease, verb)() is True
    assert lease.remaining == pytest.approx(27 - (ms_stage.clock.now() - began))
    assert lease.confirmed is False


@PROLONGING
def test_renewals_that_need_no_confirmation_ask_no_replica(ms_stage: Stage, verb: str) -> None:
    lease = ms_stage.lease(confirm_renewals=False)
    lease.try_acquire()
    ms_stage.replica.pause()
    ms_stage.passes(10)
    assert getattr(lease, verb)() is True
    assert (lease.remaining, lease.confirmed, len(ms_stage.looks)) == (27, True, 1)


# --- which tenure is given back ------------------------------------------------------------------------


def test_a_new_tenure_after_a_release_is_confirmed_anew_whatever_its_owner(ms_stage: Stage) -> None:
    """The replica still shows the same owner, with the tenure before: no confirmation."""
    lease = ms_stage.lease()
    lease.try_acquire()
    never_shows(ms_stage, "paused")
    lease.try_release()
    assert lease.try_acquire() is False
    assert (ms_stage.row, lease.held) == (None, False)


def test_a_take_over_of_ones_own_expired_row_is_a_new_tenure(ms_stage: Stage) -> None:
    lease = ms_stage.lease(confirm_renewals=False)
    lease.try_acquire()
    ms_stage.passes(OPTIONS.duration)
    never_shows(ms_stage, "paused")
    assert lease.try_acquire() is False
    assert (ms_stage.row, lease.held) == (None, False)


def test_the_row_of_somebody_who_came_after_us_is_not_given_back(ms_stage: Stage) -> None:
    """On the primary our row is broken and taken by another while we look."""
    me = ms_stage.lease("me")
    never_shows(ms_stage, "paused")
    with ms_stage.before_the_look(me.try_acquire) as acquire:
        ms_stage.server.execute("UPDATE [lease].[Leases] SET OwnerInstanceId = N'you'")
    assert acquire.value is False
    assert ms_stage.owner == "you"


def test_a_newer_tenure_of_the_same_owner_is_not_given_back(ms_stage: Stage) -> None:
    """Another object of the same owner id has begun it."""
    first, second = ms_stage.lease("me"), ms_stage.lease("me", on_unconfirmed="proceed")
    never_shows(ms_stage, "paused")
    with ms_stage.before_the_look(first.try_acquire) as acquire:
        began = ms_stage.row
        assert second.try_acquire() is True
    assert acquire.value is False
    assert second.held
    assert began is not None
    assert ms_stage.row is not None
    assert ms_stage.row.began > began.began
    assert second.try_renew() is True


# --- how the replica is asked ----------------------------------------------------------------------------


def test_each_look_is_one_autocommitted_query(stage: Stage) -> None:
    stage.replica.lag = 1
    stage.each_look_takes(0.25)
    assert stage.lease().try_acquire() is True
    asked = [request for request in stage.replica.log.requests if not request.housekeeping]
    beside = {request.kind for request in asked if LOOK not in request.text}
    assert beside <= {"prelogin", "login", "attention"}  # FreeTDS ends a statement so
    assert len([request for request in asked if LOOK in request.text]) > 3
    assert stage.replica.log.errors == []
    assert stage.replica.execute("SELECT COUNT(*) FROM sys.dm_tran_locks") == [(0,)]


def test_a_confirmation_that_could_outlast_the_lease_is_refused_with_the_numbers(ms_stage: Stage) -> None:
    with pytest.raises(LeaseValueError, match=r"27 s\) \+ safety_margin \(3 s\) must be below duration \(30 s\)"):
        ms_stage.lease(timeout=27)
    with pytest.raises(LeaseValueError, match="poll_interval"):
        ReplicaOptions("DSN=replica", timeout=1, poll_interval=2)
