"""What a process may believe without asking: held, remaining, check(), the token. By its own clock, exactly.

Runs on every server: only the lease's own clock is moved, and a `ManualClock` stands still until a test moves it.
"""

from __future__ import annotations

from datetime import timedelta

import pytest

from sqllease import LeaseLost, LeaseOptions
from sqllease.testing import ManualClock

from .support import MakeLease


class TestBelief:
    def test_held_ends_at_send_time_plus_duration_less_the_margin(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock, options=LeaseOptions(duration=30, safety_margin=5))
        lease.try_acquire()
        assert lease.remaining == 25
        clock.advance(24.75)
        assert lease.held is True
        assert lease.remaining == 0.25
        clock.advance(0.25)
        assert lease.held is False
        assert lease.remaining == 0.0

    def test_remaining_is_never_negative(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock)
        lease.try_acquire()
        clock.advance(86_400)
        assert lease.remaining == 0.0

    def test_the_default_margin_is_a_tenth_of_the_duration(self, make_lease: MakeLease) -> None:
        lease = make_lease(clock=ManualClock(), options=LeaseOptions(duration=timedelta(minutes=5)))
        lease.try_acquire()
        assert lease.remaining == 270

    def test_there_is_no_token_once_the_time_has_run_out(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock)
        lease.try_acquire()
        clock.advance(30)
        assert lease.fencing_token is None

    def test_check_is_silent_while_held(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.check()

    def test_check_raises_before_the_first_acquire(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        with pytest.raises(LeaseLost, match=lease.name):
            lease.check()

    def test_check_raises_once_the_time_has_run_out_and_says_so(self, make_lease: MakeLease) -> None:
        clock = ManualClock()
        lease = make_lease(clock=clock)
        lease.try_acquire()
        clock.advance(27)
        with pytest.raises(LeaseLost) as lost:
            lease.check()
        assert lost.value.reason == "its time has run out"

    def test_check_raises_after_a_release(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.try_release()
        with pytest.raises(LeaseLost):
            lease.check()

    def test_without_a_replica_confirmed_says_nothing(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        assert lease.confirmed is None
