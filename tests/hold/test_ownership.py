"""One hold of an object at a time; a hold that was forgotten, and one that a fork has copied."""

from __future__ import annotations

import gc
import os
import signal
import sys
import threading
import weakref
from collections.abc import Callable

import pytest

from sqllease import LeaseInUse, LeaseLost, assert_held
from tests.lease.support import PATIENCE_S, at_once, wait_until

from .scripted import ScriptedLease, library_threads


@pytest.fixture
def lease() -> ScriptedLease:
    return ScriptedLease()


class TestOneHoldAtATime:
    def test_a_second_hold_of_the_same_object_is_refused(self, lease: ScriptedLease) -> None:
        with lease.hold(), pytest.raises(LeaseInUse), lease.hold():
            pytest.fail("entered")
        assert lease.asked == ["acquire", "release"]

    def test_so_is_a_try(self, lease: ScriptedLease) -> None:
        with lease.hold(), pytest.raises(LeaseInUse), lease.try_hold():
            pytest.fail("entered")

    def test_of_many_threads_that_enter_at_once_one_gets_in(self, lease: ScriptedLease) -> None:
        all_have_tried = threading.Barrier(8)
        switch = sys.getswitchinterval()

        def enter() -> bool:
            try:
                with lease.hold():
                    all_have_tried.wait(PATIENCE_S)
                    return True
            except LeaseInUse:
                all_have_tried.wait(PATIENCE_S)
                return False

        sys.setswitchinterval(1e-6)
        try:
            assert at_once([enter] * 8).count(True) == 1
        finally:
            sys.setswitchinterval(switch)

    def test_one_that_comes_while_another_is_just_entering_is_refused_and_does_not_wait(
        self, lease: ScriptedLease
    ) -> None:
        with lease._claiming, pytest.raises(LeaseInUse):
            lease.hold().__enter__()
        with lease.hold():
            pass

    def test_the_same_block_may_be_entered_again_later(self, lease: ScriptedLease) -> None:
        block = lease.hold()
        for _ in range(2):
            with block as held:
                held.check()
        assert lease.asked == ["acquire", "release"] * 2


class TestAForgottenHold:
    def test_is_not_kept_alive(self, lease: ScriptedLease) -> None:
        held = lease.hold().__enter__()
        seen = weakref.ref(held)
        del held
        assert seen() is None  # at once: a cycle would wait for the collector
        wait_until(lambda: not library_threads(), "the library's threads have ended")
        lease.clock.advance(10)
        assert lease.asked == ["acquire"]

    def test_does_not_keep_the_object_in_use(self, lease: ScriptedLease) -> None:
        held = lease.hold().__enter__()
        with pytest.raises(LeaseInUse):
            lease._refuse_when_claimed()
        del held
        gc.collect()
        lease._refuse_when_claimed()

    def test_is_one_whose_block_and_value_are_gone_not_only_the_value(self, lease: ScriptedLease) -> None:
        with lease.hold():
            gc.collect()
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew")


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning")
class TestInAForkedChild:
    def test_nothing_is_held_and_nobody_hangs(self, lease: ScriptedLease) -> None:
        with lease.hold() as held:
            assert in_child(lambda: held.lost.is_set() and held.lost.wait() and held.remaining == 0 and not lease.held)
            assert in_child(lambda: "forked" in str(error_of(held.check)))
            assert in_child(lambda: "forked" in str(error_of(lambda: assert_held("job"))))

    def test_a_block_that_ends_there_sends_nothing_and_says_why(self, lease: ScriptedLease) -> None:
        block = lease.hold()
        block.__enter__()

        def leave() -> bool:
            error = error_of(lambda: block.__exit__(None, None, None))
            return isinstance(error, LeaseLost) and "forked" in error.reason and lease.asked == ["acquire"]

        assert in_child(leave)
        block.__exit__(None, None, None)
        assert lease.asked == ["acquire", "release"]

    def test_a_lock_that_was_taken_at_the_fork_hangs_nobody(self, lease: ScriptedLease) -> None:
        block = lease.hold()
        held = block.__enter__()
        with held.lost._event._cond, held.lost._decided, lease._claiming, block._keeper._stop._cond:  # type: ignore[attr-defined]
            assert in_child(lambda: "forked" in str(error_of(lambda: block.__exit__(None, None, None))))
        block.__exit__(None, None, None)

    def test_the_parents_hold_goes_on(self, lease: ScriptedLease) -> None:
        with lease.hold() as held:
            assert in_child(lambda: True)
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew")
            held.check()


def error_of(call: Callable[[], object]) -> BaseException | None:
    try:
        call()
    except LeaseLost as error:
        return error
    return None


def in_child(question: Callable[[], bool]) -> bool:
    """Asks in a forked child, which has ten seconds; False when the answer was False, or the child came to grief."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            signal.alarm(10)
            code = 0 if question() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def test_threads_of_a_hold_end_with_it(lease: ScriptedLease) -> None:
    with lease.hold():
        assert library_threads() == ["sqllease-renew", "sqllease-watch"]
    wait_until(lambda: not library_threads(), "they have ended")
