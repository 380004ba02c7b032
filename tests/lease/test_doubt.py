"""What a call that nobody answered leaves behind: it stays in doubt, is looked for, and is given back.

After an exception the caller may ask again, and then the row is free.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError, SqlLease
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, FOR_EVER, QUICK, RELEASE, RENEW, Bench
from .support import PATIENCE_S, in_background, locked_row
from .taps import Tap

BREAK = "An operator takes a lease away"
HASTY = QUICK.but(lock_timeout=0.05)
RESTS = QUICK.but(hold_at_least=3600)


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def unanswered(bench: Bench, verb: Callable[[], object], text: str = ACQUIRE, when: str = "after") -> None:
    """The verb's answers are all cut until it has no time left, neither to ask nor to give anything back."""
    bench.slow(1.5)
    bench.server.faults.drop(when, times=FOR_EVER, matching=text)
    with pytest.raises(LeaseStoreError, match="outcome is unknown"):
        verb()
    bench.server.faults.clear()


# --- a release that failed ---


def test_a_release_that_met_a_locked_row_frees_it_when_it_is_asked_again(bench: Bench) -> None:
    lease = bench.lease(options=HASTY)
    lease.try_acquire()
    with locked_row(bench.dsn(), "job"):
        bench.slow(1.5)
        with pytest.raises(LeaseStoreError, match="busy"):
            lease.try_release()
    bench.server.faults.clear()
    assert not lease.held
    assert lease.try_release() is True
    assert bench.rows() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_release_whose_link_was_cut_leaves_no_row_when_it_is_asked_again(bench: Bench, when: str) -> None:
    lease = bench.lease()
    lease.try_acquire()
    unanswered(bench, lease.try_release, RELEASE, when)
    assert lease.try_release() is (when == "before")
    assert bench.rows() == []
    assert lease.try_release() is False


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_a_release_that_was_interrupted_leaves_no_row_when_it_is_asked_again(
    bench: Bench, moment: str, interrupt: type[BaseException]
) -> None:
    tap = Tap(bench.dsn())
    lease = bench.lease(connection=tap)
    lease.try_acquire()

    def interrupted(text: str) -> None:
        if RELEASE in text:
            raise interrupt

    setattr(tap, moment, interrupted)
    with pytest.raises(interrupt):
        lease.try_release()
    assert not lease.held
    tap.before = tap.after = lambda text: None
    assert lease.try_release() is (moment == "before")
    assert bench.rows() == []


def test_an_acquire_that_was_interrupted_after_its_win_is_found_by_the_release(bench: Bench) -> None:
    tap = Tap(bench.dsn())
    lease = bench.lease(connection=tap, options=RESTS)

    def interrupted(text: str) -> None:
        raise KeyboardInterrupt

    tap.after = interrupted
    with pytest.raises(KeyboardInterrupt):
        lease.try_acquire()
    tap.after = lambda text: None
    assert not lease.held
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


def test_a_told_tenure_rests_also_when_it_takes_two_releases(bench: Bench) -> None:
    lease = bench.lease(options=RESTS)
    lease.try_acquire()
    unanswered(bench, lease.try_release, RELEASE, "before")
    assert lease.try_release() is True
    assert bench.row().owner == "\x01" + lease.owner_id
    assert bench.lease().try_acquire() is False


# --- a lease that was never granted does not rest ---


@pytest.mark.parametrize("when", ["after", "middle"])
def test_an_acquire_whose_answers_were_lost_is_given_back_at_once_and_does_not_rest(bench: Bench, when: str) -> None:
    lease = bench.lease(options=RESTS)
    bench.slow(0.99)  # after two attempts there is no time for a third, and just some to give back
    bench.server.faults.drop(when, times=2, matching=ACQUIRE)
    with pytest.raises(LeaseStoreError, match="outcome is unknown"):
        lease.try_acquire()
    bench.server.faults.clear()
    assert bench.rows() == []
    assert bench.lease().try_acquire() is True


def test_an_acquire_whose_answers_were_lost_does_not_rest_when_it_is_released(bench: Bench) -> None:
    lease = bench.lease(options=RESTS)
    unanswered(bench, lease.try_acquire)
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


@pytest.mark.parametrize("when", ["before", "after"])
def test_an_acquire_that_is_answered_too_late_does_not_rest(bench: Bench, when: str) -> None:
    lease = bench.lease(options=RESTS)
    with bench.kept_back(ACQUIRE, when) as hold:
        call = in_background(lease.try_acquire)
        assert hold.held.wait(PATIENCE_S)
        bench.clock.advance(5.4)
    with pytest.raises(LeaseStoreError, match="given back"):
        call.result(PATIENCE_S)
    assert bench.rows() == []
    assert bench.lease().try_acquire() is True


# --- one attempt was not answered, and then something else went wrong ---


def test_a_row_of_ours_that_is_busy_after_an_unanswered_attempt_is_given_back(bench: Bench) -> None:
    lease = bench.lease()
    bench.slow(0.99)  # there is just some time left to give back
    bench.server.faults.drop("after", matching=ACQUIRE)
    bench.server.faults.error(1222, skip=1, times=FOR_EVER, matching=ACQUIRE)
    with pytest.raises(LeaseStoreError):
        lease.try_acquire()
    bench.server.faults.clear()
    assert not lease.held
    assert bench.rows() == []


def test_a_row_of_ours_that_somebody_has_locked_after_an_unanswered_attempt_is_found_by_the_release(
    bench: Bench,
) -> None:
    lease = bench.lease(options=HASTY)
    hold = bench.server.faults.hold("after", matching=ACQUIRE)
    call = in_background(lease.try_acquire)
    assert hold.held.wait(PATIENCE_S)
    with locked_row(bench.dsn(), "job"):
        hold.cancel()
        bench.slow(0.8)
        with pytest.raises(LeaseStoreError, match="busy"):
            call.result(PATIENCE_S)
    bench.server.faults.clear()
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


@pytest.mark.parametrize("verb", ["try_acquire", "try_renew", "try_release"])
def test_an_unanswered_attempt_is_told_as_outcome_unknown_although_the_last_one_failed_at_login(
    bench: Bench, verb: str
) -> None:
    lease = bench.lease()
    if verb != "try_acquire":
        lease.try_acquire()
    bench.slow(0.4)
    bench.server.faults.drop("after")
    bench.server.faults.drop("login", skip=int(verb == "try_acquire"), times=FOR_EVER)
    with pytest.raises(LeaseStoreError, match="outcome is unknown") as caught:
        getattr(lease, verb)()
    assert caught.value.transient
    bench.server.faults.clear()
    lease.try_release()
    assert bench.rows() == []


def test_an_unanswered_attempt_is_found_by_the_release_although_the_last_login_was_refused(bench: Bench) -> None:
    lease = bench.lease()
    bench.server.faults.drop("after", matching=ACQUIRE)
    bench.server.faults.refuse_login(18456, skip=1, times=FOR_EVER)
    with pytest.raises(LeaseConfigurationError, match="UID"):
        lease.try_acquire()
    bench.server.faults.clear()
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


# --- calls in a row ---


def cut_at_login(bench: Bench, lease: SqlLease) -> None:
    bench.hang_up()
    bench.server.faults.drop("login", times=FOR_EVER)
    bench.slow(1.5, at="login")
    with pytest.raises(LeaseStoreError, match="could not be reached"):
        lease.try_acquire()


def locked(bench: Bench, lease: SqlLease) -> None:
    with locked_row(bench.dsn(), "job"):
        bench.slow(1.5)
        with pytest.raises(LeaseStoreError, match="busy"):
            lease.try_acquire()


def refused(bench: Bench, lease: SqlLease) -> None:
    bench.server.faults.error(229, matching=ACQUIRE)
    bench.server.faults.error(229, matching="Read lease rows")
    with pytest.raises(LeaseConfigurationError):
        lease.try_acquire()


@pytest.mark.parametrize("second", [cut_at_login, locked, refused])
def test_a_second_acquire_that_fails_otherwise_does_not_make_the_first_one_forgotten(
    bench: Bench, second: Callable[[Bench, SqlLease], None]
) -> None:
    lease = bench.lease(options=HASTY)
    unanswered(bench, lease.try_acquire)
    second(bench, lease)
    bench.server.faults.clear()
    assert bench.row().owner == lease.owner_id
    assert lease.try_release() is True
    assert bench.rows() == []


def test_a_release_also_finds_the_tenure_that_an_unanswered_refresh_began_on_the_expired_row(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    before = bench.row()
    bench.server.clock.advance(lease.options.duration)
    unanswered(bench, lease.try_acquire)
    assert bench.row().acquired > before.acquired
    assert lease.try_release() is True
    assert bench.rows() == []


def test_a_release_when_nothing_is_in_doubt_looks_for_nothing(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    bench.server.execute("DELETE FROM [lease].[Leases]")
    bench.server.log.clear()
    assert lease.try_release() is False
    assert lease.try_release() is False
    assert bench.sent("Read lease rows") == []


# --- others ---


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_break_whose_answer_is_lost_is_told_as_unknown_and_not_sent_twice(bench: Bench, when: str) -> None:
    # A second try would find no row and answer None: "it was not that owner's".
    store = bench.store()
    holder = bench.lease(connection=store)
    holder.try_acquire()
    bench.server.faults.drop(when, matching=BREAK)
    with pytest.raises(LeaseStoreError, match="outcome is unknown") as caught:
        store.break_lease("job", holder.owner_id)
    assert caught.value.transient
    assert len(bench.sent(BREAK)) == 1
    assert len(bench.rows()) == (when == "before")


@pytest.mark.parametrize(("verb", "text"), [("try_renew", RENEW), ("try_release", RELEASE)])
def test_an_answer_for_another_tenure_is_refused(bench: Bench, verb: str, text: str) -> None:
    tap = Tap(bench.dsn())
    lease = bench.lease(connection=tap)
    lease.try_acquire()
    remaining = lease.remaining
    bench.clock.advance(1)

    def another(sent: str, rows: list[Any]) -> list[Any]:
        return [[*row[:4], "2001-01-01T00:00:00.0000000+00:00", *row[5:]] if text in sent else row for row in rows]

    tap.answer = another
    with pytest.raises(LeaseStoreError, match="another tenure"):
        getattr(lease, verb)()
    assert lease.remaining <= remaining - 1
