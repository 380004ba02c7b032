"""Every point at which the wire can break, for each verb: what the caller is told, what the row says, what comes next.

A fault that passes is survived inside the call; one that lasts is told as "nobody knows", and the next call works.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator

import pyodbc
import pytest

from sqllease import LeaseConfigurationError, LeaseOptions, LeaseStoreError
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, FOR_EVER, HASTY, QUICK, RELEASE, RENEW, Bench


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


PATIENT = LeaseOptions(duration=36, command_timeout=2)
"""Twelve seconds for a call: a silent link alone takes six."""

Trouble = Callable[[Bench, int], None]
"""Orders a fault for so many attempts."""

AT_LOGIN: dict[str, Trouble] = {
    "cut at login": lambda bench, times: bench.server.faults.drop("login", times=times),
    "database not available at login": lambda bench, times: bench.server.faults.refuse_login(40613, times=times),
}
NOT_EXECUTED: dict[str, Trouble] = {
    "cut before execution": lambda bench, times: bench.server.faults.drop("before", times=times),
    "deadlock victim": lambda bench, times: bench.server.faults.error(1205, severity=13, times=times),
    "lock time-out": lambda bench, times: bench.server.faults.error(1222, times=times),
    "failing over": lambda bench, times: bench.server.faults.error(40197, severity=17, times=times),
}
# Not among the lasting ones: each attempt takes the driver's time-out; read-only is told otherwise.
NOT_EXECUTED_ONCE: dict[str, Trouble] = {
    "late beyond the command time-out": lambda bench, times: bench.server.faults.delay(60, "before", times=times),
    "read-only for a moment": lambda bench, times: bench.server.faults.error(3906, times=times),
}
EXECUTED: dict[str, Trouble] = {
    "cut after commit": lambda bench, times: bench.server.faults.drop("after", times=times),
    "cut in the middle of the answer": lambda bench, times: bench.server.faults.drop("middle", times=times),
}
EXECUTED_ONCE: dict[str, Trouble] = {
    "answer late beyond the command time-out": lambda bench, times: bench.server.faults.delay(60, "after", times=times),
}
ONCE = AT_LOGIN | NOT_EXECUTED | NOT_EXECUTED_ONCE | EXECUTED | EXECUTED_ONCE
LASTING = AT_LOGIN | NOT_EXECUTED | EXECUTED
KEEPS_CONNECTION = ("deadlock victim", "lock time-out")

once = pytest.mark.parametrize("trouble", ONCE)
lasting = pytest.mark.parametrize("trouble", LASTING)


def patience(trouble: str) -> LeaseOptions:
    return HASTY if "beyond the command time-out" in trouble else QUICK


def strike(bench: Bench, trouble: str) -> None:
    """Once, at the next attempt."""
    bench.server.log.clear()
    ONCE[trouble](bench, 1)


def struck(bench: Bench, trouble: str, *, connected: bool) -> None:
    """The call has met the fault, and has asked again: on a fresh connection, or on the same one after contention."""
    logins = 0 if connected else 1
    if trouble in KEEPS_CONNECTION:
        assert bench.server.log.logins == logins
        assert len([request for request in bench.server.log.requests if request.errors]) == 1
    else:
        assert bench.server.log.logins == logins + 1


# --- one fault that passes ---


@once
def test_an_acquire_that_meets_one_fault_is_won_with_one_row_that_renew_and_release_find(
    bench: Bench, trouble: str
) -> None:
    lease = bench.lease(options=patience(trouble))
    strike(bench, trouble)
    assert lease.try_acquire() is True
    struck(bench, trouble, connected=False)
    assert lease.held
    won = bench.row()
    assert won.owner == lease.owner_id
    assert lease.try_renew() is True
    assert bench.row().acquired == won.acquired
    assert lease.try_release() is True
    assert bench.rows() == []


@once
def test_a_renew_that_meets_one_fault_goes_on_with_the_same_tenure(bench: Bench, trouble: str) -> None:
    lease = bench.lease(options=patience(trouble))
    lease.try_acquire()
    before, token = bench.row(), lease.fencing_token
    at_login = trouble in AT_LOGIN
    if at_login:
        bench.hang_up()
    strike(bench, trouble)
    assert lease.try_renew() is True
    struck(bench, trouble, connected=not at_login)
    after = bench.row()
    assert lease.held
    assert lease.fencing_token == token
    assert (after.owner, after.acquired) == (lease.owner_id, before.acquired)
    assert after.expires > before.expires
    assert lease.try_release() is True


@once
def test_a_release_that_meets_one_fault_frees_the_row_and_says_what_its_last_statement_did(
    bench: Bench, trouble: str
) -> None:
    lease = bench.lease(options=patience(trouble))
    lease.try_acquire()
    at_login = trouble in AT_LOGIN
    if at_login:
        bench.hang_up()
    strike(bench, trouble)
    # Where the first attempt was executed, the second one finds nothing any more, and says so.
    assert lease.try_release() is (trouble not in EXECUTED | EXECUTED_ONCE)
    struck(bench, trouble, connected=not at_login)
    assert not lease.held
    assert bench.rows() == []
    assert lease.try_acquire() is True


# --- a fault that lasts ---


def ask_in_vain(bench: Bench, trouble: str, verb: Callable[[], bool]) -> LeaseStoreError:
    """The verb, with the fault at each attempt: two within the two seconds that the call has."""
    bench.server.log.clear()
    bench.slow(1.5, at="login" if trouble in AT_LOGIN else "before")
    LASTING[trouble](bench, FOR_EVER)
    with pytest.raises(LeaseStoreError) as caught:
        verb()
    bench.server.faults.clear()
    assert caught.value.transient
    return caught.value


@lasting
def test_an_acquire_that_is_never_answered_raises_is_not_held_and_leaves_at_worst_an_unused_row(
    bench: Bench, trouble: str
) -> None:
    lease = bench.lease()
    ask_in_vain(bench, trouble, lease.try_acquire)
    assert not lease.held
    assert lease.fencing_token is None
    assert [row.owner for row in bench.rows()] == ([lease.owner_id] if trouble in EXECUTED else [])
    assert lease.try_acquire() is True
    assert bench.row().owner == lease.owner_id
    assert lease.try_renew() is True
    assert lease.try_release() is True
    assert bench.rows() == []


@lasting
def test_a_renew_that_is_never_answered_raises_and_the_lease_is_still_held_until_its_time_runs_out(
    bench: Bench, trouble: str
) -> None:
    lease = bench.lease()
    lease.try_acquire()
    before, token = bench.row(), lease.fencing_token
    if trouble in AT_LOGIN:
        bench.hang_up()
    ask_in_vain(bench, trouble, lease.try_renew)
    assert lease.held
    assert lease.remaining == pytest.approx(5.4 - 3.0)
    assert lease.fencing_token == token
    assert bench.row().acquired == before.acquired
    assert (bench.row().expires > before.expires) is (trouble in EXECUTED)
    assert lease.try_renew() is True
    assert lease.remaining == pytest.approx(5.4)


@lasting
def test_a_release_that_is_never_answered_raises_is_not_held_and_the_next_acquire_begins_a_later_tenure(
    bench: Bench, trouble: str
) -> None:
    lease = bench.lease()
    lease.try_acquire()
    before, token = bench.row(), lease.fencing_token
    assert token is not None
    if trouble in AT_LOGIN:
        bench.hang_up()
    ask_in_vain(bench, trouble, lease.try_release)
    assert not lease.held
    assert [row.acquired for row in bench.rows()] == ([] if trouble in EXECUTED else [before.acquired])
    assert lease.try_acquire() is True
    assert bench.row().acquired > before.acquired
    assert lease.fencing_token is not None
    assert lease.fencing_token > token
    assert lease.try_release() is True
    assert bench.rows() == []


@pytest.mark.parametrize("trouble", EXECUTED)
def test_an_acquire_whose_answers_are_all_cut_gives_the_row_back_before_it_raises(bench: Bench, trouble: str) -> None:
    lease = bench.lease()
    bench.slow(0.99)  # after two attempts there is no time for a third, and just some to give back
    EXECUTED[trouble](bench, 2)
    with pytest.raises(LeaseStoreError, match="outcome is unknown"):
        lease.try_acquire()
    bench.server.faults.clear()
    assert bench.rows() == []
    assert bench.lease().try_acquire() is True


@pytest.mark.parametrize("trouble", EXECUTED)
def test_try_release_finds_and_frees_the_row_of_an_acquire_that_stayed_unanswered(bench: Bench, trouble: str) -> None:
    lease = bench.lease()
    ask_in_vain(bench, trouble, lease.try_acquire)
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []
    assert lease.try_release() is False


@pytest.mark.parametrize("trouble", NOT_EXECUTED)
def test_a_release_that_is_called_again_after_it_stayed_unanswered_frees_the_row(bench: Bench, trouble: str) -> None:
    lease = bench.lease()
    lease.try_acquire()
    ask_in_vain(bench, trouble, lease.try_release)
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


# --- errors that no second attempt can cure ---


@pytest.mark.parametrize("number", [102, 229, 50000])
def test_an_error_of_the_server_that_is_not_listed_is_raised_at_once_and_never_read_as_an_answer(
    bench: Bench, number: int
) -> None:
    lease = bench.lease()
    for verb, text in ((lease.try_acquire, ACQUIRE), (lease.try_renew, RENEW), (lease.try_release, RELEASE)):
        bench.server.log.clear()
        bench.server.faults.error(number, "Something about the statement.")
        with pytest.raises(LeaseConfigurationError, match=f"error {number}"):
            verb()
        assert len(bench.sent(text)) == 1
        lease.try_acquire()


def test_a_server_that_asks_for_less_load_is_not_asked_again_at_once(bench: Bench) -> None:
    # 40501: "Retry the request after 10 seconds", longer than the two seconds that a call of this lease may take.
    lease = bench.lease()
    bench.server.faults.error(40501, "The service is currently busy.", severity=20)
    with pytest.raises(LeaseStoreError) as caught:
        lease.try_acquire()
    assert caught.value.number == 40501
    assert caught.value.transient
    assert len(bench.sent(ACQUIRE)) == 1
    assert lease.try_acquire() is True


# --- silence: the link stays open and nothing comes any more ---


def test_an_acquire_on_a_silent_link_comes_back_and_is_won_on_a_fresh_one(bench: Bench) -> None:
    lease = bench.lease(options=PATIENT)
    bench.server.faults.silence("after")
    assert lease.try_acquire() is True
    assert bench.server.log.logins == 2
    assert bench.row().owner == lease.owner_id
    assert lease.try_renew() is True


@pytest.mark.parametrize("driver", ["freetds"], indirect=True)  # one waits for two seconds here, the other for three
def test_a_renew_on_a_silent_link_comes_back_and_is_true_on_a_fresh_one(bench: Bench) -> None:
    lease = bench.lease(options=PATIENT)
    lease.try_acquire()
    bench.server.faults.silence("before")
    assert lease.try_renew() is True
    assert bench.server.log.logins == 2


@pytest.mark.parametrize("driver", ["freetds"], indirect=True)
def test_a_release_on_a_silent_link_comes_back_and_frees_the_row_on_a_fresh_one(bench: Bench) -> None:
    lease = bench.lease(options=PATIENT)
    lease.try_acquire()
    bench.server.faults.silence("before")
    assert lease.try_release() is True
    assert bench.server.log.logins == 2
    assert bench.rows() == []


# --- a keep-alive's view: one error is no loss ---


def test_failed_renews_are_no_loss_while_time_is_left_and_shout_once(
    bench: Bench, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sqllease")

    def connect() -> pyodbc.Connection:
        try:
            return pyodbc.connect(bench.dsn(), autocommit=True, timeout=2)
        except pyodbc.Error:
            bench.clock.advance(11)
            raise

    lease = bench.lease(connection=connect, options=LeaseOptions(duration=60, command_timeout=5))
    lease.try_acquire()
    token = lease.fencing_token

    bench.slow(11)
    bench.server.faults.error(1205, severity=13, times=FOR_EVER)
    with pytest.raises(LeaseStoreError):
        lease.try_renew()
    bench.server.faults.clear()

    bench.server.stop()
    with pytest.raises(LeaseStoreError):
        lease.try_renew()
    bench.server.start()

    assert lease.remaining == pytest.approx(54 - 4 * 11)
    assert lease.held
    assert lease.try_renew() is True
    assert lease.fencing_token == token
    assert [record.levelname for record in caplog.records if record.levelno >= logging.WARNING] == ["WARNING"]


def test_after_a_loss_no_renew_is_true_and_the_next_acquire_begins_a_new_tenure(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    before, token = bench.row(), lease.fencing_token
    bench.server.execute("DELETE FROM [lease].[Leases]")
    assert lease.try_renew() is False
    assert not lease.held
    assert lease.try_renew() is False
    assert lease.try_acquire() is True
    assert bench.row().acquired > before.acquired
    assert lease.fencing_token != token
