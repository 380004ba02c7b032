"""The renewing and the watching of one hold: three outcomes, and what becomes of anything else."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator

import pytest

from sqllease import LeaseConfigurationError, LeaseError, LeaseLost, LeaseStoreError
from sqllease.keepalive import KeepAlive
from sqllease.pacing import Pace
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import Gate, ScriptedLease, library_threads

UNKNOWN = LeaseStoreError("nobody knows")


@pytest.fixture
def lease() -> ScriptedLease:
    """Held for 27 s after each renewal; the next is due after 10 s."""
    return ScriptedLease()


@pytest.fixture
def broken_log() -> Iterator[Callable[[], None]]:
    """Breaks the log from the call on."""

    def fail(record: logging.LogRecord) -> bool:
        raise TypeError("a bug in a filter")

    log = logging.getLogger("sqllease")
    log.setLevel(logging.DEBUG)
    yield lambda: log.addFilter(fail)
    log.removeFilter(fail)
    log.setLevel(logging.NOTSET)


class TestRenewed:
    def test_it_renews_after_a_third_of_the_duration_again_and_again(self, lease: ScriptedLease) -> None:
        with lease.hold() as held:
            for renewals in range(1, 6):
                assert lease.asked.count("renew") == renewals - 1
                lease.clock.advance(10)
                lease.wait_for("acquire", *["renew"] * renewals)
                wait_until(lambda: held.remaining == 27, "the renewal has been believed")
        assert lease.asked == ["acquire", *["renew"] * 5, "release"]

    def test_not_before_nine_tenths_of_that(self, lease: ScriptedLease) -> None:
        with lease.hold():
            lease.clock.advance(8.99)
            looked = threading.Event()
            assert not looked.wait(0.05)  # ten looks at the clock
            assert lease.asked == ["acquire"]

    def test_after_that_much_real_time_too_when_the_clock_stands_still(self) -> None:
        lease = ScriptedLease(duration=2)
        with lease.hold():
            lease.wait_for("acquire", "renew")


class TestLost:
    def test_false_is_a_loss_at_once_and_ends_the_renewing(self, lease: ScriptedLease) -> None:
        heard = threading.Event()
        lease.renews.append(False)
        with pytest.raises(LeaseLost), lease.hold(on_lost=heard.set) as held:
            lease.clock.advance(10)
            assert heard.wait(PATIENCE_S)
            assert held.lost.is_set()
            assert lease.clock.now() == 1_010
            wait_until(lambda: not library_threads(), "both threads have ended")
            lease.clock.advance(5)
        assert lease.asked == ["acquire", "renew"]

    def test_after_it_a_new_acquire_of_the_same_object_works(self, lease: ScriptedLease) -> None:
        lease.renews.append(False)
        with pytest.raises(LeaseLost), lease.hold() as first:
            lease.clock.advance(10)
            assert first.lost.wait(PATIENCE_S)
        with lease.hold() as second:
            second.check()
        assert second.fencing_token > first.fencing_token


class TestUnknown:
    def test_it_tries_again_shortly_and_goes_on(self, lease: ScriptedLease) -> None:
        lease.renews.extend([UNKNOWN, UNKNOWN, True])
        with lease.hold() as held:
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew", "renew", "renew")
            wait_until(lambda: held.remaining == 27, "the third try has renewed")
            held.check()

    @pytest.mark.parametrize("trouble", [LeaseStoreError("busy"), LeaseConfigurationError("no right"), LeaseError("?")])
    def test_any_error_of_the_library_is_one(self, lease: ScriptedLease, trouble: LeaseError) -> None:
        lease.renews.extend([trouble, True])
        with lease.hold() as held:
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew", "renew")
            held.check()

    def test_it_ends_at_the_deadline_and_is_a_loss_then(self, lease: ScriptedLease) -> None:
        lease.renews.extend([UNKNOWN] * 1_000)
        with pytest.raises(LeaseLost, match="its time has run out"), lease.hold() as held:
            lease.clock.advance(26.9)
            lease.wait_for("acquire", "renew")
            held.check()
            lease.clock.advance(0.1)
            assert held.lost.wait(PATIENCE_S)
            wait_until(lambda: not library_threads(), "both threads have ended")
        assert "release" not in lease.asked


class TestABug:
    @pytest.mark.parametrize("bug", [TypeError("a bug"), MemoryError(), SystemExit(3), KeyboardInterrupt()])
    def test_is_a_loss_at_once_with_the_cause(self, lease: ScriptedLease, bug: BaseException) -> None:
        heard = threading.Event()
        lease.renews.append(bug)
        with pytest.raises(LeaseLost, match=type(bug).__name__) as raised, lease.hold(on_lost=heard.set) as held:
            lease.clock.advance(10)
            assert heard.wait(PATIENCE_S)
            assert held.lost.cause is bug
            with pytest.raises(LeaseLost) as checked:
                held.check()
            assert checked.value.__cause__ is bug
            assert not lease.held
        assert raised.value.__cause__ is bug
        wait_until(lambda: not library_threads(), "both threads have ended")

    def test_of_the_log_while_a_failure_is_told_is_one_too(
        self, lease: ScriptedLease, broken_log: Callable[[], None]
    ) -> None:
        heard = threading.Event()
        lease.renews.append(UNKNOWN)
        with pytest.raises(LeaseLost), lease.hold(on_lost=heard.set) as held:
            broken_log()
            lease.clock.advance(10)
            assert heard.wait(PATIENCE_S)
            assert isinstance(held.lost.cause, TypeError)


class TestTheWatch:
    def test_brings_the_news_at_the_deadline_while_a_renewal_hangs(self, lease: ScriptedLease) -> None:
        gate = Gate()
        lease.renews.append(gate)
        heard = threading.Event()
        with pytest.raises(LeaseLost, match="its time has run out"), lease.hold(on_lost=heard.set):
            lease.clock.advance(10)
            gate.reached()
            lease.clock.advance(16.9)
            assert not heard.wait(0.03)
            lease.clock.advance(0.1)
            assert heard.wait(PATIENCE_S / 2)  # before the gate loses its own patience
            gate.open()

    def test_judges_before_anything_is_renewed_after_a_long_pause(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost), lease.hold() as held:
            lease.clock.advance(3_600)  # the machine slept
            with pytest.raises(LeaseLost):
                held.check()
            wait_until(lambda: not library_threads(), "both threads have ended")
        assert lease.asked == ["acquire"]


class TestMaxHold:
    def test_renewals_end_after_it_and_the_hold_runs_out(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost, match="its time has run out"), lease.hold(max_hold=15) as held:
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew")
            wait_until(lambda: held.remaining == 27, "the renewal has been believed")
            lease.clock.advance(10)
            wait_until(lambda: "sqllease-renew" not in library_threads(), "the renewing has ended")
            held.check()
            lease.clock.advance(17)
            assert held.lost.wait(PATIENCE_S)
        assert lease.asked == ["acquire", "renew"]

    def test_ensure_and_extend_do_not_get_around_it(self, lease: ScriptedLease) -> None:
        with lease.hold(max_hold=5, keep_alive=False) as held:
            held.ensure(27)
            lease.clock.advance(5)
            held.ensure(20)
            with pytest.raises(LeaseLost, match="not renewed any more"):
                held.ensure(27)
            with pytest.raises(LeaseLost, match="not renewed any more"):
                held.extend(60)
            held.check()


class TestEnsureAndExtend:
    def test_ensure_renews_only_when_less_is_left(self, lease: ScriptedLease) -> None:
        with lease.hold(keep_alive=False) as held:
            lease.clock.advance(7)
            held.ensure(20)
            assert lease.asked == ["acquire"]
            held.ensure(20.1)
            assert lease.asked == ["acquire", "renew"]
            assert held.remaining == 27

    @pytest.mark.parametrize("least", [0, 5])
    def test_ensure_of_a_lost_hold_is_lease_lost(self, lease: ScriptedLease, least: float) -> None:
        with pytest.raises(LeaseLost), lease.hold(keep_alive=False) as held:
            lease.clock.advance(27)
            with pytest.raises(LeaseLost):
                held.ensure(least)
        assert lease.asked == ["acquire"]

    def test_one_that_finds_the_lease_gone_is_a_loss(self, lease: ScriptedLease) -> None:
        lease.renews.append(False)
        with pytest.raises(LeaseLost, match="a renewal found it gone"), lease.hold(keep_alive=False) as held:
            held.ensure(28)

    def test_one_that_is_not_answered_raises_and_loses_nothing(self, lease: ScriptedLease) -> None:
        lease.renews.append(UNKNOWN)
        with lease.hold(keep_alive=False) as held:
            with pytest.raises(LeaseStoreError):
                held.ensure(28)
            held.check()

    def test_one_that_is_answered_after_the_deadline_is_lease_lost(self, lease: ScriptedLease) -> None:
        gate = Gate()
        lease.renews.append(gate)
        with pytest.raises(LeaseLost), lease.hold(keep_alive=False) as held:
            ensuring = in_background(lambda: held.ensure(28))
            gate.reached()
            lease.clock.advance(27)
            assert held.lost.is_set()
            gate.open()
            with pytest.raises(LeaseLost):
                ensuring.result(PATIENCE_S)
            assert not lease.held

    def test_over_is_over(self, lease: ScriptedLease) -> None:
        with lease.hold() as held:
            pass
        for ask in (held.check, lambda: held.ensure(1), lambda: held.extend(60)):
            with pytest.raises(LeaseLost, match="over"):
                ask()


class TestWithoutKeepAlive:
    def test_no_thread_runs(self, lease: ScriptedLease) -> None:
        with lease.hold(keep_alive=False):
            assert not library_threads()

    def test_nothing_is_renewed(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost), lease.hold(keep_alive=False):
            lease.clock.advance(27)
        assert lease.asked == ["acquire"]

    def test_whoever_waits_for_the_loss_hears_of_it_all_the_same(self, lease: ScriptedLease) -> None:
        heard: list[int] = []
        with pytest.raises(LeaseLost), lease.hold(keep_alive=False, on_lost=lambda: heard.append(1)) as held:
            waiting = in_background(lambda: held.lost.wait(PATIENCE_S))
            lease.clock.advance(27)
            assert waiting.result(PATIENCE_S)
        assert heard == [1]


def test_a_keeper_says_whether_it_runs(lease: ScriptedLease) -> None:
    with lease.hold(keep_alive=False) as held:
        keeper = KeepAlive(held, Pace.of(lease.options))
        assert keeper.running
        assert keeper.stop(PATIENCE_S)
        assert not keeper.running
        assert keeper.ended.done()
        assert not KeepAlive(held, None).running


def test_the_renewing_thread_may_stop_the_keeper_in_a_callback(lease: ScriptedLease) -> None:
    lease.renews.append(False)
    stopped: list[bool] = []
    with pytest.raises(LeaseLost), lease.hold(keep_alive=False) as held:
        keeper = KeepAlive(held, Pace.of(lease.options))
        held.lost.listen(lambda: stopped.append(keeper.stop(PATIENCE_S)))
        lease.clock.advance(10)
        wait_until(lambda: stopped, "the callback has run")
    assert stopped == [True]
