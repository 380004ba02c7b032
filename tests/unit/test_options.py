"""The numbers of a lease: their defaults, their limits, and the combinations that cannot work."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from sqllease import LeaseOptions, LeaseValueError

DAY = 86_400


@pytest.mark.parametrize(
    ("duration", "safety_margin", "command_timeout", "lock_timeout", "login_timeout", "retry_budget"),
    [
        (30, 3.0, 3, 1.5, 5, 10.0),
        (2, 0.2, 1, 0.5, 1, 2 / 3),
        (15, 1.5, 1, 0.5, 2, 5.0),
        (59.9, 5.99, 5, 2.5, 9, 59.9 / 3),
        (366 * DAY, 36.6 * DAY, 3_162_240, 86_400.0, 61 * DAY, 122.0 * DAY),
    ],
)
def test_defaults_follow_from_the_duration(
    duration: float,
    safety_margin: float,
    command_timeout: int,
    lock_timeout: float,
    login_timeout: int,
    retry_budget: float,
) -> None:
    options = LeaseOptions(duration=duration)
    assert options.safety_margin == pytest.approx(safety_margin)
    assert options.command_timeout == command_timeout
    assert options.lock_timeout == pytest.approx(lock_timeout)
    assert options.login_timeout == login_timeout
    assert options.retry_budget == pytest.approx(retry_budget)


def test_the_lock_timeout_follows_a_given_command_timeout() -> None:
    assert LeaseOptions(command_timeout=8).lock_timeout == 4.0


@pytest.mark.parametrize("command_timeout", [DAY, 3 * DAY, 30 * DAY])
def test_no_lock_timeout_is_longer_than_a_day(command_timeout: int) -> None:
    # SET LOCK_TIMEOUT takes an int of milliseconds: 24 days at most, and -1 would be "for ever".
    assert LeaseOptions(duration=366 * DAY, command_timeout=command_timeout).lock_timeout <= DAY
    with pytest.raises(LeaseValueError, match="lock_timeout"):
        LeaseOptions(duration=366 * DAY, command_timeout=30 * DAY, lock_timeout=DAY + 1)


def test_what_is_not_asked_for_is_off() -> None:
    options = LeaseOptions()
    assert (options.duration, options.takeover_grace, options.hold_at_least) == (30.0, 0.0, 0.0)
    assert (options.sweep_limit, options.sweep_after) == (50, 3600.0)


def test_a_timedelta_is_as_good_as_a_number() -> None:
    assert LeaseOptions(duration=timedelta(minutes=1), takeover_grace=timedelta(milliseconds=500)) == LeaseOptions(
        duration=60, takeover_grace=0.5
    )


@pytest.mark.parametrize("duration", [2, 2.0, timedelta(seconds=2), 366 * DAY, timedelta(days=366)])
def test_a_lease_may_last_from_two_seconds_to_a_year(duration: Any) -> None:
    assert LeaseOptions(duration=duration).duration in (2.0, 366.0 * DAY)


@pytest.mark.parametrize("field", ["duration", "takeover_grace", "hold_at_least", "safety_margin", "sweep_after"])
@pytest.mark.parametrize(
    "value",
    [-1, float("nan"), float("inf"), float("-inf"), 10**400, 367 * DAY, timedelta(-1), timedelta.max, "30", True, [30]],
    ids=lambda value: repr(value)[:20],
)
def test_what_is_no_length_of_time_is_refused_by_name(field: str, value: object) -> None:
    with pytest.raises(LeaseValueError, match=field):
        LeaseOptions(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("duration", [0, 1, 1.999, None])
def test_a_lease_shorter_than_two_seconds_is_refused(duration: Any) -> None:
    with pytest.raises(LeaseValueError, match="duration"):
        LeaseOptions(duration=duration)


@pytest.mark.parametrize("value", [0, 0.0, 0.5, 1.5, -1, float("nan"), True, "3", timedelta(0), timedelta(seconds=1.5)])
def test_a_command_timeout_is_whole_seconds_and_never_zero(value: Any) -> None:
    # ODBC reads 0 as "for ever", and has no fractions.
    with pytest.raises(LeaseValueError, match="command_timeout"):
        LeaseOptions(command_timeout=value)


@pytest.mark.parametrize("value", [2, 2.0, timedelta(seconds=2)])
def test_the_driver_gets_its_timeout_as_an_int(value: Any) -> None:
    assert type(LeaseOptions(command_timeout=value).command_timeout) is int


@pytest.mark.parametrize("value", [0, 0.0, -0.1, 0.0004, timedelta(0)])
def test_a_lock_timeout_of_no_milliseconds_is_refused(value: Any) -> None:
    with pytest.raises(LeaseValueError, match="lock_timeout"):
        LeaseOptions(lock_timeout=value)


@pytest.mark.parametrize(
    ("numbers", "named"),
    [
        ({"lock_timeout": 3, "command_timeout": 3}, ["lock_timeout", "3", "command_timeout"]),
        ({"lock_timeout": 7, "command_timeout": 5}, ["lock_timeout", "7", "command_timeout", "5"]),
        ({"duration": 15, "command_timeout": 30}, ["command_timeout", "30", "duration", "15"]),
        (
            {"duration": 10, "command_timeout": 6, "safety_margin": 4},
            ["command_timeout", "6", "safety_margin", "4", "duration", "10"],
        ),
        ({"duration": 10, "safety_margin": 10}, ["safety_margin", "duration", "10"]),
        ({"takeover_grace": 61, "sweep_after": 60}, ["takeover_grace", "61", "sweep_after", "60"]),
    ],
)
def test_numbers_that_contradict_each_other_are_refused_and_named(numbers: dict[str, float], named: list[str]) -> None:
    with pytest.raises(LeaseValueError) as caught:
        LeaseOptions(**numbers)  # type: ignore[arg-type]
    assert [part for part in named if part not in str(caught.value)] == []


@pytest.mark.parametrize(
    "numbers",
    [
        {"lock_timeout": 2.999, "command_timeout": 3},
        {"duration": 10, "command_timeout": 6, "safety_margin": 3.999},
        {"takeover_grace": 60, "sweep_after": 60},
        {"safety_margin": 0},
    ],
)
def test_numbers_just_within_the_rules_are_taken(numbers: dict[str, float]) -> None:
    options = LeaseOptions(**numbers)  # type: ignore[arg-type]
    assert {field: getattr(options, field) for field in numbers} == numbers


@pytest.mark.parametrize("limit", [0, 1, 1000])
def test_a_sweep_limit_stays_far_below_lock_escalation(limit: int) -> None:
    assert LeaseOptions(sweep_limit=limit).sweep_limit == limit


@pytest.mark.parametrize("limit", [-1, 1001, 5000, 1.0, "50", True, None])
def test_any_other_sweep_limit_is_refused(limit: Any) -> None:
    with pytest.raises(LeaseValueError, match="sweep_limit"):
        LeaseOptions(sweep_limit=limit)


def test_options_cannot_be_changed_after_they_were_checked() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LeaseOptions().duration = 1  # type: ignore[misc]


def test_options_that_are_replaced_are_checked_again() -> None:
    with pytest.raises(LeaseValueError, match="duration"):
        dataclasses.replace(LeaseOptions(), duration=3.0)
