"""Turns: a semaphore for threads and loops alike. Fair, patient, and no turn is lost with who had waited for it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, TypeVar

import pytest

from sqllease.aio.turns import Turns

T = TypeVar("T")
PATIENCE_S = 20.0


async def settle() -> None:
    """Lets everything that can run in this loop run."""
    for _ in range(5):
        await asyncio.sleep(0)


def free(turns: Turns) -> int:
    """How many turns nobody has; leaves them as they are."""

    async def count() -> int:
        taken = 0
        while await turns.take(0):
            taken += 1
        for _ in range(taken):
            turns.give()
        return taken

    return in_thread(lambda: asyncio.run(count())).result(PATIENCE_S)


def in_thread(call: Callable[[], T]) -> Future[T]:
    """Runs the call in a thread of its own."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


@contextmanager
def another_loop() -> Iterator[Callable[[Coroutine[Any, Any, T]], Future[T]]]:
    """A loop that runs in another thread; gives what starts a coroutine there."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()
    try:
        yield lambda call: asyncio.run_coroutine_threadsafe(call, loop)
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE_S)
        loop.close()


def wait_for_line(turns: Turns, count: int) -> None:
    """Returns once so many wait, in whatever threads."""
    deadline = time.monotonic() + PATIENCE_S
    while sum(not turn.cancelled() for _, turn in list(turns._waiting)) < count:
        assert time.monotonic() < deadline
        time.sleep(0.001)


async def test_so_many_as_the_limit_get_a_turn_at_once() -> None:
    turns = Turns(2)
    assert [await turns.take(0), await turns.take(0), await turns.take(0)] == [True, True, False]


async def test_turns_are_given_first_come_first_served() -> None:
    turns, order = Turns(1), []

    async def worker(number: int) -> None:
        assert await turns.take()
        order.append(number)
        turns.give()

    await turns.take()
    workers = []
    for number in range(5):
        workers.append(asyncio.create_task(worker(number)))
        await settle()
    turns.give()
    await asyncio.gather(*workers)
    assert order == [0, 1, 2, 3, 4]
    assert free(turns) == 1


async def test_who_comes_while_others_wait_does_not_get_in_before_them() -> None:
    turns = Turns(1)
    await turns.take()
    first = asyncio.create_task(turns.take(PATIENCE_S))
    await settle()
    turns.give()  # the first one has not run yet
    assert await turns.take(0) is False
    assert await first is True


@pytest.mark.parametrize("patience", [0, 0.01])
async def test_who_has_waited_long_enough_is_told_no_and_takes_no_turn_with_it(patience: float) -> None:
    turns = Turns(1)
    await turns.take()
    assert await turns.take(patience) is False
    turns.give()
    assert free(turns) == 1


async def test_one_that_leaves_the_line_lets_the_next_come_up() -> None:
    turns = Turns(1)
    await turns.take()
    first, second = asyncio.create_task(turns.take(PATIENCE_S)), asyncio.create_task(turns.take(PATIENCE_S))
    await settle()
    first.cancel()
    await settle()
    turns.give()
    assert await second is True
    with pytest.raises(asyncio.CancelledError):
        await first


async def test_one_that_is_cancelled_in_the_moment_of_its_turn_hands_it_on() -> None:
    turns = Turns(1)
    await turns.take()
    first, second = asyncio.create_task(turns.take(PATIENCE_S)), asyncio.create_task(turns.take(PATIENCE_S))
    await settle()
    turns.give()  # it is the first one's now, but that has not run yet
    first.cancel()
    assert await second is True
    with pytest.raises(asyncio.CancelledError):
        await first
    turns.give()
    assert free(turns) == 1


@pytest.mark.parametrize("steps", range(6))
async def test_no_turn_is_lost_at_whatever_step_a_waiter_is_cancelled(steps: int) -> None:
    turns = Turns(1)
    await turns.take()
    waiter = asyncio.create_task(turns.take(PATIENCE_S))
    await settle()
    turns.give()
    for _ in range(steps):
        await asyncio.sleep(0)
    waiter.cancel()
    (outcome,) = await asyncio.gather(waiter, return_exceptions=True)
    if outcome is True:
        turns.give()
    assert free(turns) == 1


async def test_a_turn_goes_from_one_loop_to_another() -> None:
    turns = Turns(1)
    await turns.take()
    with another_loop() as start:
        elsewhere = start(turns.take(PATIENCE_S))
        wait_for_line(turns, 1)
        turns.give()
        assert await asyncio.wrap_future(elsewhere) is True
        here = asyncio.create_task(turns.take(PATIENCE_S))
        await settle()

        async def give() -> None:
            turns.give()

        start(give())
        assert await here is True


def test_two_loops_in_two_threads_never_have_more_turns_than_there_are() -> None:
    turns, inside, most = Turns(2), [0], [0]
    lock = threading.Lock()

    async def worker() -> None:
        for _ in range(20):
            assert await turns.take(PATIENCE_S)
            with lock:
                inside[0] += 1
                most[0] = max(most[0], inside[0])
            await asyncio.sleep(0)
            with lock:
                inside[0] -= 1
            turns.give()

    async def crowd() -> None:
        await asyncio.gather(*(worker() for _ in range(5)))

    for done in [in_thread(lambda: asyncio.run(crowd())) for _ in range(2)]:
        done.result(PATIENCE_S)
    assert most[0] <= 2
    assert free(turns) == 2


def test_a_thread_without_a_loop_waits_in_the_same_line() -> None:
    turns = Turns(1)
    assert turns.take_blocking(0.01) is True
    assert turns.take_blocking(0.01) is False

    async def take() -> bool:
        return await turns.take(PATIENCE_S)

    waiting = in_thread(lambda: asyncio.run(take()))
    wait_for_line(turns, 1)
    second = in_thread(lambda: turns.take_blocking(PATIENCE_S))
    wait_for_line(turns, 2)
    turns.give()
    assert waiting.result(PATIENCE_S) is True
    assert not second.done()
    turns.give()
    assert second.result(PATIENCE_S) is True
    turns.give()
    assert free(turns) == 1


def test_a_waiter_whose_loop_was_closed_takes_no_turn_with_it() -> None:
    turns = Turns(1)
    assert turns.take_blocking(0)
    loop = asyncio.new_event_loop()
    waiter = loop.create_task(turns.take(PATIENCE_S))
    loop.run_until_complete(settle())
    loop.close()
    turns.give()
    assert free(turns) == 1
    waiter._log_destroy_pending = False  # type: ignore[attr-defined]  # it was left behind on purpose
    waiter.get_coro().close()


def test_two_runs_one_after_the_other_share_it() -> None:
    turns = Turns(1)

    async def contend() -> list[bool]:
        async def once() -> bool:
            got = await turns.take(PATIENCE_S)
            await asyncio.sleep(0)
            turns.give()
            return got

        return await asyncio.gather(*(once() for _ in range(3)))

    assert asyncio.run(contend()) == asyncio.run(contend()) == [True] * 3
    assert free(turns) == 1
