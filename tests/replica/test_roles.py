"""Who answers on the replica's connection: the primary itself, a replica that became one, another holder, and rows that
have moved on.

Right values: only a database that says READ_ONLY confirms; that one never did is a mistake of the set-up, that it no
longer does is not. Owner and tenure count, and a version at least ours.
"""

from __future__ import annotations

import pyodbc
import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError
from tests.drivers import Driver

from .conftest import Journal
from .stage import OPTIONS, RELEASE, TOUCH, Stage

WRITABLE = "not confirmed for me, given back: its database takes writes: it is the primary now"


# --- the primary named as replica -----------------------------------------------------------------------


def to_the_primary(stage: Stage, driver: Driver, **keywords: str) -> str:
    return stage.server.connection_string(driver.odbc, **keywords)


def test_a_listener_that_routes_read_intent_is_a_replica(stage: Stage, driver: Driver) -> None:
    """Read intent is what a string asks for that names none."""
    lease = stage.lease(connection=to_the_primary(stage, driver))
    assert lease.try_acquire() is True
    assert (lease.confirmed, len(stage.looks)) == (True, 1)


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
@pytest.mark.parametrize("intent", [{}, {"ApplicationIntent": "ReadOnly"}, {"ApplicationIntent": "ReadWrite"}])
def test_the_primary_named_as_replica_is_a_mistake_that_is_told(
    stage: Stage, driver: Driver, intent: dict[str, str], on_unconfirmed: str
) -> None:
    stage.server.read_only_routing = "ReadWrite" in intent.values()  # with it only the intent to write gets there
    lease = stage.lease(connection=to_the_primary(stage, driver, **intent), on_unconfirmed=on_unconfirmed)
    with pytest.raises(LeaseConfigurationError, match=r"takes writes, which is the primary.*ApplicationIntent"):
        lease.try_acquire()
    assert (lease.held, lease.confirmed, stage.row) == (False, None, None)
    assert len(stage.sent("Updateability")) == 1  # it is not looked at again


def test_a_listener_whose_secondary_is_away_confirms_nothing(stage: Stage, driver: Driver, journal: Journal) -> None:
    """The primary then serves read intent itself. Had it once been the secondary, it is no mistake of the set-up."""
    lease = stage.lease(connection=to_the_primary(stage, driver))
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    stage.server.stop_secondary()
    journal.take()
    stage.server.faults.drop("before", times=99, matching=lambda request: _look_takes_long(stage, request.text))
    assert lease.try_acquire() is False
    assert journal.take()[0] == ("WARNING", f"lease 'job': {WRITABLE}")
    fresh = stage.lease(connection=to_the_primary(stage, driver))
    with pytest.raises(LeaseConfigurationError, match="is the primary"):
        fresh.try_acquire()
    assert stage.row is None


def _look_takes_long(stage: Stage, text: str) -> None:
    if "Updateability" in text:
        stage.passes(5)


# --- the replica becomes the primary ------------------------------------------------------------------


def test_a_replica_that_becomes_the_primary_between_acquire_and_look_confirms_nothing(
    stage: Stage, journal: Journal
) -> None:
    """The nodes keep their ports: what was named as replica takes writes now, and the row cannot be given back."""
    stage.server.read_only_routing = False
    lease = stage.lease()
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    journal.take()
    stage.each_look_takes(0.5)
    with stage.before_the_look(lease.try_acquire) as acquire:
        stage.server.failover(listener=False)
    assert (acquire.value, acquire.error) == (False, None)
    assert (lease.held, lease.confirmed) == (False, None)
    assert ("WARNING", f"lease 'job': {WRITABLE}") in journal.take()
    assert stage.owner == "me"  # until it expires, or we are back
    stage.server.failover(listener=False)
    assert lease.try_acquire() is True
    assert lease.confirmed is True


def test_read_intent_that_is_routed_finds_the_new_secondary_and_is_confirmed_there(stage: Stage) -> None:
    lease = stage.lease()
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    stage.each_look_takes(0.5)
    with stage.before_the_look(lease.try_acquire) as acquire:
        stage.server.failover(listener=False)
    assert acquire.value is True
    assert lease.confirmed is True


def test_a_renewal_of_which_only_a_writable_database_tells_is_unconfirmed(ms_stage: Stage) -> None:
    ms_stage.server.read_only_routing = False
    lease = ms_stage.lease()
    assert lease.try_acquire() is True
    ms_stage.passes(10)
    ms_stage.each_look_takes(0.5)
    with ms_stage.before_the_look(lease.try_renew) as renew:
        ms_stage.server.failover(listener=False)
    assert isinstance(renew.error, LeaseStoreError)
    assert "it is the primary now" in str(renew.error)
    assert 0 < lease.remaining < 17


# --- another holder is newer ---------------------------------------------------------------------------------


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_an_acquire_that_a_failover_has_undone_is_false_as_soon_as_the_replica_shows_the_next_holder(
    stage: Stage, journal: Journal, on_unconfirmed: str
) -> None:
    stage.replica.lag = 1
    lease = stage.lease(on_unconfirmed=on_unconfirmed)
    with stage.before_the_look(lease.try_acquire) as acquire:
        stage.is_lost_to("you")
        stage.passes(1)
    assert (acquire.value, acquire.error) == (False, None)
    assert (lease.held, lease.confirmed, stage.owner) == (False, None, "you")
    assert ("ERROR", "lease 'job': lost by me: the replica shows a newer holder") in journal.take()


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_a_renewal_that_a_failover_has_undone_ends_the_lease_as_soon_as_the_replica_shows_the_next_holder(
    stage: Stage, journal: Journal, on_unconfirmed: str
) -> None:
    lease = stage.lease(on_unconfirmed=on_unconfirmed)
    assert lease.try_acquire() is True
    stage.replica.pause()
    stage.passes(20)
    with stage.before_the_look(lease.try_renew) as renew:
        stage.server.clock.advance(11)  # farther than was agreed: the old row is over, for the server
        stage.is_lost_to("you")
    assert (renew.value, renew.error) == (False, None)
    assert (lease.held, stage.owner) == (False, "you")
    assert ("ERROR", "lease 'job': lost by me: the replica shows a newer holder") in journal.take()
    assert stage.sent(RELEASE) == []  # there is nothing of ours to give back
    assert lease.try_renew() is False


def test_our_tenure_before_does_not_confirm_the_new_one_whatever_its_version(ms_stage: Stage) -> None:
    """The new tenure is lost in a failover; the row of the one before comes back, and somebody touches it."""
    lease = ms_stage.lease(on_unconfirmed="proceed")
    assert lease.try_acquire() is True
    before = ms_stage.row
    assert before is not None
    ms_stage.passes(OPTIONS.duration)
    ms_stage.replica.pause()
    with ms_stage.before_the_look(lease.try_acquire) as acquire:
        lost = ms_stage.row
        ms_stage.server.failover(lose_tail=True)
        ms_stage.server.execute(TOUCH)
        assert lost is not None
        assert ms_stage.row is not None
        assert (ms_stage.row.owner, ms_stage.row.began) == ("me", before.began)
        assert ms_stage.row.version > lost.version
    assert (acquire.value, acquire.error) == (False, None)
    assert not lease.held


def test_the_holder_before_us_is_older_and_only_means_not_yet(ms_stage: Stage) -> None:
    before, lease = ms_stage.lease("you"), ms_stage.lease("me")
    assert before.try_acquire() is True
    assert before.try_release() is True
    assert before.try_acquire() is True
    ms_stage.replica.lag = 1
    ms_stage.passes(OPTIONS.duration)
    ms_stage.each_look_takes(0.25)
    assert lease.try_acquire() is True
    assert len(ms_stage.looks) > 3


# --- the row has moved on ------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["try_acquire", "try_renew"])
def test_a_row_that_was_touched_meanwhile_still_confirms(stage: Stage, verb: str) -> None:
    """The version jumps past ours: the replica never shows the one that we were told."""
    lease = stage.lease()
    if verb == "try_renew":
        assert lease.try_acquire() is True
    with stage.before_the_look(getattr(lease, verb)) as call:
        told = stage.row
        stage.server.execute(f"{TOUCH}; {TOUCH}")
        assert stage.row is not None
        assert told is not None
        assert stage.row.version == told.version + 2
    assert call.value is True
    assert (lease.confirmed, len(stage.looks)) == (True, 1 if verb == "try_acquire" else 2)


@pytest.mark.parametrize("verb", ["try_acquire", "try_renew"])
def test_a_trigger_that_touches_the_row_does_not_hide_it(ms_stage: Stage, verb: str) -> None:
    ms_stage.server.execute(f"CREATE TRIGGER lease.touch ON lease.Leases AFTER INSERT, UPDATE AS {TOUCH}")
    lease = ms_stage.lease()
    if verb == "try_renew":
        assert lease.try_acquire() is True
    assert getattr(lease, verb)() is True
    assert lease.confirmed is True
    assert ms_stage.row is not None
    assert lease.fencing_token is not None
    assert ms_stage.row.version > lease.fencing_token


def test_an_old_version_of_our_tenure_does_not_confirm_what_came_after_it(ms_stage: Stage) -> None:
    """The renewal is lost: the replica goes on to show the tenure with the expiry of before."""
    lease = ms_stage.lease()
    assert lease.try_acquire() is True
    ms_stage.replica.cut()
    ms_stage.passes(10)
    ms_stage.each_look_takes(0.5)
    with pytest.raises(LeaseStoreError):
        lease.try_renew()
    assert ms_stage.looks


# --- connections of one's own --------------------------------------------------------------------------------


def test_a_callable_whose_connections_open_transactions_is_asked_in_autocommit_mode_all_the_same(
    ms_stage: Stage, ms_driver: Driver
) -> None:
    """In one transaction on a secondary every query shows the first picture for ever."""
    dsn = ms_stage.replica.connection_string(ms_driver.odbc)
    ms_stage.replica.lag = 1
    ms_stage.each_look_takes(0.25)
    lease = ms_stage.lease(connection=lambda: pyodbc.connect(dsn, autocommit=False))
    assert lease.try_acquire() is True
    assert len(ms_stage.looks) > 3
