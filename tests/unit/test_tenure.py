"""What a process may believe about its lease, step by step."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

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


HELD = Belief().doubtful().won(done(), 100.0, OPTIONS)


def test_nobody_believes_anything_at_first() -> None:
    assert (Belief().remaining(0.0), Belief().expires_at, Belief().holder, token(Belief())) == (0.0, None, None, None)


@pytest.mark.parametrize(("now", "remaining"), [(100.0, 27.0), (126.5, 0.5), (127.0, 0.0), (9999.0, 0.0)])
def test_belief_lasts_until_send_time_plus_duration_minus_margin(now: float, remaining: float) -> None:
    assert HELD.remaining(now) == remaining


def test_the_token_is_the_row_version_that_began_the_tenure() -> None:
    assert token(HELD) == 2001


def test_a_refresh_keeps_tenure_and_token_and_moves_the_deadline() -> None:
    refreshed = HELD.doubtful().won(done(version=2002), 110.0, OPTIONS)
    assert (token(refreshed), refreshed.last, refreshed.remaining(110.0)) == (2001, EARLY, 27.0)


def test_a_take_over_of_ones_own_expired_row_is_a_new_tenure_with_a_new_token() -> None:
    retaken = HELD.doubtful().won(done(LATE, 2002), 400.0, OPTIONS)
    assert (token(retaken), retaken.last) == (2002, LATE)


def test_an_acquire_after_a_release_gets_a_new_token_even_where_the_server_still_shows_the_old_tenure() -> None:
    # No token of a tenure that was given back may come to life again.
    assert token(HELD.ended().doubtful().won(done(version=2002), 101.0, OPTIONS)) == 2002


def test_a_renew_moves_the_deadline_and_keeps_the_token() -> None:
    renewed = HELD.renewed(done(version=2002), 120.0, OPTIONS)
    assert (token(renewed), renewed.remaining(120.0)) == (2001, 27.0)


def test_a_shorter_renew_moves_no_expiry_back() -> None:
    renewed = HELD.renewed(done(version=2002, expires_at=EXPIRES_AT - timedelta(seconds=5)), 120.0, OPTIONS)
    assert renewed.expires_at == EXPIRES_AT


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
    lost = HELD.doubtful().lost_to(OTHER)
    assert (lost.remaining(100.0), lost.holder) == (0.0, OTHER)


def test_an_acquire_that_is_won_forgets_the_other_holder() -> None:
    assert Belief().lost_to(OTHER).doubtful().won(done(), 100.0, OPTIONS).holder is None


def test_a_message_is_in_doubt_until_it_is_settled_or_the_lease_is_won() -> None:
    asked = Belief().doubtful()
    assert asked.in_doubt
    assert not asked.won(done(), 100.0, OPTIONS).in_doubt
    assert not asked.settled().in_doubt


def test_another_holder_in_the_row_does_not_settle_what_was_sent_before() -> None:
    # The unanswered message may still be on its way, and be executed when that holder has gone.
    assert Belief().doubtful().lost_to(OTHER).in_doubt


def test_a_renew_does_not_settle_what_was_sent_before() -> None:
    assert HELD.doubtful().renewed(done(version=2002), 110.0, OPTIONS).in_doubt


def test_a_message_that_is_under_way_leaves_the_present_belief_alone() -> None:
    assert HELD.doubtful().remaining(100.0) == 27.0


def test_the_end_of_a_tenure_settles_nothing() -> None:
    assert Belief().doubtful().ended().in_doubt


@given(st.floats(100.0, 1e9))
def test_a_tenure_that_a_replica_has_still_to_show_is_not_believed_in_and_can_be_given_back(now: float) -> None:
    pending = HELD.pending()
    assert pending.remaining(now) == 0.0
    assert pending.tenure is not None
    assert (pending.tenure.began, pending.last, token(pending)) == (EARLY, EARLY, 2001)


@pytest.mark.parametrize("shown", [True, False])
def test_what_the_replica_said_is_kept_with_the_tenure_and_changes_no_deadline(shown: bool) -> None:
    belief = HELD.shown(shown)
    assert belief.tenure is not None
    assert belief.tenure.confirmed is shown
    assert belief.remaining(100.0) == 27.0
    renewed = belief.renewed(done(version=2002), 110.0, OPTIONS).tenure
    assert renewed is not None
    assert renewed.confirmed is shown


def test_a_new_tenure_has_been_shown_by_no_replica() -> None:
    retaken = HELD.shown(True).won(done(LATE, 2002), 400.0, OPTIONS).tenure
    assert retaken is not None
    assert retaken.confirmed is None


def test_a_tenure_keeps_the_version_of_the_last_answer_beside_its_token() -> None:
    # A replica has to show at least that version.
    renewed = HELD.renewed(done(version=2009), 110.0, OPTIONS).tenure
    assert renewed is not None
    assert (renewed.token, renewed.version) == (2001, 2009)


def test_only_the_tenure_that_the_caller_was_told_of_is_granted() -> None:
    # So only that one may have to rest: no work was done under another.
    assert HELD.granted is None
    assert HELD.told().granted == EARLY
    assert HELD.told().ended().granted == EARLY
    untold = HELD.told().ended().won(done(LATE, 2002), 400.0, OPTIONS)
    assert (untold.granted, untold.told().granted) == (EARLY, LATE)
