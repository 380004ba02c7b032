"""Cancels where the link is the trouble: silent, dead, cut, or still logging in. Played by ``cancelling``."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Awaitable, Callable

import pyodbc

from sqllease import LeaseOptions

from .desk import ACQUIRE, SLOW, Desk, ended_by_cancel, until

FOR_EVER = 10**6


async def on_a_silent_link_wait_for_ends_on_time_and_the_next_call_does_not_wait_for_it(desk: Desk) -> None:
    lease, other = desk.contenders(options=LeaseOptions(duration=400, command_timeout=3))
    desk.server.faults.silence("before", matching=ACQUIRE)
    began = time.monotonic()
    try:
        await asyncio.wait_for(lease.try_acquire(), 0.3)
    except TimeoutError:
        pass
    else:
        raise AssertionError("no TimeoutError")
    assert await lease.try_acquire() is True
    # The driver itself comes back after two or three times the command time-out.
    assert time.monotonic() - began < 2 * 3
    assert await other.try_acquire() is False
    desk.server.drop_links()


async def around_a_host_that_never_answers_wait_for_ends_before_the_login_does(desk: Desk) -> None:
    with socket.socket() as dead:
        dead.bind(("127.0.0.1", 0))
        dead.listen(8)
        address = f"127.0.0.1,{dead.getsockname()[1]}"
        dsn = desk.dsn.replace(f"127.0.0.1,{desk.server.port}", address).replace(
            f"PORT={desk.server.port}", f"PORT={dead.getsockname()[1]}"
        )
        assert dsn != desk.dsn
        lease = desk.store(dsn, login_timeout=4).lease("job", options=SLOW)
        for _ in range(2):
            began = time.monotonic()
            try:
                async with asyncio.timeout(0.2):
                    await lease.try_acquire()
            except TimeoutError:
                assert time.monotonic() - began < 4
            else:
                raise AssertionError("no TimeoutError")


async def in_the_login_it_is_obeyed_at_once_and_the_next_call_logs_in_anew(desk: Desk) -> None:
    lease, _ = desk.contenders(options=LeaseOptions(duration=60, command_timeout=3))  # so a login may take 10 s
    desk.server.faults.silence("login")
    asking = asyncio.create_task(lease.try_acquire())
    await until(lambda: desk.server.log.logins, "the login has come")
    assert await ended_by_cancel(asking) < 5
    assert await lease.try_acquire() is True
    assert len(desk.sent(ACQUIRE)) == 1
    desk.server.drop_links()


async def a_login_that_succeeds_after_all_is_closed_and_nothing_is_sent_on_it(desk: Desk) -> None:
    asked, go_on = threading.Event(), threading.Event()

    def connect() -> pyodbc.Connection:
        asked.set()
        go_on.wait(20)
        return pyodbc.connect(desk.dsn, autocommit=True, timeout=5)

    store = desk.store(connect)
    asking = asyncio.create_task(store.lease("job", options=SLOW).try_acquire())
    await until(asked.is_set, "a connection is asked for")
    await ended_by_cancel(asking)
    assert not go_on.is_set()
    go_on.set()
    await until(lambda: desk.server.log.logins, "the login has come")
    await desk.settle()
    assert desk.sent(ACQUIRE) == []
    assert desk.rows() == []


async def a_link_that_is_cut_after_the_cancel_leaves_no_row(desk: Desk) -> None:
    for when in ("before", "after"):
        lease, other = desk.contenders()
        kept_back = desk.server.faults.hold(when, matching=ACQUIRE)
        asking = asyncio.create_task(lease.try_acquire())
        await until(kept_back.held.is_set, "the acquire has come")
        await ended_by_cancel(asking)
        kept_back.cancel()
        await desk.settle()
        assert desk.rows() == []
        assert await other.try_acquire() is True
        assert await other.try_release() is True


async def between_two_attempts_it_is_not_taken_for_an_error_to_try_again(desk: Desk) -> None:
    lease, _ = desk.contenders(options=SLOW)
    desk.server.faults.drop("before", times=FOR_EVER, matching=ACQUIRE)
    asking = asyncio.create_task(lease.try_acquire())
    await until(lambda: len(desk.sent(ACQUIRE)) >= 3, "three attempts")
    assert await ended_by_cancel(asking) < 10
    desk.server.faults.clear()
    await desk.settle()
    desk.server.log.clear()
    assert await lease.try_acquire() is True
    assert len(desk.sent(ACQUIRE)) == 1


SCENARIOS: tuple[Callable[[Desk], Awaitable[None]], ...] = (
    on_a_silent_link_wait_for_ends_on_time_and_the_next_call_does_not_wait_for_it,
    around_a_host_that_never_answers_wait_for_ends_before_the_login_does,
    in_the_login_it_is_obeyed_at_once_and_the_next_call_logs_in_anew,
    a_login_that_succeeds_after_all_is_closed_and_nothing_is_sent_on_it,
    a_link_that_is_cut_after_the_cancel_leaves_no_row,
    between_two_attempts_it_is_not_taken_for_an_error_to_try_again,
)
