"""What a cancel does, point by point. A program of its own: a driver that crashes takes it down, and not pytest.

Says one line of JSON for each scenario: its name, and the stack of what went wrong or null. A scenario is done while
the server still keeps a request back, or it has waited for what it should not.
"""

from __future__ import annotations

import asyncio
import json
import sys
import traceback
from collections.abc import Awaitable, Callable
from unittest import mock

from sqllease.aio import connection
from sqllease.testing import LocalSqlServer
from tests.drivers import find_driver

from .cancelling_links import SCENARIOS as ON_BAD_LINKS
from .desk import ACQUIRE, RELEASE, RENEW, SLOW, Desk, ended_by_cancel, until

Scenario = Callable[[Desk], Awaitable[None]]


async def it_stops_the_statement_on_the_server_and_comes_out_before_its_end(desk: Desk) -> None:
    lease, other = desk.contenders()
    assert await lease.try_acquire()
    kept_back = desk.server.faults.hold("before", matching=ACQUIRE)
    asking = asyncio.create_task(other.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    await ended_by_cancel(asking)
    assert kept_back.decision is None
    kept_back.release()
    await desk.settle()
    assert [request for request in desk.server.log.requests if request.kind == "attention"]
    assert not other.held
    assert await lease.try_renew() is True


async def an_acquire_that_had_not_been_executed_leaves_no_row_and_the_next_call_works(desk: Desk) -> None:
    await _late_win(desk, "before")


async def an_acquire_that_was_won_after_all_is_given_back_and_the_next_call_works(desk: Desk) -> None:
    await _late_win(desk, "after")


async def _late_win(desk: Desk, when: str) -> None:
    lease, other = desk.contenders()
    kept_back = desk.server.faults.hold(when, matching=ACQUIRE)
    asking = asyncio.create_task(lease.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    await ended_by_cancel(asking)
    assert kept_back.decision is None
    assert not lease.held
    assert lease.fencing_token is None
    kept_back.release()
    await desk.settle()
    assert desk.rows() == []
    assert await other.try_acquire() is True
    assert await lease.try_acquire() is False
    assert await other.try_release() is True
    assert await lease.try_acquire() is True


async def a_win_that_comes_too_late_never_ends_the_tenure_of_a_newer_acquire(desk: Desk) -> None:
    # The late message lies over the newer tenure. Given back, it would let others in beside the one who believes.
    lease, other = desk.contenders()
    kept_back = desk.server.faults.hold("before", matching=ACQUIRE)
    asking = asyncio.create_task(lease.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    await ended_by_cancel(asking)
    assert await lease.try_acquire() is True
    kept_back.release()
    await desk.settle()
    assert lease.held
    assert await other.try_acquire() is False
    desk.server.clock.advance(SLOW.duration)
    assert await other.try_acquire() is True


async def a_cancelled_refresh_keeps_the_tenure_and_its_token(desk: Desk) -> None:
    await _prolonging(desk, ACQUIRE)


async def a_cancelled_renew_keeps_the_tenure_and_its_token(desk: Desk) -> None:
    await _prolonging(desk, RENEW)


async def _prolonging(desk: Desk, text: str) -> None:
    lease, other = desk.contenders()
    assert await lease.try_acquire()
    token, row = lease.fencing_token, desk.rows()
    for when in ("before", "after"):
        kept_back = desk.server.faults.hold(when, matching=text)
        asking = asyncio.create_task(lease.try_acquire() if text == ACQUIRE else lease.try_renew())
        await until(kept_back.held.is_set, "the request has come")
        await ended_by_cancel(asking)
        kept_back.release()
        await desk.settle()
        assert lease.held
        assert (lease.fencing_token, desk.rows()) == (token, row)
        assert await lease.try_renew() is True
        assert await other.try_acquire() is False


async def a_cancelled_release_is_not_held_and_can_be_called_again(desk: Desk) -> None:
    for when in ("before", "after"):
        lease, other = desk.contenders()
        assert await lease.try_acquire()
        kept_back = desk.server.faults.hold(when, matching=RELEASE)
        asking = asyncio.create_task(lease.try_release())
        await until(kept_back.held.is_set, "the release has come")
        await ended_by_cancel(asking)
        assert not lease.held
        kept_back.release()
        await desk.settle()
        await lease.try_release()
        assert desk.rows() == []
        assert await other.try_acquire() is True
        assert await other.try_release() is True


async def a_second_cancel_does_not_wait_for_the_driver_and_the_win_is_still_given_back(desk: Desk) -> None:
    lease, _ = desk.contenders()
    kept_back = desk.server.faults.hold("after", matching=ACQUIRE)
    asking = asyncio.create_task(lease.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    with mock.patch.object(connection, "CANCEL_PATIENCE_S", 30):
        asking.cancel()
        for _ in range(10):
            await asyncio.sleep(0)
        assert not asking.done()
        assert await ended_by_cancel(asking) < 10
    assert kept_back.decision is None
    kept_back.release()
    await desk.settle()
    assert desk.rows() == []
    assert await lease.try_acquire() is True


async def who_waits_for_the_same_lease_object_gets_its_turn(desk: Desk) -> None:
    lease, other = desk.contenders()
    kept_back = desk.server.faults.hold("before", matching=ACQUIRE)
    first = asyncio.create_task(lease.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    second = asyncio.create_task(lease.try_acquire())
    await asyncio.sleep(0)
    await ended_by_cancel(first)
    assert await second is True
    kept_back.release()
    await desk.settle()
    assert await other.try_acquire() is False


async def who_is_cancelled_while_it_waits_for_its_turn_sends_nothing_and_disturbs_nobody(desk: Desk) -> None:
    lease, _ = desk.contenders()
    kept_back = desk.server.faults.hold("after", matching=ACQUIRE)
    first = asyncio.create_task(lease.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    second = asyncio.create_task(lease.try_release())
    await asyncio.sleep(0)
    await ended_by_cancel(second)
    kept_back.release()
    assert await first is True
    assert desk.sent(RELEASE) == []
    assert await lease.try_renew() is True


async def who_is_cancelled_while_it_waits_for_a_connection_sends_nothing_and_blocks_nobody(desk: Desk) -> None:
    store = desk.store(max_connections=1)
    busy, lease = store.lease("busy", options=SLOW), store.lease("job", options=SLOW)
    kept_back = desk.server.faults.hold("after", matching=ACQUIRE)
    first = asyncio.create_task(busy.try_acquire())
    await until(kept_back.held.is_set, "the acquire has come")
    for _ in range(3):
        waiting = asyncio.create_task(lease.try_acquire())
        await asyncio.sleep(0.01)
        await ended_by_cancel(waiting)
    kept_back.release()
    assert await first is True
    assert len(desk.sent(ACQUIRE)) == 1
    assert await lease.try_acquire() is True


async def at_each_of_the_first_steps_of_a_call_it_is_obeyed_and_the_next_call_works(desk: Desk) -> None:
    lease, other = desk.contenders()
    for connected in (False, True):
        for steps in range(12):
            if connected:
                await lease._store.get("job")
            asking = asyncio.create_task(lease.try_acquire())
            for _ in range(steps):
                await asyncio.sleep(0)
            if not asking.done():
                await ended_by_cancel(asking)
            elif asking.result():
                await lease.try_release()
            await desk.settle()
            assert desk.rows() == []
            assert await other.try_acquire() is True
            assert await other.try_release() is True


async def a_cancelled_look_at_the_table_disturbs_nobody_and_complains_of_nothing(desk: Desk) -> None:
    store = desk.store(max_connections=1)
    complaints: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: complaints.append(context))
    for kept_back_until in ("answered", "cut"):
        kept_back = desk.server.faults.hold("before", matching="LeaseName")
        looking = asyncio.create_task(store.get("job"))
        await until(kept_back.held.is_set, "the read has come")
        await ended_by_cancel(looking)
        assert await store.get("job") is None
        if kept_back_until == "cut":
            kept_back.cancel()
        else:
            kept_back.release()
        await desk.settle()
        assert await store.list() == []
    assert complaints == []


HERE: tuple[Scenario, ...] = (
    it_stops_the_statement_on_the_server_and_comes_out_before_its_end,
    an_acquire_that_had_not_been_executed_leaves_no_row_and_the_next_call_works,
    an_acquire_that_was_won_after_all_is_given_back_and_the_next_call_works,
    a_win_that_comes_too_late_never_ends_the_tenure_of_a_newer_acquire,
    a_cancelled_refresh_keeps_the_tenure_and_its_token,
    a_cancelled_renew_keeps_the_tenure_and_its_token,
    a_cancelled_release_is_not_held_and_can_be_called_again,
    a_second_cancel_does_not_wait_for_the_driver_and_the_win_is_still_given_back,
    who_waits_for_the_same_lease_object_gets_its_turn,
    who_is_cancelled_while_it_waits_for_its_turn_sends_nothing_and_disturbs_nobody,
    who_is_cancelled_while_it_waits_for_a_connection_sends_nothing_and_blocks_nobody,
    at_each_of_the_first_steps_of_a_call_it_is_obeyed_and_the_next_call_works,
    a_cancelled_look_at_the_table_disturbs_nobody_and_complains_of_nothing,
)
SCENARIOS: dict[str, Scenario] = {scenario.__name__: scenario for scenario in (*HERE, *ON_BAD_LINKS)}


def play(scenario: Scenario, odbc: str) -> str | None:
    """The stack of what went wrong, None when all went well."""
    with LocalSqlServer() as server:

        async def limited() -> None:
            async with asyncio.timeout(40):
                desk = Desk(server, odbc)
                await scenario(desk)
                server.faults.clear()
                await desk.settle()

        try:
            asyncio.run(limited())
        except Exception:  # noqa: BLE001 - told to the test
            return traceback.format_exc()
        finally:
            server.faults.clear()
    return None


def main() -> None:
    kind, *names = sys.argv[1:]
    driver = find_driver(kind)
    assert driver is not None
    for name in names or SCENARIOS:
        print(json.dumps([name, play(SCENARIOS[name], driver.odbc)]), flush=True)


if __name__ == "__main__":
    main()
