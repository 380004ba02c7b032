"""The numbers of a confirmation by a replica, and those that contradict a lease's own."""

from __future__ import annotations

import dataclasses
from datetime import timedelta
from typing import Any

import pytest

from sqllease import LeaseConfigurationError, LeaseOptions, LeaseStore, LeaseValueError, ReplicaOptions
from sqllease.base import ReplicaMemory
from tests.unit.plain import plain_lease

DSN = "SERVER=secondary;UID=reader;PWD=Zebra"


def test_a_replica_is_looked_at_for_five_seconds_ten_times_a_second_and_refuses_what_it_does_not_show() -> None:
    options = ReplicaOptions(DSN)
    assert (options.timeout, options.poll_interval) == (5.0, 0.1)
    assert (options.on_unconfirmed, options.confirm_renewals) == ("refuse", True)


def test_a_timedelta_is_as_good_as_a_number() -> None:
    made = ReplicaOptions(DSN, timeout=timedelta(seconds=2), poll_interval=timedelta(milliseconds=50))
    assert made == ReplicaOptions(DSN, timeout=2, poll_interval=0.05)


@pytest.mark.parametrize("field", ["timeout", "poll_interval"])
@pytest.mark.parametrize("value", [0, -1, 0.0001, float("nan"), float("inf"), "1", True, None, timedelta(0)], ids=repr)
def test_what_is_no_length_of_time_is_refused_by_name(field: str, value: Any) -> None:
    with pytest.raises(LeaseValueError, match=field):
        ReplicaOptions(DSN, **{field: value})


def test_a_pause_longer_than_the_whole_search_is_refused_with_both_numbers() -> None:
    with pytest.raises(LeaseValueError, match=r"poll_interval \(3 s\).*timeout \(2 s\)"):
        ReplicaOptions(DSN, timeout=2, poll_interval=3)
    assert ReplicaOptions(DSN, timeout=2, poll_interval=2).poll_interval == 2.0


@pytest.mark.parametrize("value", ["Refuse", "", None, True, "keep"])
def test_there_are_two_answers_to_an_unconfirmed_lease(value: Any) -> None:
    with pytest.raises(LeaseValueError, match="on_unconfirmed"):
        ReplicaOptions(DSN, on_unconfirmed=value)


def test_they_show_no_connection_string_and_cannot_be_changed() -> None:
    options = ReplicaOptions(DSN)
    assert "Zebra" not in repr(options)
    with pytest.raises(dataclasses.FrozenInstanceError):
        options.timeout = 1  # type: ignore[misc]


@pytest.mark.parametrize(
    ("timeout", "margin", "duration", "fits"),
    [(5, 3, 30, True), (26.9, 3, 30, True), (27, 3, 30, False), (30, 0, 30, False), (5, 0.2, 2, False)],
)
def test_a_confirmation_that_could_outlast_the_lease_is_refused_when_the_lease_is_made(
    timeout: float, margin: float, duration: float, fits: bool
) -> None:
    replica = ReplicaOptions(DSN, timeout=timeout)
    options = LeaseOptions(duration=duration, safety_margin=margin)
    if fits:
        replica.check_with(options)
        plain_lease(options=options, replica=ReplicaMemory(replica))
        return
    with pytest.raises(LeaseValueError) as caught:
        plain_lease(options=options, replica=ReplicaMemory(replica))
    for number in (timeout, margin, duration):
        assert f"({number:g} s)" in str(caught.value)


@pytest.mark.parametrize("replica", [DSN, 5, {"connection": DSN}], ids=["string", "number", "dict"])
def test_a_stores_replica_must_be_replica_options(replica: Any) -> None:
    with pytest.raises(LeaseConfigurationError, match="ReplicaOptions") as caught:
        LeaseStore("SERVER=primary", replica=replica)
    assert "Zebra" not in str(caught.value)


@pytest.mark.parametrize("connection", ["", "  ", 7, None])
def test_a_replica_without_a_connection_is_refused_when_the_store_is_made(connection: Any) -> None:
    with pytest.raises(LeaseValueError, match="connection"):
        LeaseStore("SERVER=primary", replica=ReplicaOptions(connection))
