"""When to try again and when to renew."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from sqllease import LeaseInfo, LeaseOptions, LeaseValueError
from sqllease.pacing import Pace, next_try

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)
MANY = 200


def holder(remaining: float) -> LeaseInfo:
    return LeaseInfo("job", "other", NOON, NOON, NOON, remaining, None, resting=False)


class TestNextTry:
    def test_it_comes_after_a_poll_or_up_to_a_tenth_sooner(self) -> None:
        pauses = [next_try(holder(100), 0, 10, None) or 0 for _ in range(MANY)]
        assert 9.0 < min(pauses) < 9.3
        assert 9.7 < max(pauses) <= 10.0

    def test_it_comes_when_the_holder_has_to_be_done_if_that_is_sooner(self) -> None:
        assert next_try(holder(3), 0, 10, None) == 3

    def test_it_leaves_the_holder_its_grace(self) -> None:
        assert next_try(holder(3), 2.5, 10, None) == 5.5

    def test_a_long_grace_does_not_make_it_later_than_a_poll(self) -> None:
        pause = next_try(holder(3), 60, 10, None)
        assert pause is not None
        assert pause <= 10

    def test_it_comes_after_a_poll_when_no_holder_is_known(self) -> None:
        pause = next_try(None, 60, 10, None)
        assert pause is not None
        assert 9 < pause <= 10

    def test_the_last_one_comes_at_the_very_end_of_the_patience(self) -> None:
        assert next_try(holder(100), 0, 10, 4) == 4

    @pytest.mark.parametrize("left", [0.0, -1.0])
    def test_there_is_none_after_that(self, left: float) -> None:
        assert next_try(holder(0.5), 0, 10, left) is None


class TestPace:
    @pytest.mark.parametrize("duration", [2, 3, 6, 30, 600, 86_400])
    def test_a_renewal_comes_after_a_third_of_the_duration_so_that_two_tries_fit(self, duration: float) -> None:
        options = LeaseOptions(duration=duration)
        pace = Pace.of(options)
        assert pace.interval == duration / 3
        assert 2 * pace.interval < options.duration - options.safety_margin

    @pytest.mark.parametrize("interval", [30, 27, 24, timedelta(seconds=24)])
    def test_an_interval_that_leaves_no_time_for_the_answer_is_refused_with_the_numbers(
        self, interval: float | timedelta
    ) -> None:
        with pytest.raises(
            LeaseValueError, match=r"interval .*command_timeout \(3 s\).*safety_margin \(3 s\).*\(30 s\)"
        ):
            Pace.of(LeaseOptions(duration=30), interval)

    def test_the_longest_interval_that_leaves_time_is_taken(self) -> None:
        assert Pace.of(LeaseOptions(duration=30), timedelta(seconds=23.9)).interval == 23.9

    @pytest.mark.parametrize("interval", [0, -1, float("nan"), True])
    def test_an_interval_that_is_no_time_is_refused(self, interval: float) -> None:
        with pytest.raises(LeaseValueError, match="interval"):
            Pace.of(LeaseOptions(duration=30), interval)

    def test_the_next_renewal_is_counted_from_the_send_of_the_last(self) -> None:
        pace = Pace.of(LeaseOptions(duration=30))  # believed in for 27 s
        at_once = [pace.until_renewal(27) for _ in range(MANY)]
        assert 9.0 < min(at_once) < 9.3
        assert 9.7 < max(at_once) <= 10.0
        answered_late = [pace.until_renewal(25) for _ in range(MANY)]
        assert max(answered_late) <= 8.0

    def test_a_renewal_that_is_overdue_is_due_now(self) -> None:
        assert Pace.of(LeaseOptions(duration=30)).until_renewal(1) == 0

    def test_a_longer_extension_postpones_it(self) -> None:
        assert Pace.of(LeaseOptions(duration=30)).until_renewal(297) > 250

    def test_failures_are_followed_by_short_waits_that_grow_to_half_an_interval(self) -> None:
        pace = Pace.of(LeaseOptions(duration=30))
        waits = [pace.until_retry(failures, 27) for failures in (1, 2, 3, 6, 7, 100)]
        assert waits == [0.1, 0.2, 0.4, 3.2, 5.0, 5.0]

    def test_a_wait_after_a_failure_never_goes_past_the_end(self) -> None:
        pace = Pace.of(LeaseOptions(duration=30))
        assert pace.until_retry(100, 0.3) == 0.3
        assert pace.until_retry(1, 0.0) == 0.0
