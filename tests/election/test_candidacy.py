"""The rules of an election: states, events, orders, and when the next try comes. No database, no clock."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from sqllease import ElectionState as S
from sqllease import LeaseInfo, LeaseOptions
from sqllease.candidacy import TRANSITIONS, WAITING, Candidacy, Event, Order, back_off

OPTIONS = LeaseOptions(duration=30, safety_margin=3)
POLL_S = 1.0
DAY = datetime(2026, 1, 1, tzinfo=UTC)


def candidacy(drain_timeout: float | None = None, poll: float = POLL_S) -> Candidacy:
    return Candidacy(OPTIONS, poll, drain_timeout, 0.0)


def leading(drain_timeout: float | None = None) -> Candidacy:
    made = candidacy(drain_timeout)
    assert made.on(Event.WON, 0.0) is Order.START
    return made


def holder(remaining: float) -> LeaseInfo:
    return LeaseInfo("job", "other", DAY, DAY, DAY, remaining, None, False)


def test_the_first_try_comes_anywhere_in_the_first_poll() -> None:
    pauses = [candidacy().pause(0.0) or 0.0 for _ in range(300)]
    assert 0 <= min(pauses) < 0.1 < 0.9 < max(pauses) <= 1.0


def test_nothing_is_due_before_its_time() -> None:
    made = candidacy()
    pause = made.pause(0.0)
    assert pause is not None
    assert made.due(pause - 0.001) is None
    assert made.due(pause + 0.001) is Event.DUE
    assert made.on(Event.DUE, pause) is Order.CAMPAIGN
    assert made.pause(pause) is None


@pytest.mark.parametrize("event", [Event.REFUSED, Event.UNANSWERED])
def test_after_a_lost_try_the_next_comes_within_one_poll(event: Event) -> None:
    for _ in range(100):
        made = candidacy()
        made.on(Event.DUE, 5.0)
        made.on(event, 5.0, holder(25.0))
        assert 0.9 <= (made.pause(5.0) or 0.0) <= 1.1


def test_the_next_try_comes_soon_after_the_holders_end_but_not_at_one_moment_for_all() -> None:
    pauses = set()
    for _ in range(100):
        made = candidacy()
        made.on(Event.REFUSED, 5.0, holder(0.25))
        pauses.add(made.pause(5.0))
    assert all(0.25 <= (pause or 0.0) <= 0.35 for pause in pauses)
    assert len(pauses) > 90


def test_what_was_seen_before_an_outage_does_not_hurry_the_next_try() -> None:
    made = candidacy()
    made.on(Event.UNANSWERED, 5.0, holder(0.0))
    assert (made.pause(5.0) or 0.0) >= 0.9


@pytest.mark.parametrize(
    ("events", "state"),
    [
        ([Event.DUE], S.CANDIDATE),
        ([Event.UNANSWERED], S.NO_DATABASE),
        ([Event.UNANSWERED, Event.DUE, Event.REFUSED], S.CANDIDATE),
        ([Event.WON], S.LEADING),
        ([Event.WON, Event.RETURNED], S.BACKING_OFF),
        ([Event.WON, Event.RETURNED, Event.DUE, Event.WON], S.LEADING),
        ([Event.WON, Event.RESIGN], S.DRAINING),
        ([Event.WON, Event.RESIGN, Event.RETURNED], S.STOPPED),
        ([Event.WON, Event.LOST], S.LOST),
        ([Event.WON, Event.RESIGN, Event.LOST], S.LOST),
        ([Event.WON, Event.LOST, Event.RETURNED], S.CANDIDATE),
        ([Event.WON, Event.LOST, Event.RESIGN, Event.RETURNED], S.STOPPED),
        ([Event.WON, Event.LOST, Event.MARGIN_PASSED], S.OUTLIVED),
        ([Event.WON, Event.LOST, Event.MARGIN_PASSED, Event.RETURNED], S.CANDIDATE),
        ([Event.WON, Event.LOST, Event.MARGIN_PASSED, Event.RESIGN], S.OUTLIVED),
        ([Event.WON, Event.RESIGN, Event.LIMIT_PASSED], S.OUTLIVED),
        ([Event.WON, Event.RESIGN, Event.LIMIT_PASSED, Event.RETURNED], S.STOPPED),
        ([Event.RESIGN, Event.WON], S.STOPPED),
        ([Event.LOST], S.CANDIDATE),
    ],
)
def test_each_story_ends_in_its_state(events: list[Event], state: S) -> None:
    made = candidacy(drain_timeout=10)
    for event in events:
        made.on(event, 0.0)
    assert made.state is state


def test_the_lease_is_left_only_when_the_work_has_returned_or_never_began() -> None:
    leaves = {key for key, (_, order) in TRANSITIONS.items() if order is Order.LEAVE}
    assert all(event is Event.RETURNED or (state, event) == (S.STOPPED, Event.WON) for state, event in leaves)
    returns = {state for state, event in TRANSITIONS if event is Event.RETURNED}
    assert returns == set(S) - set(WAITING) - {S.STOPPED}


def test_no_campaign_is_made_while_the_work_has_not_returned() -> None:
    campaigns = {state for (state, _), (_, order) in TRANSITIONS.items() if order in (Order.CAMPAIGN, Order.START)}
    assert campaigns == set(WAITING)
    for events in ([Event.LOST], [Event.LOST, Event.MARGIN_PASSED], [Event.RESIGN], [Event.RESIGN, Event.LOST]):
        made = leading()
        for event in events:
            made.on(event, 0.0)
        assert made.due(1e9) is not Event.DUE


def test_work_that_is_told_to_stop_is_told_once() -> None:
    made = leading()
    assert made.on(Event.RESIGN, 0.0) is Order.TELL
    assert made.on(Event.RESIGN, 0.0) is Order.NOTHING
    assert made.on(Event.LOST, 0.0) is Order.NOTHING


def test_without_a_drain_timeout_draining_has_no_end() -> None:
    made = leading(drain_timeout=None)
    made.on(Event.RESIGN, 1.0)
    assert made.pause(1.0) is None
    assert made.due(1e9) is None


def test_the_drain_timeout_counts_from_the_resignation() -> None:
    made = leading(drain_timeout=10)
    made.on(Event.RESIGN, 100.0)
    assert made.due(109.9) is None
    assert made.due(110.0) is Event.LIMIT_PASSED
    assert made.on(Event.LIMIT_PASSED, 110.0) is Order.ABANDON
    assert made.over
    assert made.pause(110.0) is None


def test_work_that_outlives_a_lost_lease_is_reported_after_the_margin() -> None:
    made = leading()
    made.on(Event.LOST, 100.0)
    assert made.due(102.9) is None
    assert made.due(103.0) is Event.MARGIN_PASSED
    assert made.on(Event.MARGIN_PASSED, 103.0) is Order.REPORT
    assert not made.over


def test_one_that_resigns_with_work_that_outlives_the_lease_waits_for_it_up_to_the_drain_timeout() -> None:
    made = leading(drain_timeout=10)
    made.on(Event.LOST, 100.0)
    made.on(Event.MARGIN_PASSED, 103.0)
    made.on(Event.RESIGN, 104.0)
    assert not made.over
    assert made.due(110.0) is Event.LIMIT_PASSED
    assert made.on(Event.LIMIT_PASSED, 110.0) is Order.NOTHING
    assert made.over


def test_one_that_does_not_resign_waits_for_such_work_without_end() -> None:
    made = leading(drain_timeout=10)
    made.on(Event.LOST, 100.0)
    made.on(Event.MARGIN_PASSED, 103.0)
    made.on(Event.LIMIT_PASSED, 110.0)
    assert not made.over
    assert made.pause(110.0) is None


def test_a_new_term_has_a_drain_timeout_of_its_own() -> None:
    made = leading(drain_timeout=10)
    made.on(Event.LOST, 100.0)
    made.on(Event.MARGIN_PASSED, 103.0)
    made.on(Event.LIMIT_PASSED, 110.0)
    made.on(Event.RETURNED, 200.0)
    made.on(Event.WON, 201.0)
    made.on(Event.RESIGN, 300.0)
    assert not made.over
    assert made.pause(300.0) == 10.0


def test_work_that_ends_unasked_makes_its_node_stand_back_longer_each_time() -> None:
    made, now, pauses = candidacy(), 0.0, []
    for _ in range(5):
        made.on(Event.WON, now)
        made.on(Event.RETURNED, now)
        pauses.append(made.pause(now))
        now += pauses[-1] or 0.0
        assert made.on(Event.DUE, now) is Order.CAMPAIGN
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0]


def test_work_that_has_run_for_a_whole_lease_is_forgiven_its_past() -> None:
    made = candidacy()
    for began, ended in ((0.0, 1.0), (10.0, 11.0), (20.0, 51.0)):
        made.on(Event.WON, began)
        made.on(Event.RETURNED, ended)
    assert made.pause(51.0) == 2.0


@pytest.mark.parametrize(
    ("poll", "times", "pause"), [(1, 1, 2), (1, 6, 60), (1, 1000, 60), (0.01, 3, 0.08), (45, 9, 90)]
)
def test_the_back_off_lasts_two_polls_at_least_and_a_minute_at_most(poll: float, times: int, pause: float) -> None:
    assert back_off(poll, times) == pytest.approx(pause)
