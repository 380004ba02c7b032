"""A cancel, or Ctrl-C, at any moment of a hold: nothing is left behind, and the release is not lost with the task."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from sqllease import AsyncLeaseStore, AsyncSqlLease, LeaseOptions
from sqllease.aio.holding import AsyncHoldable
from tests.lease.bench import ACQUIRE, RELEASE, RENEW, Bench
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import AsyncScriptedLease, Gate, library_threads

SLOW = LeaseOptions(duration=400, command_timeout=30)
"""Time-outs so long that what ends earlier has not waited for them."""
SOON_S = 10.0
"""Far less than the command time-out, on a busy machine too."""


@pytest.fixture
async def store(bench: Bench) -> AsyncIterator[AsyncLeaseStore]:
    opened = AsyncLeaseStore(bench.dsn())
    yield opened
    await opened.aclose()


@pytest.fixture
def lease(store: AsyncLeaseStore) -> AsyncSqlLease:
    return store.lease("job", options=SLOW)


async def arrived(bench: Bench, text: str) -> None:
    await asyncio.wrap_future(in_background(lambda: bench.arrived(text)))


async def no_rows(bench: Bench) -> None:
    await asyncio.wrap_future(in_background(lambda: wait_until(lambda: not bench.rows(), "the row is gone")))


class Body:
    """A task that holds the lease until it is cancelled, or the test lets it go."""

    def __init__(self, lease: AsyncHoldable) -> None:
        self.inside, self.go_on = asyncio.Event(), asyncio.Event()
        self.task = asyncio.create_task(self._work(lease))

    async def _work(self, lease: AsyncHoldable) -> None:
        async with lease.hold():
            self.inside.set()
            await self.go_on.wait()


async def cancelled(task: asyncio.Task[None]) -> float:
    """Waits for the end of the task, which must be its cancel; seconds that it took."""
    began = time.monotonic()
    await asyncio.wait([task], timeout=PATIENCE_S)
    assert task.cancelled()
    return time.monotonic() - began


async def test_of_the_body_releases_before_the_task_ends(bench: Bench, lease: AsyncSqlLease) -> None:
    body = Body(lease)
    await body.inside.wait()
    body.task.cancel()
    await cancelled(body.task)
    assert not bench.rows()


async def test_twice_in_a_row_too(bench: Bench, lease: AsyncSqlLease) -> None:
    body = Body(lease)
    await body.inside.wait()
    with bench.kept_back(RELEASE) as release:
        body.task.cancel()
        await arrived(bench, RELEASE)
        body.task.cancel()
        await asyncio.sleep(0)
        body.task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not body.task.done()
        release.release()
        await cancelled(body.task)
    assert not bench.rows()
    assert len(bench.sent(RELEASE)) == 1


async def test_during_the_release_lets_it_end_and_is_not_lost(bench: Bench, lease: AsyncSqlLease) -> None:
    body = Body(lease)
    await body.inside.wait()
    with bench.kept_back(RELEASE) as release:
        body.go_on.set()
        await arrived(bench, RELEASE)
        body.task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        release.release()
        await cancelled(body.task)
    assert not bench.rows()
    assert len(bench.sent(RELEASE)) == 1


async def test_of_the_release_by_a_closing_loop_sends_it_another_way(bench: Bench, lease: AsyncSqlLease) -> None:
    body = Body(lease)
    await body.inside.wait()
    before = asyncio.all_tasks()
    with bench.kept_back(RELEASE):
        body.go_on.set()
        await arrived(bench, RELEASE)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            if task is body.task or task not in before:
                task.cancel()
        await cancelled(body.task)
        await no_rows(bench)


async def test_of_a_release_that_hangs_ends_the_task_all_the_same(
    bench: Bench, lease: AsyncSqlLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sqllease.aio import holding

    monkeypatch.setattr(holding, "RELEASE_PATIENCE_S", 0.1)
    body = Body(lease)
    await body.inside.wait()
    bench.server.faults.silence(matching=RELEASE)
    body.task.cancel()
    await arrived(bench, RELEASE)
    body.task.cancel()
    assert await cancelled(body.task) < SOON_S
    await no_rows(bench)


async def test_twice_while_a_renewal_hangs_sends_the_release_and_ends_the_tenure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from sqllease.aio import holding

    monkeypatch.setattr(holding, "RELEASE_PATIENCE_S", 0.1)
    lease, gate = AsyncScriptedLease(), Gate()
    lease.renews.append(gate)
    body = Body(lease)
    await body.inside.wait()
    lease.clock.advance(10)
    await asyncio.to_thread(gate.reached)
    body.task.cancel()
    await asyncio.sleep(0)
    body.task.cancel()
    await cancelled(body.task)
    await asyncio.to_thread(lease.wait_for, "acquire", "renew", "release behind")
    gate.open()
    await asyncio.to_thread(wait_until, lambda: not library_threads(), "the renewal has been answered")
    assert not lease.held


async def test_while_waiting_leaves_nothing_behind(bench: Bench, store: AsyncLeaseStore, lease: AsyncSqlLease) -> None:
    other = store.lease("job", options=SLOW)
    assert await other.try_acquire()
    body = Body(lease)
    await asyncio.wrap_future(
        in_background(lambda: bench.server.log.wait_for(lambda request: len(bench.sent(ACQUIRE)) == 2))
    )
    body.task.cancel()
    await cancelled(body.task)
    assert await other.try_release()
    async with lease.hold(timeout=0):
        assert bench.row().owner == lease.owner_id


async def test_while_the_acquire_is_on_its_way_leaves_no_row(bench: Bench, lease: AsyncSqlLease) -> None:
    with bench.kept_back(ACQUIRE, "after"):
        body = Body(lease)
        await arrived(bench, ACQUIRE)
        body.task.cancel()
        await cancelled(body.task)
    await no_rows(bench)
    async with lease.hold():
        pass


async def test_while_a_renewal_is_in_flight_waits_for_it_and_releases(bench: Bench, store: AsyncLeaseStore) -> None:
    lease = store.lease("job", options=SLOW, clock=bench.clock)
    body = Body(lease)
    await body.inside.wait()
    with bench.kept_back(RENEW) as renewal:
        bench.clock.advance(140)
        await arrived(bench, RENEW)
        body.task.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not bench.sent(RELEASE)
        renewal.release()
        await cancelled(body.task)
    assert not bench.rows()


async def test_by_a_failing_sibling_releases(bench: Bench, lease: AsyncSqlLease) -> None:
    inside = asyncio.Event()

    async def work() -> None:
        async with lease.hold():
            inside.set()
            await asyncio.Event().wait()

    async def fail() -> None:
        await inside.wait()
        raise ValueError("the sibling's")

    with pytest.raises(ExceptionGroup) as raised:
        async with asyncio.TaskGroup() as group:
            group.create_task(work())
            group.create_task(fail())
    assert [str(error) for error in raised.value.exceptions] == ["the sibling's"]
    assert not bench.rows()


async def test_by_a_timeout_around_it_releases_and_is_a_timeout(bench: Bench, lease: AsyncSqlLease) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            async with lease.hold():
                await asyncio.Event().wait()
    assert not bench.rows()


PROGRAM = """
    import asyncio, sys
    from sqllease import AsyncLeaseStore, SqlLease

    where, dsn = sys.argv[1:]

    async def hold(store):
        async with store.lease("job").hold():
            print("inside", flush=True)
            await asyncio.Event().wait()

    async def main():
        store = AsyncLeaseStore(dsn)
        if where == "the main task":
            await hold(store)
        else:
            task = asyncio.create_task(hold(store))
            await asyncio.Event().wait()

    def block():
        with SqlLease("job", dsn).hold() as held:
            print("inside", flush=True)
            held.lost.wait()

    try:
        block() if where == "no loop" else asyncio.run(main())
    except KeyboardInterrupt:
        print("interrupted", flush=True)
"""


@pytest.mark.skipif(not hasattr(os, "kill") or sys.platform == "win32", reason="no SIGINT to send")
@pytest.mark.parametrize("where", ["the main task", "another task", "no loop"])
def test_by_ctrl_c_frees_the_lease_and_does_not_leave_it_to_expire(bench: Bench, where: str) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(PROGRAM), where, bench.dsn()],
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "inside\n"
        assert len(bench.rows()) == 1
        program.send_signal(signal.SIGINT)
        wait_until(lambda: not bench.rows(), "the row is gone")  # an expired row would stay
        assert program.stdout.read() == "interrupted\n"
        assert program.wait(PATIENCE_S) == 0
    finally:
        program.kill()
        program.communicate()
