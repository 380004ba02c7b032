"""The server's clock: real time plus what a test adds; timers fire when it says so."""

from __future__ import annotations

import threading
import time

from sqllease.testing.server.clock import ServerClock
from sqllease.testing.server.sqltypes import EPOCH_TICKS, TICKS_PER_SECOND


def test_it_starts_at_real_utc() -> None:
    seconds = (ServerClock().now().ticks - EPOCH_TICKS) / TICKS_PER_SECOND
    assert abs(seconds - time.time()) < 5


def test_it_has_the_unix_epoch_where_the_calendar_has_it() -> None:
    assert EPOCH_TICKS == 719_162 * 86_400 * TICKS_PER_SECOND  # days from 0001-01-01 to 1970-01-01


def test_it_runs_by_itself() -> None:
    clock = ServerClock()
    before = clock.ticks()
    time.sleep(0.002)
    assert clock.ticks() - before >= 0.002 * TICKS_PER_SECOND


def test_a_frozen_clock_moves_by_advance_only() -> None:
    clock = ServerClock()
    clock.freeze()
    before = clock.now()
    time.sleep(0.001)
    assert clock.now() == before
    clock.advance(1.5)
    assert clock.ticks() - before.ticks == 1.5 * TICKS_PER_SECOND
    clock.advance(-2)
    assert clock.ticks() - before.ticks == -0.5 * TICKS_PER_SECOND


def test_a_thawed_clock_goes_on_from_the_frozen_time() -> None:
    clock = ServerClock()
    clock.freeze()
    clock.advance(-100)
    frozen = clock.ticks()
    clock.thaw()
    assert 0 <= clock.ticks() - frozen < 5 * TICKS_PER_SECOND


def test_timers_fire_in_the_order_of_their_times_and_not_before() -> None:
    clock, fired = ServerClock(), list[str]()
    clock.freeze()
    clock.call_at(clock.ticks() + 20, lambda: fired.append("second"))
    clock.call_at(clock.ticks() + 10, lambda: fired.append("first"))
    clock.advance(9e-7)
    clock.run_due()
    assert fired == []
    clock.advance(2e-6)
    clock.run_due()
    assert fired == ["first", "second"]


def test_a_cancelled_timer_does_not_fire() -> None:
    clock, fired = ServerClock(), list[str]()
    clock.call_at(clock.ticks(), lambda: fired.append("no")).cancel()
    assert clock.next_due() is None
    clock.run_due()
    assert fired == []


def test_the_time_to_the_next_timer_counts_real_seconds() -> None:
    clock = ServerClock()
    clock.call_at(clock.ticks() + 60 * TICKS_PER_SECOND, lambda: None)
    left = clock.next_due()
    assert left is not None
    assert 50 < left <= 60
    clock.advance(61)
    assert clock.next_due() == 0


def test_no_real_time_brings_a_frozen_clock_to_its_timer() -> None:
    clock = ServerClock()
    clock.freeze()
    clock.call_at(clock.ticks() + 1, lambda: None)
    assert clock.next_due() is None


def test_the_owner_hears_of_moves_from_any_thread() -> None:
    clock, heard = ServerClock(), list[str]()
    clock.on_change = lambda: heard.append(threading.current_thread().name)
    mover = threading.Thread(target=clock.advance, args=(1,), name="mover")
    mover.start()
    mover.join()
    clock.call_at(clock.ticks(), lambda: None)
    assert heard == ["mover", threading.current_thread().name]
