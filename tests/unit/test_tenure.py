"""What a process may believe about its lease, step by step."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqllease import LeaseInfo, LeaseOptions
from sqllease.answers import Done
from sqllease.tenure import Belief

OPTIONS = LeaseOptions(duration=30, safety_margin=3)
EARLY = "2026-11-29T14:00:00.1234567+00:00"
LATE = "2026-11-29T14:05:00.1234567+00:00"
EXPIRES_AT = datetime(2026, 11, 29, 14, 0, 30, tzinfo=UTC)
OTHER = LeaseInfo("nightly", "other", EXPIRES_AT, EXPIRES_AT, EXPIRES_AT, 12.0, None, False)


def done(tenure: str = EARLY, version: int = 2001, expires_at: datetime = EXPIRES_AT) -> Done:
    return Done(tenure, expires_at, version, None)


def token(belief: Belief) -> int | None:
    return None if belief.tenure is None else belief.tenure.token


HELD = Belief().asking().won(done(), 100.0, OPTIONS)


def test_nobody_believes_anything_at_first() -> None:
    assert (Belief().remaining(0.0), Belief().expires_at, Belief().holder, token(Belief())) == (0.0, None, None, None)


@pytest.mark.parametrize(("now", "remaining"), [(100.0, 27.0), (126.5, 0.5), (127.0, 0.0), (9999.0, 0.0)])
def test_belief_lasts_until_send_time_plus_duration_minus_margin(now: float, remaining: float) -> None:
    assert HELD.remaining(now) == remaining


def test_the_token_is_the_row_version_that_began_the_tenure() -> None:
    assert token(HELD) == 2001


def test_a_refresh_keeps_tenure_and_token_and_moves_the_deadline() -> None:
    refreshed = HELD.asking().won(done(version=2002), 110.0, OPTIONS)
    assert (token(refreshed), refreshed.last, refreshed.remaining(110.0)) == (2001, EARLY, 27.0)


def test_a_take_over_of_ones_own_expired_row_is_a_new_tenure_with_a_new_token() -> None:
    retaken = HELD.asking().won(done(LATE, 2002), 400.0, OPTIONS)
    assert (token(retaken), retaken.last) == (2002, LATE)


def test_an_acquire_after_a_release_gets_a_new_token_even_where_the_server_still_shows_the_old_tenure() -> None:
    # No token of a tenure that was given back may come to life again.
    assert token(HELD.ended().asking().won(done(version=2002), 101.0, OPTIONS)) == 2002


def test_a_renew_moves_the_deadline_and_keeps_the_token() -> None:
    renewed = HELD.renewed(done(version=2002), 120.0, OPTIONS)
    assert (token(renewed), renewed.remaining(120.0)) == (2001, 27.0)


@given(st.lists(st.floats(100.0, 127.0), max_size=5))
def test_no_renew_ever_shortens_a_belief(sent: list[float]) -> None:
    belief = HELD
    for at in sent:
        later = belief.renewed(done(), at, OPTIONS)
        assert later.remaining(100.0) >= belief.remaining(100.0)
        belief = later


def test_a_renew_shows_people_the_new_expiry() -> None:
    later = datetime(2026, 11, 29, 14, 1, tzinfo=UTC)
    assert HELD.renewed(done(expires_at=later), 120.0, OPTIONS).expires_at == later


def test_a_tenure_that_is_given_back_is_over_before_anything_is_sent() -> None:
    assert HELD.ended().remaining(100.0) == 0.0
    assert token(HELD.ended()) is None


def test_the_beginning_of_a_tenure_is_remembered_after_its_end() -> None:
    # The next tenure must begin later, so that a delayed release of this one can touch nothing.
    assert HELD.ended().last == EARLY
    assert HELD.lost_to(OTHER).last == EARLY


def test_a_lost_acquire_ends_the_belief_and_tells_who_has_it() -> None:
    lost = HELD.asking().lost_to(OTHER)
    assert (lost.remaining(100.0), lost.holder, lost.unsettled) == (0.0, OTHER, False)


def test_an_acquire_that_is_won_forgets_the_other_holder() -> None:
    assert Belief().lost_to(OTHER).asking().won(done(), 100.0, OPTIONS).holder is None


def test_an_acquire_is_unsettled_until_it_is_answered() -> None:
    asked = Belief().asking()
    assert asked.unsettled
    assert not asked.won(done(), 100.0, OPTIONS).unsettled
    assert not asked.lost_to(OTHER).unsettled
    assert not asked.settled().unsettled


def test_an_acquire_that_is_under_way_leaves_the_present_belief_alone() -> None:
    assert HELD.asking().remaining(100.0) == 27.0


def test_a_release_does_not_settle_an_unanswered_acquire() -> None:
    assert Belief().asking().ended().unsettled


@given(st.floats(-1e9, 1e9))
def test_a_row_that_was_only_found_is_never_believed_in(now: float) -> None:
    found = Belief().asking().found(EARLY)
    assert found.remaining(now) == 0.0
    assert found.tenure is not None
    assert (found.tenure.began, found.last) == (EARLY, EARLY)
