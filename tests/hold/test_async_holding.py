"""Holds under asyncio: the same promises, and those that only a loop can break."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import TypeVar

import pytest

from sqllease import (
    AsyncHold,
    AsyncLeaseStore,
    LeaseInUse,
    LeaseLost,
    LeaseNotAcquired,
    LeaseOptions,
    LeaseStoreError,
    Outcome,
)
from tests.lease.bench import ACQUIRE, RELEASE, RENEW, Bench
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import KEPT, AsyncScriptedLease, Gate, held_by, library_threads

T = TypeVar("T")


@pytest.fixture
def lease() -> AsyncScriptedLease:
    return AsyncScriptedLease()


@pytest.fixture
async def store(bench: Bench) -> AsyncIterator[AsyncLeaseStore]:
    opened = AsyncLeaseStore(bench.dsn())
    yield opened
    await opened.aclose()


async def seen(call: Callable[[], T]) -> T:
    """Runs what blocks on a thread of its own; the loop goes on."""
    return await asyncio.wrap_future(in_background(call))


class TestEnteringAndLeaving:
    async def test_a_quiet_hold_acquires_and_releases(self, lease: AsyncScriptedLease) -> None:
        async with lease.hold() as held:
            held.check()
            assert held.remaining == 27
        assert lease.asked == ["acquire", "release"]
        assert not lease.held

    async def test_a_hold_without_work_need_not_rest(self, store: AsyncLeaseStore, bench: Bench) -> None:
        async with store.lease("job").hold(hold_at_least=60) as held:
            held.skip_rest()
        assert not bench.rows()

    async def test_a_try_gives_none(self, lease: AsyncScriptedLease) -> None:
        lease.acquires.append(held_by())
        async with lease.try_hold() as held:
            assert held is None
        assert lease.asked == ["acquire"]

    async def test_a_timeout_of_zero_is_one_real_try(self, lease: AsyncScriptedLease) -> None:
        other = held_by()
        lease.acquires.append(other)
        with pytest.raises(LeaseNotAcquired) as raised:
            await lease.hold(timeout=0).__aenter__()
        assert raised.value.holder is other
        assert lease.asked == ["acquire"]

    async def test_it_comes_when_the_holder_has_to_be_done(self, lease: AsyncScriptedLease) -> None:
        lease.acquires.extend([held_by(remaining=0.01), held_by(remaining=0.01)])
        async with asyncio.timeout(PATIENCE_S):
            async with lease.hold(poll_interval=3600):
                assert lease.asked == ["acquire"] * 3

    async def test_the_bodys_error_comes_through_with_the_loss_as_a_note(self, lease: AsyncScriptedLease) -> None:
        lease.releases.append(False)
        with pytest.raises(ValueError, match="mine") as raised:
            async with lease.hold():
                raise ValueError("mine")
        assert len(raised.value.__notes__) == 1

    async def test_a_loss_alone_is_lease_lost(self, lease: AsyncScriptedLease) -> None:
        lease.releases.append(False)
        with pytest.raises(LeaseLost):
            async with lease.hold():
                pass

    async def test_a_bug_in_the_release_comes_out(self, lease: AsyncScriptedLease) -> None:
        lease.releases.append(TypeError("a bug"))
        with pytest.raises(TypeError, match="a bug"):
            async with lease.hold():
                pass

    async def test_a_release_that_is_not_answered_is_no_error(self, lease: AsyncScriptedLease) -> None:
        lease.releases.append(LeaseStoreError("down"))
        async with lease.hold() as held:
            pass
        assert not held.lost.is_set()

    async def test_a_second_hold_is_refused(self, lease: AsyncScriptedLease) -> None:
        async with lease.hold():
            with pytest.raises(LeaseInUse):
                await lease.hold().__aenter__()

    async def test_the_release_waits_for_the_renewal_in_flight_and_the_loop_goes_on(
        self, lease: AsyncScriptedLease
    ) -> None:
        gate = Gate()
        lease.renews.append(gate)

        async def work() -> None:
            async with lease.hold():
                lease.clock.advance(10)
                await seen(gate.reached)

        leaving = asyncio.create_task(work())
        await seen(gate.reached)
        for _ in range(20):
            await asyncio.sleep(0)
        assert lease.asked == ["acquire", "renew"]
        gate.open()
        await leaving
        assert lease.asked == ["acquire", "renew", "release"]

    async def test_a_renewal_that_hangs_past_the_deadline_is_given_up(self) -> None:
        from sqllease import SYSTEM_CLOCK

        lease = AsyncScriptedLease(duration=4, clock=SYSTEM_CLOCK)
        gate = Gate()
        lease.renews.append(gate)
        with pytest.raises(LeaseLost):
            async with lease.hold():
                await seen(gate.reached)
        gate.open()
        assert lease.asked == ["acquire", "renew"]
        await seen(lambda: wait_until(lambda: not library_threads(), "the late answer has come"))
        assert not lease.held


class TestTheLoss:
    async def test_is_heard_in_the_loop_although_a_thread_has_found_it(self, lease: AsyncScriptedLease) -> None:
        lease.renews.append(False)
        with pytest.raises(LeaseLost):
            async with lease.hold() as held:
                lease.clock.advance(10)
                assert await held.lost.wait(PATIENCE_S)

    async def test_is_heard_by_many_and_in_another_loop(self, lease: AsyncScriptedLease) -> None:
        lease.renews.append(False)
        with pytest.raises(LeaseLost):
            async with lease.hold() as held:
                waiting = [asyncio.create_task(held.lost.wait(PATIENCE_S)) for _ in range(3)]
                elsewhere = asyncio.create_task(seen(lambda: asyncio.run(held.lost.wait(PATIENCE_S))))
                await asyncio.sleep(0)
                lease.clock.advance(10)
                assert all(await asyncio.gather(*waiting, elsewhere))

    async def test_is_heard_without_any_thread(self, lease: AsyncScriptedLease) -> None:
        with pytest.raises(LeaseLost):
            async with lease.hold(keep_alive=False) as held:
                waiting = asyncio.create_task(held.lost.wait(PATIENCE_S))
                await asyncio.sleep(0)
                assert not library_threads()
                lease.clock.advance(27)
                assert await waiting

    async def test_a_wait_ends_with_its_patience_and_with_its_cancel(self, lease: AsyncScriptedLease) -> None:
        async with lease.hold() as held:
            assert not await held.lost.wait(0.01)
            waiting = asyncio.create_task(held.lost.wait())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting

    async def test_may_cancel_the_work(self, lease: AsyncScriptedLease) -> None:
        async def watch(held: AsyncHold, work: asyncio.Task[None]) -> None:
            await held.lost.wait()
            work.cancel()

        lease.renews.append(False)
        with pytest.raises(LeaseLost):
            async with lease.hold() as held:
                work: asyncio.Task[None] = asyncio.create_task(asyncio.sleep(3600))
                lease.clock.advance(10)
                async with asyncio.timeout(PATIENCE_S):
                    await asyncio.gather(watch(held, work), work, return_exceptions=True)
                assert work.cancelled()


class TestABlockedLoop:
    async def test_does_not_starve_the_renewals(self, lease: AsyncScriptedLease) -> None:
        async with lease.hold() as held:
            lease.clock.advance(10)
            lease.wait_for("acquire", "renew")  # nothing is awaited: the loop stands still
            wait_until(lambda: held.remaining == 27, "the renewal has been believed")

    async def test_does_not_keep_the_loss_from_being_told(self, lease: AsyncScriptedLease) -> None:
        heard = threading.Event()
        lease.renews.append(False)
        with pytest.raises(LeaseLost):
            async with lease.hold(on_lost=heard.set) as held:
                lease.clock.advance(10)
                assert heard.wait(PATIENCE_S)
                assert held.lost.is_set()

    async def test_with_an_awaited_renewal_in_flight_starves_no_renewal_either(
        self, bench: Bench, store: AsyncLeaseStore
    ) -> None:
        options = LeaseOptions(duration=6, command_timeout=1, lock_timeout=0.5)
        lease = store.lease("job", options=options, clock=bench.clock)
        async with lease.hold() as held:
            extending = asyncio.create_task(held.extend(6))
            await seen(lambda: bench.finished(bench.arrived(RENEW)))  # its answer waits for the loop
            bench.clock.advance(2)
            wait_until(lambda: len(bench.sent(RENEW)) == 2, "renewed")  # nothing is awaited: the loop stands still
            wait_until(lambda: held.remaining == pytest.approx(5.4), "the renewal has been believed")
            await extending

    async def test_of_one_lease_does_not_hold_up_the_renewals_of_another(
        self, bench: Bench, store: AsyncLeaseStore
    ) -> None:
        locked, free = (store.lease(name, options=KEPT, clock=bench.clock) for name in ("locked", "free"))
        async with locked.hold(), free.hold():
            with bench.kept_back(RENEW):
                bench.clock.advance(2)
                wait_until(lambda: len(bench.sent(RENEW)) == 2, "both have been sent, though the first has no answer")

    async def test_is_no_matter_on_the_wire_even_with_every_connection_taken(
        self, bench: Bench, store: AsyncLeaseStore
    ) -> None:
        lease = store.lease("job", options=KEPT, clock=bench.clock)
        others = [store.lease(f"other-{number}", options=KEPT) for number in range(4)]
        async with lease.hold() as held:
            trying = [asyncio.create_task(other.try_acquire()) for other in others]
            await seen(lambda: bench.server.log.wait_for(lambda request: len(bench.sent(ACQUIRE)) == 5))
            bench.clock.advance(2)
            bench.finished(bench.arrived(RENEW))
            wait_until(lambda: held.remaining == pytest.approx(5.4), "the renewal has been believed")
            assert all(await asyncio.gather(*trying))


class TestRunAndVerbs:
    async def test_run_tells_what_the_work_returned(self, lease: AsyncScriptedLease) -> None:
        async def work(held: AsyncHold) -> int:
            await held.ensure(28)
            return 7

        assert await lease.run(work) == Outcome(True, 7)
        assert lease.asked == ["acquire", "renew", "release"]

    async def test_or_for_whom_it_was_skipped(self, lease: AsyncScriptedLease) -> None:
        other = held_by()
        lease.acquires.append(other)

        async def work(held: AsyncHold) -> None:
            pytest.fail("ran")

        assert await lease.run(work) == Outcome(False, holder=other)

    async def test_a_not_acquired_of_the_work_comes_through(self, lease: AsyncScriptedLease) -> None:
        async def work(held: AsyncHold) -> None:
            raise LeaseNotAcquired("inside")

        with pytest.raises(LeaseNotAcquired, match="inside"):
            await lease.run(work)

    async def test_extend_and_ensure_on_the_wire(self, bench: Bench, store: AsyncLeaseStore) -> None:
        async with store.lease("job", options=KEPT, clock=bench.clock).hold() as held:
            await held.ensure(5)
            assert not bench.sent(RENEW)
            await held.extend(100)
            assert held.remaining == pytest.approx(99.4)

    async def test_raw_verbs_are_refused_while_it_lasts(self, bench: Bench, store: AsyncLeaseStore) -> None:
        lease = store.lease("job")
        verbs: list[Callable[[], Awaitable[bool]]] = [lease.try_acquire, lease.try_renew, lease.try_release]
        async with lease.hold():
            for verb in verbs:
                with pytest.raises(LeaseInUse):
                    await verb()
        assert len(bench.sent(ACQUIRE)) == len(bench.sent(RELEASE)) == 1

    async def test_a_hold_costs_one_question_in_and_one_out(self, bench: Bench, store: AsyncLeaseStore) -> None:
        lease = store.lease("job")
        async with lease.hold():
            pass
        bench.server.log.clear()
        async with lease.hold():
            pass
        assert bench.server.log.logins == 0
        assert bench.server.log.round_trips == 2


async def test_a_forgotten_hold_is_not_kept_alive(lease: AsyncScriptedLease) -> None:
    held = await lease.hold().__aenter__()
    del held
    began = time.monotonic()
    while library_threads():
        assert time.monotonic() < began + PATIENCE_S
        await asyncio.sleep(0.002)
    assert lease.asked == ["acquire"]


async def test_it_may_be_left_in_another_task_than_it_was_entered_in(lease: AsyncScriptedLease) -> None:
    stack = contextlib.AsyncExitStack()
    await asyncio.create_task(stack.enter_async_context(lease.hold()))
    await asyncio.create_task(stack.aclose())
    assert lease.asked == ["acquire", "release"]
