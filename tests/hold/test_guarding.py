"""``@guarded`` functions, and ``assert_held`` for code deep inside a hold."""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import AsyncIterator, Iterator
from typing import Any, cast

import pytest

from sqllease import (
    AsyncLeaseStore,
    LeaseLost,
    LeaseNotAcquired,
    LeaseStore,
    LeaseValueError,
    Outcome,
    assert_held,
    guarded,
)
from tests.lease.bench import ACQUIRE, Bench
from tests.lease.support import PATIENCE_S, in_background

from .scripted import AsyncScriptedLease, ScriptedLease


@pytest.fixture
def store(bench: Bench) -> LeaseStore:
    return bench.store()


@pytest.fixture
async def awaited(bench: Bench) -> AsyncIterator[AsyncLeaseStore]:
    opened = AsyncLeaseStore(bench.dsn())
    yield opened
    await opened.aclose()


class TestGuardedFunctions:
    def test_a_call_runs_under_the_lease_and_returns_an_outcome(self, bench: Bench, store: LeaseStore) -> None:
        @guarded(store, "job")
        def add(one: int, *, two: int) -> int:
            """Adds."""
            assert assert_held("job").fencing_token
            assert len(bench.rows()) == 1
            return one + two

        assert add(1, two=2) == Outcome(True, 3)
        assert add.__doc__ == "Adds."
        assert not bench.rows()

    def test_calls_of_one_process_exclude_each_other(self, store: LeaseStore) -> None:
        inside, go_on = threading.Event(), threading.Event()

        @guarded(store, "job")
        def work() -> None:
            inside.set()
            assert go_on.wait(PATIENCE_S)

        first = in_background(work)
        assert inside.wait(PATIENCE_S)
        second = work()
        assert not second.ran
        assert second.holder is not None
        go_on.set()
        assert first.result(PATIENCE_S).ran

    def test_a_call_may_wait_for_its_turn(self, store: LeaseStore) -> None:
        @guarded(store, "job", timeout=PATIENCE_S, poll_interval=0.01)
        def work(turn: int) -> int:
            return turn

        calls = [in_background(lambda turn=turn: work(turn)) for turn in range(4)]  # type: ignore[misc]
        assert [call.result(PATIENCE_S).value for call in calls] == [0, 1, 2, 3]

    def test_its_error_comes_through(self, bench: Bench, store: LeaseStore) -> None:
        @guarded(store, "job")
        def work() -> None:
            raise LeaseNotAcquired("inside")

        with pytest.raises(LeaseNotAcquired, match="inside"):
            work()
        assert not bench.rows()

    def test_a_hold_at_least_skips_the_next_call(self, store: LeaseStore) -> None:
        @guarded(store, "job", hold_at_least=60)
        def work() -> int:
            return 1

        assert work().ran
        skipped = work()
        assert not skipped.ran
        assert skipped.holder is not None
        assert skipped.holder.resting

    def test_it_asks_nothing_before_it_is_called(self, bench: Bench, store: LeaseStore) -> None:
        @guarded(store, "job")
        def work() -> None: ...

        assert not bench.sent(ACQUIRE)


class TestGuardedCoroutines:
    async def test_a_call_runs_under_the_lease_and_returns_an_outcome(
        self, bench: Bench, awaited: AsyncLeaseStore
    ) -> None:
        @guarded(awaited, "job")
        async def add(one: int, two: int) -> int:
            assert assert_held("job").fencing_token
            return one + two

        assert await add(1, two=2) == Outcome(True, 3)
        assert not bench.rows()

    async def test_calls_of_one_loop_exclude_each_other(self, awaited: AsyncLeaseStore) -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()

        @guarded(awaited, "job")
        async def work() -> None:
            inside.set()
            await go_on.wait()

        first = asyncio.ensure_future(work())
        await inside.wait()
        assert not (await work()).ran
        go_on.set()
        assert (await first).ran


class TestWhatCannotWork:
    """Is refused when the function is decorated, not when it runs at night."""

    def test_a_coroutine_function_on_a_blocking_store(self, store: LeaseStore) -> None:
        async def work() -> None: ...

        with pytest.raises(LeaseValueError, match="AsyncLeaseStore"):
            guarded(store, "job")(work)

    async def test_a_plain_function_on_an_async_store(self, awaited: AsyncLeaseStore) -> None:
        def work() -> None: ...

        with pytest.raises(LeaseValueError, match="LeaseStore"):
            guarded(awaited, "job")(cast(Any, work))

    def test_a_generator_that_would_run_after_its_lease(self, store: LeaseStore) -> None:
        def work() -> Iterator[int]:
            yield 1

        with pytest.raises(LeaseValueError, match="generator"):
            guarded(store, "job")(work)

    async def test_an_async_generator(self, awaited: AsyncLeaseStore) -> None:
        async def work() -> AsyncIterator[int]:
            yield 1

        with pytest.raises(LeaseValueError, match="generator"):
            guarded(awaited, "job")(cast(Any, work))

    @pytest.mark.parametrize("store", [None, "DRIVER=x", object()])
    def test_what_is_no_store(self, store: object) -> None:
        with pytest.raises(LeaseValueError, match="store"):
            guarded(cast(LeaseStore, store), "job")

    def test_a_name_that_is_none_and_terms_that_contradict(self, store: LeaseStore) -> None:
        with pytest.raises(LeaseValueError):
            guarded(store, " job")
        with pytest.raises(LeaseValueError, match="timeout"):
            guarded(store, "job", timeout=-1)
        with pytest.raises(LeaseValueError, match="poll_interval"):
            guarded(store, "job", poll_interval=0)


class TestAssertHeld:
    def test_finds_the_hold_that_is_entered(self) -> None:
        with ScriptedLease().hold() as held:
            assert assert_held("job") is held

    def test_finds_none_outside_and_after(self) -> None:
        lease = ScriptedLease()
        for _ in range(2):
            with pytest.raises(LeaseLost, match="not held here"):
                assert_held("job")
            with lease.hold():
                pass

    def test_takes_no_other_lease_for_it(self) -> None:
        with ScriptedLease("other").hold(), pytest.raises(LeaseLost):
            assert_held("job")

    def test_is_lease_lost_when_the_hold_is_lost(self) -> None:
        lease = ScriptedLease()
        with pytest.raises(LeaseLost, match="run out"), lease.hold():
            lease.clock.advance(27)
            assert_held("job")

    def test_finds_each_of_nested_holds_in_whatever_order_they_are_left(self) -> None:
        outer, inner = ScriptedLease("outer").hold(), ScriptedLease("inner").hold()
        first, second = outer.__enter__(), inner.__enter__()
        assert (assert_held("outer"), assert_held("inner")) == (first, second)
        outer.__exit__(None, None, None)
        assert assert_held("inner") is second
        with pytest.raises(LeaseLost):
            assert_held("outer")
        inner.__exit__(None, None, None)
        with pytest.raises(LeaseLost):
            assert_held("inner")

    def test_finds_the_one_that_still_lasts_of_two_of_a_name(self) -> None:
        with ScriptedLease().hold() as outer:
            with ScriptedLease().hold() as inner:
                assert assert_held("job") is inner
            assert assert_held("job") is outer

    def test_a_context_that_was_copied_inside_passes_over_what_has_ended(self) -> None:
        with ScriptedLease().hold() as outer:
            with ScriptedLease().hold() as inner:
                copied = contextvars.copy_context()
                assert copied.run(assert_held, "job") is inner
            assert copied.run(assert_held, "job") is outer

    def test_a_thread_finds_it_only_with_a_copy_of_the_context(self) -> None:
        def found() -> bool:
            try:
                return assert_held("job").name == "job"
            except LeaseLost:
                return False

        with ScriptedLease().hold():
            assert not in_background(found).result(PATIENCE_S)
            copied = contextvars.copy_context()
            assert in_background(lambda: copied.run(found)).result(PATIENCE_S)
        assert not copied.run(found)

    async def test_tasks_and_threads_that_are_started_inside_find_it(self) -> None:
        async with AsyncScriptedLease().hold() as held:

            async def inside() -> None:
                assert assert_held("job") is held

            await asyncio.gather(inside(), asyncio.create_task(inside()))
            assert await asyncio.to_thread(assert_held, "job") is held

    async def test_a_task_that_outlives_the_hold_does_not(self) -> None:
        over = asyncio.Event()

        async def later() -> None:
            await over.wait()
            assert_held("job")

        async with AsyncScriptedLease().hold():
            task = asyncio.create_task(later())
        over.set()
        with pytest.raises(LeaseLost):
            await task

    async def test_tasks_beside_each_other_do_not_see_each_others(self) -> None:
        inside, go_on = asyncio.Event(), asyncio.Event()

        async def hold() -> None:
            async with AsyncScriptedLease().hold():
                inside.set()
                await go_on.wait()

        task = asyncio.create_task(hold())
        await inside.wait()
        with pytest.raises(LeaseLost):
            assert_held("job")
        go_on.set()
        await task
