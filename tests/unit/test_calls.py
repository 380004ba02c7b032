"""The verbs step by step: what each attempt and each answer does to the belief, and what stays in doubt."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError
from sqllease.base import LeaseBase
from sqllease.calls import Acquire, Call, Find, Release, Renew
from sqllease.faults import Fault, Kind, Retry
from sqllease.testing import ManualClock
from tests.unit.plain import NEW, OLD, OPTIONS, answer, begun, done, plain_lease, seen, win

UNANSWERED = Fault(Kind.MOVED, 0, "HYT00", "Query timeout expired")
CUT_AT_LOGIN = Fault(Kind.MOVED, 0, "08001", "unreachable", sent=False)
REFUSED_LOGIN = Fault(Kind.SET_UP, 18456, "28000", "Login failed", sent=False)
REFUSED_STATEMENT = Fault(Kind.SET_UP, 229, "42000", "The INSERT permission was denied")
BUSY_ROW = Fault(Kind.CONTENTION, 1222)
ALL_IN_USE = Fault(Kind.BUSY, text="all 4 were in use for 1 s", sent=False)

NOTHING_ASKED = pytest.mark.parametrize(
    "fault", [CUT_AT_LOGIN, ALL_IN_USE, REFUSED_LOGIN], ids=("unreachable", "all in use", "login refused")
)


def unanswered_acquire(lease: LeaseBase) -> None:
    """An acquire that came back with nothing, when there was no time left to give anything back."""
    begun(Acquire(lease)).exhausted(UNANSWERED)


def found(lease: LeaseBase, began: str = OLD) -> Find:
    find = Find(lease)
    find.settle([("nightly", "me", began, OLD, OLD, 20_000_000, None)])
    return find


def rests(release: Release) -> bool:
    """Whether the release, as it is sent, asks for a hold."""
    *_, hold_s, hold_us = release.prepare().parameters
    return (hold_s, hold_us) != (0, 0)


# --- doubt ---


def test_an_acquire_that_nobody_answered_is_in_doubt_and_not_held() -> None:
    lease = plain_lease()
    verdict = begun(Acquire(lease)).exhausted(UNANSWERED)
    assert isinstance(verdict.error, LeaseStoreError)
    assert "outcome is unknown" in str(verdict.error)
    assert lease._belief.in_doubt
    assert not lease.held


def test_what_is_in_doubt_is_given_back_before_the_caller_is_told_while_there_is_time() -> None:
    clock = ManualClock()
    early, late = begun(Acquire(plain_lease(clock))), begun(Acquire(plain_lease(clock)))
    assert early.exhausted(UNANSWERED).give_back
    clock.advance(OPTIONS.retry_budget)
    assert not late.exhausted(UNANSWERED).give_back


def test_a_refresh_that_nobody_answered_leaves_the_tenure_that_we_have() -> None:
    lease = plain_lease()
    win(lease)
    verdict = begun(Acquire(lease)).exhausted(UNANSWERED)
    assert not verdict.give_back
    assert lease.held
    assert lease._belief.in_doubt


@NOTHING_ASKED
def test_a_call_that_asked_nothing_leaves_nothing_in_doubt(fault: Fault) -> None:
    lease = plain_lease()
    acquire = Acquire(lease)
    acquire.begin()
    verdict = acquire.exhausted(fault)
    assert not verdict.give_back
    assert not lease._belief.in_doubt
    assert "unknown" not in str(verdict.error)


@NOTHING_ASKED
def test_a_call_that_asked_nothing_settles_nothing_of_an_earlier_one(fault: Fault) -> None:
    lease = plain_lease()
    unanswered_acquire(lease)
    acquire = Acquire(lease)
    acquire.begin()
    acquire.exhausted(fault)
    assert lease._belief.in_doubt


def test_a_busy_row_settles_nothing_of_an_earlier_call() -> None:
    lease = plain_lease()
    unanswered_acquire(lease)
    acquire = begun(Acquire(lease))
    with pytest.raises(Retry):
        acquire.settle(seen("me", error=1222))
    assert acquire.exhausted(BUSY_ROW).give_back
    assert lease._belief.in_doubt


@pytest.mark.parametrize(
    "fault", [CUT_AT_LOGIN, REFUSED_LOGIN, BUSY_ROW, ALL_IN_USE], ids=lambda fault: fault.kind.name
)
def test_an_attempt_that_was_not_answered_stays_in_doubt_however_the_last_one_ends(fault: Fault) -> None:
    lease = plain_lease()
    acquire = begun(Acquire(lease))
    if fault is BUSY_ROW:
        acquire.prepare()
        with pytest.raises(Retry):
            acquire.settle(seen("me", error=1222))
    assert acquire.exhausted(fault).give_back
    assert lease._belief.in_doubt


def test_a_login_that_fails_after_an_unanswered_attempt_is_told_as_outcome_unknown() -> None:
    lease = plain_lease()
    win(lease)
    makers: tuple[Callable[[LeaseBase], Call], ...] = (Acquire, Renew, Release)
    for make in makers:
        call = make(lease)
        call.begin()
        call.prepare()
        assert "outcome is unknown" in str(call.exhausted(CUT_AT_LOGIN).error)


def test_a_statement_that_the_server_refused_did_nothing() -> None:
    lease = plain_lease()
    verdict = begun(Acquire(lease)).exhausted(REFUSED_STATEMENT)
    assert isinstance(verdict.error, LeaseConfigurationError)
    assert not verdict.give_back
    assert not lease._belief.in_doubt


def test_an_error_from_behind_the_commit_may_hide_a_win() -> None:
    # 50000 and the like may come from anywhere: the MERGE commits by itself, the answer is read after it.
    lease = plain_lease()
    verdict = begun(Acquire(lease)).exhausted(Fault(Kind.SET_UP, 50_000, "42000", "by a trigger, or behind it"))
    assert isinstance(verdict.error, LeaseConfigurationError)
    assert verdict.give_back
    assert lease._belief.in_doubt


def test_a_renewal_of_a_hold_that_is_being_left_is_not_tried_again() -> None:
    lease = plain_lease()
    win(lease)
    renew = Renew(lease)
    renew.prepare()
    assert not renew.unwanted
    lease._leaving = True
    assert renew.unwanted
    with pytest.raises(Retry):
        renew.prepare()


def test_a_release_of_another_tenure_leaves_the_present_one() -> None:
    lease = plain_lease()
    win(lease, NEW)
    Release(lease, OLD)
    assert lease.held


def test_an_answer_that_cannot_be_read_may_hide_a_win() -> None:
    # Half a surrogate pair in the owner of the row that was taken over: the server has executed the statement.
    lease = plain_lease()
    verdict = begun(Acquire(lease)).exhausted(Fault(Kind.SET_UP, text="the lease table holds text that is no text"))
    assert isinstance(verdict.error, LeaseConfigurationError)
    assert verdict.give_back
    assert lease._belief.in_doubt


def test_an_acquire_that_is_busy_and_answered_leaves_nothing_in_doubt() -> None:
    lease = plain_lease()
    acquire = begun(Acquire(lease))
    with pytest.raises(Retry):
        acquire.settle(answer(ErrorNumber=1222))
    verdict = acquire.exhausted(BUSY_ROW)
    assert isinstance(verdict.error, LeaseStoreError)
    assert not verdict.give_back
    assert not lease._belief.in_doubt


def test_an_acquire_that_is_busy_and_sees_another_owner_is_false() -> None:
    lease = plain_lease()
    acquire = begun(Acquire(lease))
    with pytest.raises(Retry):
        acquire.settle(seen(error=1222))
    verdict = acquire.exhausted(BUSY_ROW)
    assert (verdict.value, verdict.error) == (False, None)
    assert lease.holder is not None
    assert lease.holder.owner_id == "other"


def test_a_win_settles_all_that_was_sent_before() -> None:
    lease = plain_lease()
    unanswered_acquire(lease)
    win(lease)
    assert not lease._belief.in_doubt


# --- finding, releasing ---


@pytest.mark.parametrize(
    "row",
    [
        ("nightly", "other", OLD, OLD, OLD, 20_000_000, None),
        ("nightly", "\x01me", OLD, OLD, OLD, 20_000_000, None),
        ("Nightly", "me", OLD, OLD, OLD, 20_000_000, None),
    ],
    ids=["another owner", "resting", "a name that the collation takes for ours"],
)
def test_only_a_row_of_our_name_and_owner_is_found_and_nothing_found_settles(row: tuple[object, ...]) -> None:
    lease = plain_lease()
    unanswered_acquire(lease)
    find = Find(lease)
    assert find.settle([row]).value is False
    assert find.began is None
    assert not lease._belief.in_doubt


def test_a_found_tenure_is_released_by_its_beginning_and_never_believed_in() -> None:
    lease = plain_lease()
    unanswered_acquire(lease)
    release = Release(lease, found(lease, NEW).began)
    assert not lease.held
    assert NEW in release.prepare().parameters
    assert release.settle(done(NEW)).value is True
    assert not lease._belief.in_doubt


def test_a_release_is_in_doubt_until_it_is_answered() -> None:
    lease = plain_lease()
    win(lease)
    release = Release(lease)
    assert not lease.held
    release.prepare()
    release.exhausted(UNANSWERED)
    assert lease._belief.in_doubt


def test_a_release_that_finds_its_tenure_gone_does_not_settle_a_refresh_that_may_have_begun_another() -> None:
    # The row had expired on the server, so the unanswered refresh took it over: a tenure that nobody told us of.
    lease = plain_lease()
    win(lease)
    unanswered_acquire(lease)
    release = Release(lease)
    release.prepare()
    assert release.settle(seen("me")).value is False
    assert lease._belief.in_doubt


def test_a_release_that_finds_its_tenure_gone_is_the_end_where_nothing_else_was_sent() -> None:
    lease = plain_lease()
    win(lease)
    release = Release(lease)
    release.prepare()
    assert release.settle(answer()).value is False
    assert not lease._belief.in_doubt


def test_a_tenure_rests_only_when_the_caller_was_told_of_it() -> None:
    told = plain_lease(options=OPTIONS.but(hold_at_least=3600))
    win(told)
    assert rests(Release(told))


def test_a_tenure_that_the_caller_was_not_told_of_does_not_rest() -> None:
    lease = plain_lease(options=OPTIONS.but(hold_at_least=3600))
    unanswered_acquire(lease)
    assert not rests(Release(lease, found(lease).began))


def test_a_win_that_came_too_late_is_given_back_without_a_rest() -> None:
    clock = ManualClock()
    lease = plain_lease(clock, OPTIONS.but(hold_at_least=3600))
    acquire = begun(Acquire(lease))
    clock.advance(27)
    assert acquire.settle(done()).give_back
    assert not rests(Release(lease))


def test_a_told_tenure_that_is_found_again_after_a_failed_release_rests() -> None:
    lease = plain_lease(options=OPTIONS.but(hold_at_least=3600))
    win(lease)
    release = Release(lease)
    release.prepare()
    release.exhausted(UNANSWERED)
    assert rests(Release(lease, found(lease, OLD).began))


def test_a_tenure_after_a_told_one_does_not_inherit_its_rest() -> None:
    lease = plain_lease(options=OPTIONS.but(hold_at_least=3600))
    win(lease)
    Release(lease).settle(done())
    unanswered_acquire(lease)
    assert not rests(Release(lease, found(lease, NEW).began))


# --- answers ---


@pytest.mark.parametrize("verb", [Renew, Release])
def test_an_answer_for_another_tenure_is_refused(verb: type[Renew] | type[Release]) -> None:
    lease = plain_lease()
    win(lease)
    call: Call = verb(lease)
    call.prepare()
    with pytest.raises(LeaseStoreError, match="another tenure"):
        call.settle(done(NEW))


@pytest.mark.parametrize("rows", [[], done() + done()], ids=["none", "two"])
def test_a_question_has_exactly_one_answer(rows: list[list[object]]) -> None:
    lease = plain_lease()
    with pytest.raises(LeaseStoreError, match="answers"):
        begun(Acquire(lease)).settle(rows)
    assert not lease.held


def test_nobody_in_sight_is_asked_again() -> None:
    with pytest.raises(Retry):
        begun(Acquire(plain_lease())).settle(answer())


@pytest.mark.parametrize(("remaining", "refused"), [(0.5, True), (-3.9, True), (-4.1, False)])
def test_a_row_within_the_grace_still_refuses(remaining: float, refused: bool) -> None:
    acquire = begun(Acquire(plain_lease(options=OPTIONS.but(takeover_grace=4))))
    if refused:
        assert acquire.settle(seen(remaining=remaining)).value is False
    else:
        with pytest.raises(Retry):
            acquire.settle(seen(remaining=remaining))


def test_a_resting_row_of_our_own_refuses_too() -> None:
    lease = plain_lease()
    assert begun(Acquire(lease)).settle(seen("\x01me")).value is False


# --- time ---


@pytest.mark.parametrize(("passed", "left"), [(0.0, 10.0), (4.0, 6.0), (10.0, 0.0), (99.0, 0.0)])
def test_an_acquire_may_start_attempts_for_a_third_of_the_duration(passed: float, left: float) -> None:
    clock = ManualClock()
    acquire = Acquire(plain_lease(clock))
    clock.advance(passed)
    assert acquire.left == left


def test_a_renew_may_start_attempts_as_long_as_the_lease_is_believed_in() -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    win(lease)
    clock.advance(23)
    renew = Renew(lease)
    assert renew.left == 4.0
    clock.advance(3)
    assert renew.left == 1.0


def test_the_deadline_counts_from_the_send_of_the_attempt_that_was_answered() -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    acquire = begun(Acquire(lease))
    clock.advance(4)
    acquire.prepare()
    clock.advance(2)
    acquire.settle(done())
    assert lease.remaining == 25.0


def test_a_call_without_a_tenure_asks_nothing() -> None:
    lease = plain_lease()
    assert Renew(lease).void
    assert Release(lease).void
    assert not lease._belief.in_doubt
