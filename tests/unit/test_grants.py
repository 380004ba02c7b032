"""How a grant of the primary becomes a belief: True is only said while it holds."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest

from sqllease import LeaseStoreError
from sqllease.answers import Done
from sqllease.base import LeaseBase
from sqllease.grants import Grant, Verdict
from sqllease.tenure import Belief
from sqllease.testing import ManualClock
from tests.unit.plain import OLD, OPTIONS, plain_lease

DONE = Done(OLD, datetime(2026, 11, 29, 14, 0, 30, tzinfo=UTC), 2001, None)


def grant(lease: LeaseBase, *, fresh: bool = True, acquired: bool = True) -> Grant:
    """Sent now by the lease's clock."""
    return Grant(Belief().won(DONE, lease._clock.now(), OPTIONS), DONE, fresh, acquired, lease._era)


@pytest.mark.parametrize("passed", [0.0, 26.999])
def test_a_grant_in_time_is_true_held_and_told(passed: float) -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    made = grant(lease)
    clock.advance(passed)
    assert made.accept(lease) == Verdict(True)
    assert lease.held
    assert lease._belief.granted == OLD


@pytest.mark.parametrize("passed", [27.0, 27.001, 9999.0])
def test_an_acquire_that_was_answered_too_late_is_given_back_and_never_true(passed: float) -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    made = grant(lease)
    clock.advance(passed)
    verdict = made.accept(lease)
    assert (verdict.value, verdict.give_back) == (False, True)
    assert isinstance(verdict.error, LeaseStoreError)
    assert verdict.error.transient
    assert not lease.held


def test_what_is_given_back_is_the_tenure_that_was_won_and_nobody_was_told_of_it() -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    made = grant(lease)
    clock.advance(27)
    made.accept(lease)
    assert lease._belief.tenure is not None
    assert lease._belief.tenure.began == OLD
    assert lease._belief.granted is None


def test_a_renew_that_was_answered_too_late_is_an_error_and_given_back_by_nobody() -> None:
    clock = ManualClock()
    lease = plain_lease(clock)
    made = grant(lease, fresh=False, acquired=False)
    clock.advance(27)
    verdict = made.accept(lease)
    assert (verdict.value, verdict.give_back) == (False, False)
    assert isinstance(verdict.error, LeaseStoreError)
    assert verdict.error.transient
    assert not lease.held


@pytest.mark.parametrize(("fresh", "level"), [(True, logging.INFO), (False, logging.DEBUG)])
def test_a_new_tenure_is_news_and_a_refreshed_one_is_not(
    caplog: pytest.LogCaptureFixture, fresh: bool, level: int
) -> None:
    caplog.set_level(logging.DEBUG, "sqllease")
    lease = plain_lease()
    grant(lease, fresh=fresh).accept(lease)
    assert [record.levelno for record in caplog.records] == [level]
