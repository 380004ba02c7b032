"""Loops and threads: bound to no loop, in nobody's way, and gone when the program ends."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyodbc
import pytest

from sqllease import AsyncLeaseStore, AsyncSqlLease, LeaseConfigurationError
from sqllease.testing import LocalSqlServer
from tests.lease.support import at_once

from .desk import ACQUIRE, RELEASE, RENEW, SLOW, Desk, until
from .programs import run_text

MANY = 200


# --- no loop of its own ---


def test_stores_and_leases_are_made_where_no_loop_runs_and_used_in_one(desk: Desk) -> None:
    store = desk.store()
    lease, own = store.lease("job", options=SLOW), AsyncSqlLease("own", desk.dsn, options=SLOW)
    assert (lease.held, lease.remaining, lease.expires_at) == (False, 0.0, None)
    assert desk.server.log.requests == []

    async def work() -> list[bool]:
        won = [await lease.try_acquire(), await own.try_acquire()]
        await own.aclose()
        await store.aclose()
        return won

    assert asyncio.run(work()) == [True, True]
    assert lease.held


def test_two_runs_in_a_row_share_one_login(desk: Desk) -> None:
    store = desk.store()
    lease = store.lease("job", options=SLOW)
    assert asyncio.run(lease.try_acquire()) is True
    token = lease.fencing_token
    assert asyncio.run(lease.try_renew()) is True
    assert asyncio.run(lease.try_acquire()) is True
    assert lease.fencing_token == token
    assert asyncio.run(lease.try_release()) is True
    assert desk.server.log.logins == 1
    asyncio.run(store.aclose())


def test_a_run_that_ends_in_the_middle_of_a_call_takes_nothing_from_the_next(desk: Desk) -> None:
    store = desk.store(max_connections=1)
    lease, other = store.lease("job", options=SLOW), store.lease("job", options=SLOW)
    kept_back = desk.server.faults.hold("before", matching=ACQUIRE)

    async def leave() -> None:
        calls = [asyncio.ensure_future(call) for call in (lease.try_acquire(), lease.try_acquire(), store.get("job"))]
        await until(kept_back.held.is_set, "the acquire has come")
        assert not any(call.done() for call in calls)

    asyncio.run(leave())
    kept_back.release()

    async def go_on() -> None:
        await desk.settle()
        assert await other.try_acquire() is True
        assert await lease.try_acquire() is False
        await desk.settle()

    asyncio.run(go_on())


def test_one_store_serves_two_loops_in_two_threads_at_once(desk: Desk) -> None:
    store = desk.store(max_connections=2)

    async def work(name: str) -> list[bool]:
        lease, common = store.lease(name, options=SLOW), store.lease("common", options=SLOW)
        won = [await lease.try_acquire()]
        for _ in range(20):
            won += [await lease.try_renew()]
            if await common.try_acquire():
                won += [common.held, await common.try_release()]
        return [*won, await lease.try_release()]

    answers = at_once([lambda: asyncio.run(work("one")), lambda: asyncio.run(work("two"))])
    assert all(all(won) for won in answers)
    assert desk.server.log.logins <= 2
    asyncio.run(store.aclose())


def test_one_lease_object_used_from_two_loops_at_once_is_one_owner(desk: Desk) -> None:
    lease = desk.store().lease("job", options=SLOW)

    async def work() -> set[int | None]:
        tokens = set()
        for _ in range(10):
            assert await lease.try_acquire()
            tokens.add(lease.fencing_token)
        return tokens

    one, two = at_once([lambda: asyncio.run(work())] * 2)
    assert len(one | two) == 1
    asyncio.run(lease._store.aclose())


# --- the default executor ---


@pytest.fixture
def jammed() -> Iterator[ThreadPoolExecutor]:
    """An executor whose one thread is busy until the end of the test."""
    go_on = threading.Event()
    executor = ThreadPoolExecutor(1, thread_name_prefix="jammed")
    executor.submit(go_on.wait)
    yield executor
    go_on.set()
    executor.shutdown()


async def test_no_call_waits_behind_a_default_executor_that_is_jammed(
    store: AsyncLeaseStore, jammed: ThreadPoolExecutor
) -> None:
    loop = asyncio.get_running_loop()
    loop.set_default_executor(jammed)
    behind_it = loop.run_in_executor(None, threading.get_ident)
    lease = store.lease("job", options=SLOW)
    assert [await lease.try_acquire(), await lease.try_renew()] == [True, True]
    assert [info.name for info in await store.list()] == ["job"]
    assert await lease.try_release() is True
    await store.aclose()
    assert not behind_it.done()
    behind_it.cancel()


async def test_many_leases_of_one_store_are_renewed_together_over_its_few_connections(desk: Desk) -> None:
    store = desk.store(max_connections=4)
    leases = [store.lease(f"job {number}", options=SLOW) for number in range(MANY)]
    assert await asyncio.gather(*(lease.try_acquire() for lease in leases)) == [True] * MANY
    assert await asyncio.gather(*(lease.try_renew() for lease in leases)) == [True] * MANY
    assert len(desk.sent(RENEW)) == MANY
    assert 1 <= desk.server.log.logins <= 4
    # The loop's own executor would call its threads asyncio_0, asyncio_1, ...
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("asyncio")]
    await store.aclose()


# --- aioodbc ---


async def test_a_callable_connection_needs_no_aioodbc(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aioodbc", None)
    store = AsyncLeaseStore(lambda: pyodbc.connect(desk.dsn, autocommit=True))
    lease = store.lease("job", options=SLOW)
    assert [await lease.try_acquire(), await lease.try_renew(), await lease.try_release()] == [True] * 3
    await store.aclose()


async def test_a_connection_string_without_aioodbc_is_refused_with_what_to_install(
    store: AsyncLeaseStore, desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    lease = store.lease("job", options=SLOW)
    with monkeypatch.context() as missing:
        missing.setitem(sys.modules, "aioodbc", None)
        for call in (lease.try_acquire, store.list):
            with pytest.raises(LeaseConfigurationError, match=r"pip install 'sqllease\[aio\]'") as caught:
                await call()
            assert caught.value.__cause__ is None
    assert desk.server.log.logins == 0
    assert await lease.try_acquire() is True


# --- whole programs ---

USES_A_LEASE = """
    import asyncio, sys, time
    from sqllease import AsyncLeaseStore, LeaseOptions

    async def work(store):
        asyncio.get_running_loop().slow_callback_duration = 2  # a busy machine alone may take half a second
        lease = store.lease("job", options=LeaseOptions(duration=400, command_timeout=30))
        for verb in (lease.try_acquire, lease.try_renew, lease.try_acquire, lease.try_release, lease.try_acquire):
            assert await verb() is True
        assert await store.get("job") is not None
        if "cancel" in sys.argv:
            for _ in range(3):
                renew = asyncio.ensure_future(lease.try_renew())
                await asyncio.sleep(0.0005)
                renew.cancel()
                await asyncio.wait([renew])
        if "close" in sys.argv:
            await store.aclose()

    store = AsyncLeaseStore(sys.argv[1])
    asyncio.run(work(store))
    if "twice" in sys.argv:
        asyncio.run(store.list())
    print(time.monotonic(), flush=True)
"""
DRIVERS_TIMEOUT_S = 30


@pytest.mark.parametrize("ending", [("close",), (), ("cancel", "twice")], ids="+".join)
def test_a_program_ends_at_once_and_warns_of_nothing(desk: Desk, ending: tuple[str, ...]) -> None:
    out, err = run_text(USES_A_LEASE, desk.dsn, *ending, options=("-X", "dev", "-W", "error"))
    assert err == ""
    assert time.monotonic() - float(out) < DRIVERS_TIMEOUT_S / 3


def test_no_step_of_ours_holds_up_the_loop(desk: Desk) -> None:
    for text in (ACQUIRE, RENEW, RELEASE):
        desk.server.faults.delay(3, matching=text)
    assert run_text(USES_A_LEASE, desk.dsn, "close", PYTHONASYNCIODEBUG="1")[1] == ""


STUCK_IN_A_LOGIN = """
    import asyncio, sys, time
    from sqllease import AsyncSqlLease, LeaseOptions

    async def work():
        lease = AsyncSqlLease("job", sys.argv[1], options=LeaseOptions(duration=3600))  # a login may take ten minutes
        try:
            await asyncio.wait_for(lease.try_acquire(), 0.5)
        except TimeoutError:
            print(time.monotonic(), flush=True)

    asyncio.run(work())
"""


def test_a_program_whose_login_hangs_can_end(desk: Desk) -> None:
    desk.server.faults.silence("login")
    out, err = run_text(STUCK_IN_A_LOGIN, desk.dsn)
    assert err == ""
    assert time.monotonic() - float(out) < DRIVERS_TIMEOUT_S / 3


ASKS_AT_EXIT = """
    import asyncio, atexit, sys
    from sqllease import AsyncLeaseStore

    store = AsyncLeaseStore(sys.argv[1])
    lease = store.lease("job")
    atexit.register(lambda: print(asyncio.run(lease.try_release())))
    assert asyncio.run(lease.try_acquire())
"""


def test_what_is_asked_in_an_atexit_handler_is_answered(desk: Desk) -> None:
    assert run_text(ASKS_AT_EXIT, desk.dsn) == ("True\n", "")
    assert desk.rows() == []


def test_importing_the_library_starts_no_thread_and_loads_no_aioodbc() -> None:
    program = """
        import sys, threading
        import sqllease
        store = sqllease.AsyncLeaseStore("DRIVER=x;SERVER=y")
        store.lease("job")
        print(threading.active_count(), "aioodbc" in sys.modules)
    """
    assert run_text(program) == ("1 False\n", "")


# --- a restart ---


async def test_after_a_restart_no_call_fails_though_all_connections_were_cut(
    desk: Desk, server: LocalSqlServer, store: AsyncLeaseStore
) -> None:
    leases = [store.lease(f"job {number}", options=SLOW) for number in range(4)]
    assert await asyncio.gather(*(lease.try_acquire() for lease in leases)) == [True] * 4
    server.drop_links()
    assert [await lease.try_renew() for lease in leases] == [True] * 4
