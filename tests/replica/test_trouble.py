"""A replica that is down, silent, not set up, or too slow: what a call then says, how long it may take, and that what
was won is given back.

Where the drivers wait in real time the tests do, and say how long at most.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from sqllease import LeaseConfigurationError, LeaseOptions, LeaseStoreError
from sqllease.clock import SYSTEM_CLOCK
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S, AnyLease, at_once, in_background

from .conftest import Journal
from .stage import ACQUIRE, FOR_EVER, RELEASE, Stage, is_look

QUICK = LeaseOptions(duration=12, safety_margin=1, command_timeout=1, lock_timeout=0.5)
"""For waits in real time: a look may take a second, which drivers make up to three of."""


# --- out of reach ------------------------------------------------------------------------------------


def in_real_time(stage: Stage, **keywords: str) -> AnyLease:
    return stage.lease(options=QUICK, clock=SYSTEM_CLOCK, timeout=1, poll_interval=0.5, **keywords)


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_a_replica_that_is_down_is_no_mistake_of_the_set_up(
    stage: Stage, journal: Journal, on_unconfirmed: str
) -> None:
    stage.server.stop_secondary()
    lease = in_real_time(stage, on_unconfirmed=on_unconfirmed)
    proceeds = on_unconfirmed == "proceed"
    assert lease.try_acquire() is proceeds
    assert (lease.held, lease.confirmed) == (proceeds, False if proceeds else None)
    assert stage.owner == ("me" if proceeds else None)
    level, text = journal.take()[0]
    assert level == "WARNING"
    assert "could not be reached" in text
    stage.server.rejoin()
    assert lease.try_acquire() is True
    assert lease.confirmed is True


def test_a_replica_that_falls_silent_does_not_hold_the_call_for_long(stage: Stage) -> None:
    """The look in which it does ends by the command timeout, of which drivers make two or three."""
    lease = in_real_time(stage)
    stage.replica.faults.silence("before", times=FOR_EVER, matching=is_look)
    began = time.monotonic()
    assert lease.try_acquire() is False
    assert time.monotonic() - began < 8
    assert (lease.held, stage.row) == (False, None)


@pytest.mark.parametrize("when", ["before", "after", "middle"])
def test_a_link_that_breaks_in_a_look_costs_that_look_and_no_more(stage: Stage, when: str) -> None:
    stage.replica.faults.drop(when, matching=is_look)
    lease = stage.lease()
    assert lease.try_acquire() is True
    assert (lease.confirmed, len(stage.looks), stage.replica.log.logins) == (True, 2, 2)


def test_errors_that_a_secondary_shows_for_moments_are_waited_for(ms_stage: Stage) -> None:
    """No longer a secondary, recovering, a schema change in the log, going away."""
    for number in (3947, 3961, 1219, 4221, 976):
        ms_stage.replica.faults.error(number, matching=is_look)
    lease = ms_stage.lease()
    assert lease.try_acquire() is True
    assert len(ms_stage.looks) == 6


# --- not set up ----------------------------------------------------------------------------------------


@pytest.fixture
def empty(server: LocalSqlServer, ms_driver: Driver, colour: str) -> Iterator[Stage]:
    """Where the table has not arrived on the replica."""
    server.replica.pause()
    with Stage(server, ms_driver, colour) as made:
        yield made


def test_a_table_that_has_not_arrived_is_waited_for(empty: Stage) -> None:
    lease = empty.lease(poll_interval=0.01)
    acquiring = in_background(lease.try_acquire)
    empty.replica.log.wait_for(lambda request: request.errors == [208])
    empty.replica.resume()
    assert acquiring.result(PATIENCE_S) is True
    assert set(empty.replica.log.errors) == {208}


def test_a_table_that_does_not_arrive_is_unconfirmed_and_said_in_the_log(empty: Stage, journal: Journal) -> None:
    empty.each_look_takes(1)
    lease = empty.lease()
    assert lease.try_acquire() is False
    assert empty.row is None
    level, text = journal.take()[0]
    assert level == "WARNING"
    assert "the lease table is missing" in text


WRONG = "Wrong-password-7"


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_a_wrong_password_of_the_replica_is_told_and_not_shown(
    stage: Stage, driver: Driver, journal: Journal, on_unconfirmed: str
) -> None:
    connection = stage.replica.connection_string(driver.odbc, password=WRONG)
    lease = stage.lease(connection=connection, on_unconfirmed=on_unconfirmed)
    with pytest.raises(LeaseConfigurationError, match=r"the replica cannot be asked: the login failed") as caught:
        lease.try_acquire()
    assert (lease.held, stage.row) == (False, None)
    assert stage.replica.log.logins == 1  # not tried again: accounts get locked
    shown = [str(caught.value), repr(caught.value.__cause__), repr(caught.value.__context__), str(journal.take())]
    assert all(WRONG not in text for text in shown)


def test_a_right_that_is_missing_on_the_replica_is_told(ms_stage: Stage, ms_driver: Driver) -> None:
    ms_stage.server.execute("CREATE LOGIN poor WITH PASSWORD = N'pw-1'; CREATE USER poor FOR LOGIN poor")
    lease = ms_stage.lease(connection=ms_stage.replica.connection_string(ms_driver.odbc, user="poor", password="pw-1"))
    with pytest.raises(LeaseConfigurationError, match="the replica cannot be asked: a right is missing"):
        lease.try_acquire()
    assert ms_stage.row is None


def test_a_login_that_is_refused_by_a_replica_that_has_worked_is_only_unconfirmed(
    ms_stage: Stage, journal: Journal
) -> None:
    lease = ms_stage.lease(poll_interval=0.01)
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    ms_stage.replica.drop_links()
    ms_stage.replica.faults.refuse_login(times=2)
    journal.take()
    assert lease.try_acquire() is True
    assert ms_stage.replica.log.logins == 4


# --- too late ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_an_acquire_that_is_shown_after_the_local_deadline_is_no_true(ms_stage: Stage, on_unconfirmed: str) -> None:
    ms_stage.each_look_takes(27)
    lease = ms_stage.lease(on_unconfirmed=on_unconfirmed)
    with pytest.raises(LeaseStoreError, match="it is given back") as caught:
        lease.try_acquire()
    assert caught.value.transient
    assert (lease.held, ms_stage.row, len(ms_stage.sent(RELEASE))) == (False, None, 1)


@pytest.mark.parametrize("on_unconfirmed", ["refuse", "proceed"])
def test_a_renewal_that_is_shown_after_the_local_deadline_is_no_true(ms_stage: Stage, on_unconfirmed: str) -> None:
    lease = ms_stage.lease(on_unconfirmed=on_unconfirmed)
    assert lease.try_acquire() is True
    ms_stage.each_look_takes(27)
    with pytest.raises(LeaseStoreError, match="was renewed, but the answer took longer"):
        lease.try_renew()
    assert not lease.held


def test_the_looks_end_with_the_belief_that_they_are_for(ms_stage: Stage) -> None:
    """An acquire whose answer took 24 s leaves 3 s for looks, whatever the replica's timeout."""
    ms_stage.replica.pause()
    ms_stage.each_look_takes(1)
    late = ms_stage.server.faults
    late.drop("after", matching=lambda request: ms_stage.clock.advance(24) if ACQUIRE in request.text else None)
    lease, began = ms_stage.lease(), ms_stage.clock.now()
    assert lease.try_acquire() is False
    assert ms_stage.clock.now() - began == 27
    assert len(ms_stage.looks) == 3


def test_what_cannot_be_given_back_is_held_by_nobody_and_ends_by_itself(ms_stage: Stage) -> None:
    ms_stage.replica.pause()
    ms_stage.each_look_takes(1)
    lease, other = ms_stage.lease("me"), ms_stage.lease("you")
    ms_stage.server.faults.drop("before", times=FOR_EVER, matching=RELEASE)
    assert lease.try_acquire() is False
    assert (lease.held, ms_stage.owner) == (False, "me")
    assert other.try_acquire() is False
    ms_stage.server.faults.clear()
    ms_stage.replica.faults.clear()
    ms_stage.replica.resume()
    lease.try_release()  # looks for what was left
    assert ms_stage.row is None
    assert other.try_acquire() is True


# --- the connection ------------------------------------------------------------------------------------


def test_the_leases_of_a_store_share_one_connection_to_the_replica(ms_stage: Stage) -> None:
    names = [f"job-{number}" for number in range(8)]
    leases = ms_stage.leases(*names, names=names, poll_interval=0.01)
    assert at_once([lease.try_acquire for lease in leases]) == [True] * 8
    assert at_once([lease.try_renew for lease in leases]) == [True] * 8
    assert (ms_stage.replica.log.logins, ms_stage.replica.connections) == (1, 1)
    assert len(ms_stage.looks) >= 16


def test_the_connection_is_opened_when_a_look_is_first_needed(ms_stage: Stage) -> None:
    assert ms_stage.lease("you").try_acquire() is True
    ms_stage.replica.log.clear()
    lease = ms_stage.lease("me")
    assert lease.try_acquire() is False
    assert ms_stage.replica.log.requests == []
