"""The news that a hold was lost: set once, for good, never later than the clock, heard by everybody once."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator

import pytest

from sqllease.lost import Lost
from sqllease.testing import ManualClock
from tests.lease.support import PATIENCE_S, at_once, in_background


class Watched:
    """A ``Lost`` of a lease that ends at 10 s by the test's clock."""

    def __init__(self) -> None:
        self.clock = ManualClock(0.0)
        self.lost = Lost("job", "me", lambda: 10.0 - self.clock.now())


@pytest.fixture
def watched() -> Watched:
    return Watched()


@pytest.fixture
def broken_log() -> Iterator[None]:
    def fail(record: logging.LogRecord) -> bool:
        raise TypeError("a bug in a filter")

    log = logging.getLogger("sqllease")
    log.addFilter(fail)
    yield
    log.removeFilter(fail)


class TestTheClock:
    def test_it_is_not_lost_before_its_time(self, watched: Watched) -> None:
        watched.clock.advance(9.999)
        assert not watched.lost.is_set()

    def test_it_is_lost_at_its_time_without_any_timer(self, watched: Watched) -> None:
        watched.clock.advance(10)
        assert watched.lost.is_set()
        assert watched.lost.reason == "its time has run out"

    def test_a_lease_that_comes_back_does_not_bring_it_back(self, watched: Watched) -> None:
        watched.clock.advance(10)
        assert watched.lost.is_set()
        watched.clock = ManualClock(0.0)
        assert watched.lost.is_set()

    def test_whoever_asks_after_the_time_hears_yes_while_another_thread_is_still_telling(
        self, watched: Watched
    ) -> None:
        telling, told = threading.Event(), threading.Event()
        watched.lost.listen(telling.set)
        watched.lost.listen(lambda: told.wait(PATIENCE_S))
        watched.clock.advance(10)
        first = in_background(watched.lost.is_set)
        assert telling.wait(PATIENCE_S)
        assert watched.lost.is_set()
        told.set()
        assert first.result(PATIENCE_S)


class TestSettingIt:
    def test_the_first_reason_stays(self, watched: Watched) -> None:
        cause = TypeError()
        watched.lost.set("first", cause)
        watched.lost.set("second")
        assert (watched.lost.reason, watched.lost.cause) == ("first", cause)

    def test_it_is_logged_once_as_an_error(self, watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
        watched.lost.set("first")
        watched.lost.set("second")
        assert [record.levelname for record in caplog.records] == ["ERROR"]

    def test_it_is_not_logged_again_when_the_log_has_it(
        self, watched: Watched, caplog: pytest.LogCaptureFixture
    ) -> None:
        watched.lost.set("gone", told=True)
        assert not caplog.records

    def test_what_has_to_be_done_first_is_done_before_anybody_hears(self) -> None:
        heard: list[bool] = []
        lost = Lost("job", "me", lambda: 1.0, lambda: heard.append(lost.is_set()))
        lost.listen(lambda: heard.append(lost.is_set()))
        lost.set("gone")
        assert heard == [False, True]

    def test_many_threads_at_once_set_it_once(self, watched: Watched) -> None:
        heard: list[str] = []
        watched.lost.listen(lambda: heard.append(watched.lost.reason))
        at_once([lambda number=number: watched.lost.set(str(number)) for number in range(16)])  # type: ignore[misc]
        assert heard == [watched.lost.reason]


class TestListeners:
    def test_they_hear_in_their_order_and_once(self, watched: Watched) -> None:
        heard: list[int] = []
        for number in range(3):
            watched.lost.listen(lambda number=number: heard.append(number))  # type: ignore[misc]
        watched.lost.set("gone")
        watched.lost.set("gone")
        assert watched.lost.is_set()
        assert heard == [0, 1, 2]

    def test_one_that_comes_late_hears_at_once(self, watched: Watched) -> None:
        heard: list[int] = []
        watched.lost.set("gone")
        watched.lost.listen(lambda: heard.append(1))
        assert heard == [1]

    def test_one_that_was_taken_back_hears_nothing(self, watched: Watched) -> None:
        heard: list[int] = []

        def listener() -> None:
            heard.append(1)

        watched.lost.listen(listener)
        watched.lost.forget(listener)
        watched.lost.forget(listener)
        watched.lost.set("gone")
        assert not heard

    @pytest.mark.parametrize("bug", [ValueError, SystemExit])
    def test_a_bug_in_one_is_logged_and_keeps_nobody_from_hearing(
        self, watched: Watched, bug: type[BaseException], caplog: pytest.LogCaptureFixture
    ) -> None:
        def fail() -> None:
            raise bug("my bug")

        heard: list[int] = []
        watched.lost.listen(fail)
        watched.lost.listen(lambda: heard.append(1))
        watched.lost.set("gone")
        assert heard == [1]
        assert "callback failed" in caplog.text

    def test_ctrl_c_in_one_comes_through_and_the_others_hear(self, watched: Watched) -> None:
        def interrupted() -> None:
            raise KeyboardInterrupt

        heard: list[int] = []
        watched.lost.listen(interrupted)
        watched.lost.listen(lambda: heard.append(1))
        with pytest.raises(KeyboardInterrupt):
            watched.lost.set("gone")
        assert heard == [1]

    @pytest.mark.usefixtures("broken_log")
    def test_they_hear_although_the_log_is_broken(self, watched: Watched) -> None:
        heard: list[int] = []
        watched.lost.listen(lambda: 1 / 0)
        watched.lost.listen(lambda: heard.append(1))
        watched.lost.set("gone")
        assert heard == [1]

    def test_one_may_ask_whether_it_is_lost(self, watched: Watched) -> None:
        heard: list[bool] = []
        watched.lost.listen(lambda: heard.append(watched.lost.is_set()))
        watched.clock.advance(10)
        assert watched.lost.is_set()
        assert heard == [True]


class TestTheEnd:
    def test_a_hold_that_is_over_is_not_lost_any_more(self, watched: Watched) -> None:
        assert watched.lost.over()
        watched.clock.advance(10)
        watched.lost.set("too late")
        assert not watched.lost.is_set()

    def test_one_that_was_lost_stays_lost(self, watched: Watched) -> None:
        watched.lost.set("gone")
        assert not watched.lost.over()
        assert watched.lost.is_set()

    def test_an_interrupt_in_the_moment_of_the_loss_leaves_nobody_waiting(self, watched: Watched) -> None:
        def interrupted() -> None:
            raise KeyboardInterrupt

        lost = Lost("job", "me", lambda: 10.0 - watched.clock.now(), interrupted)
        with pytest.raises(KeyboardInterrupt):
            lost.set("gone")
        assert in_background(lost.over).result(PATIENCE_S) is False
        assert lost.is_set()

    def test_it_may_be_told_twice(self, watched: Watched) -> None:
        assert watched.lost.over()
        assert watched.lost.over()


class TestWaiting:
    def test_it_ends_when_another_thread_brings_the_news(self, watched: Watched) -> None:
        waiting = in_background(lambda: watched.lost.wait(PATIENCE_S))
        watched.lost.set("gone")
        assert waiting.result(PATIENCE_S)

    def test_it_ends_when_the_clock_says_so_without_any_thread_that_watches(self, watched: Watched) -> None:
        waiting = in_background(lambda: watched.lost.wait(2 * PATIENCE_S))
        watched.clock.advance(10)
        assert waiting.result(PATIENCE_S)

    def test_it_ends_with_its_patience(self, watched: Watched) -> None:
        assert not watched.lost.wait(0.01)
        assert not watched.lost.wait(0)

    def test_it_takes_no_news_of_a_hold_that_is_over(self, watched: Watched) -> None:
        watched.lost.over()
        watched.clock.advance(10)
        assert not watched.lost.wait(0.01)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_in_a_forked_child_it_is_lost_and_takes_no_lock(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    watched.lost._decided.acquire()
    watched.lost._event._cond.acquire()  # type: ignore[attr-defined]
    monkeypatch.setattr(os, "getpid", lambda: -1)
    assert watched.lost.is_set()
    assert watched.lost.wait()
