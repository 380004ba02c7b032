"""The scheduler: one thread, tasks in greenlets, switches only where they are allowed and as the seed says."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from sqllease.testing.server.clock import ServerClock
from sqllease.testing.server.scheduler import Scheduler


class Stopped(BaseException):
    pass


def make(seed: int = 0, probability: float = 0.0) -> Scheduler:
    clock = ServerClock()
    clock.freeze()
    scheduler = Scheduler(clock, seed)
    scheduler.switch_probability = probability
    return scheduler


def counting(scheduler: Scheduler, seen: list[str], name: str) -> Callable[[], None]:
    def run() -> None:
        for step in range(5):
            seen.append(f"{name}{step}")
            scheduler.pause()

    return run


def order(seed: int, probability: float) -> list[str]:
    scheduler, seen = make(seed, probability), list[str]()
    for name in "abc":
        scheduler.spawn(counting(scheduler, seen, name))
    scheduler.run()
    return seen


def test_a_task_is_done_when_its_function_has_returned() -> None:
    scheduler = make()
    task = scheduler.spawn(lambda: None)
    assert not task.done
    scheduler.run()
    assert task.done
    assert task.error is None


def test_the_same_seed_gives_the_same_order_and_another_seed_another_one() -> None:
    assert order(1, 0.5) == order(1, 0.5)
    assert len({tuple(order(seed, 0.5)) for seed in range(20)}) > 10


def test_with_probability_zero_a_pause_lets_nobody_in() -> None:
    assert all(run[i][0] == run[i - i % 5][0] for seed in range(5) for run in [order(seed, 0)] for i in range(15))


def test_with_probability_one_a_pause_always_lets_another_one_in() -> None:
    for seed in range(5):
        run = order(seed, 1)
        assert all(run[i][0] != run[i + 1][0] for i in range(8))  # afterwards the first one may have ended


def test_a_pause_outside_a_task_does_nothing() -> None:
    make(probability=1).pause()


def test_waiting_outside_a_task_is_a_mistake() -> None:
    with pytest.raises(RuntimeError, match="only a task"):
        make().block(None)


def test_a_waiting_task_goes_on_when_it_is_woken() -> None:
    scheduler, answers = make(), list[bool]()
    task = scheduler.spawn(lambda: answers.append(scheduler.block(None)))
    scheduler.run()
    assert not task.done
    scheduler.wake(task)
    scheduler.run()
    assert answers == [True]


def test_a_wait_ends_at_its_time_on_the_servers_clock() -> None:
    scheduler, answers = make(), list[bool]()
    scheduler.spawn(lambda: answers.append(scheduler.block(3000)))
    scheduler.run()
    scheduler.clock.advance(2.999)
    scheduler.clock.run_due()
    scheduler.run()
    assert answers == []
    scheduler.clock.advance(0.001)
    scheduler.clock.run_due()
    scheduler.run()
    assert answers == [False]


def test_a_wait_may_count_from_before_it_began() -> None:
    scheduler, answers = make(), list[bool]()
    seen_to_wait = scheduler.clock.ticks()
    scheduler.clock.advance(3)
    scheduler.spawn(lambda: answers.append(scheduler.block(3000, since=seen_to_wait)))
    scheduler.run()
    scheduler.clock.run_due()
    scheduler.run()
    assert answers == [False]


def test_a_wait_that_was_ended_leaves_no_timer() -> None:
    scheduler = make()
    task = scheduler.spawn(lambda: scheduler.block(1000))
    scheduler.run()
    scheduler.wake(task)
    scheduler.run()
    scheduler.clock.advance(2)
    assert scheduler.clock.next_due() is None


def test_an_interrupt_is_raised_in_the_wait() -> None:
    scheduler, caught = make(), list[str]()

    def run() -> None:
        try:
            scheduler.block(None)
        except Stopped:
            caught.append("in the wait")
        scheduler.pause()

    task = scheduler.spawn(run)
    scheduler.run()
    task.interrupt(Stopped())
    scheduler.run()
    assert caught == ["in the wait"]
    assert task.done
    assert task.error is None


def test_an_interrupt_of_a_runnable_task_is_raised_at_its_next_pause() -> None:
    scheduler, seen = make(probability=1), list[str]()
    first = scheduler.spawn(counting(scheduler, seen, "a"))
    scheduler.spawn(lambda: first.interrupt(Stopped()))
    scheduler.run()
    assert len(seen) <= 1
    assert isinstance(first.error, Stopped)


def test_an_error_stays_in_its_task_and_the_others_go_on() -> None:
    scheduler = make()
    bad = scheduler.spawn(lambda: 1 // 0)
    good = scheduler.spawn(lambda: None)
    ended = list[str]()
    bad.on_done = lambda: ended.append("bad")
    scheduler.run()
    assert isinstance(bad.error, ZeroDivisionError)
    assert good.done
    assert ended == ["bad"]


def test_a_task_may_start_another_one_and_end_before_it() -> None:
    scheduler, seen = make(), list[str]()

    def parent() -> None:
        scheduler.spawn(lambda: seen.append("child"))
        seen.append("parent")

    scheduler.spawn(parent)
    scheduler.run()
    assert seen == ["parent", "child"]


def test_the_owner_is_told_when_there_is_something_to_run() -> None:
    scheduler, calls = make(), list[str]()
    scheduler.on_ready = lambda: calls.append("ready")
    task = scheduler.spawn(lambda: scheduler.block(None))
    assert calls == ["ready"]
    scheduler.run()
    scheduler.wake(task)
    assert calls == ["ready", "ready"]
