"""Whoever stops waiting while the replica is looked at leaves nothing behind: what the call had won is given back, what
it had before is kept.
"""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import Iterator

import pytest

from sqllease import AsyncLeaseStore, AsyncSqlLease
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S, AnyLease, wait_until

from .stage import OPTIONS, RELEASE, Stage, is_look

WHERE = pytest.mark.parametrize("where", ["in a look", "between two looks"])


@pytest.fixture
def colour() -> str:
    """Ctrl-C is for the main thread; a cancel is tried on the async lease itself, below."""
    return "sync"


# --- Ctrl-C ------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def ctrl_c_is_heard() -> Iterator[None]:
    """Also where the tests run in the background of a shell, which starts them deaf to it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def interrupts(stage: Stage, where: str) -> None:
    """Ctrl-C comes during the next look, or after it while the call waits for the one after that."""
    hold = stage.replica.faults.hold(matching=is_look) if where == "in a look" else None

    def send() -> None:
        if hold is None:
            stage.replica.log.wait_for(lambda request: is_look(request) and request.finished)
        else:
            hold.held.wait(PATIENCE_S)
        os.kill(os.getpid(), signal.SIGINT)
        if hold is not None:
            hold.release()

    threading.Thread(target=send, daemon=True).start()


def waiting_long(stage: Stage) -> AnyLease:
    stage.replica.pause()
    return stage.lease(poll_interval=4)


@WHERE
def test_ctrl_c_gives_the_new_lease_back(stage: Stage, where: str) -> None:
    lease = waiting_long(stage)
    interrupts(stage, where)
    with pytest.raises(KeyboardInterrupt):
        lease.try_acquire()
    assert (lease.held, stage.row, len(stage.sent(RELEASE))) == (False, None, 1)
    stage.replica.resume()
    assert lease.try_acquire() is True


@WHERE
@pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
def test_ctrl_c_during_a_renewal_keeps_the_tenure_as_far_as_it_was_confirmed(
    stage: Stage, where: str, verb: str
) -> None:
    held = stage.lease()
    assert held.try_acquire() is True
    token, row = held.fencing_token, stage.row
    stage.replica.log.clear()
    stage.passes(10)
    stage.replica.pause()
    interrupts(stage, where)
    with pytest.raises(KeyboardInterrupt):
        getattr(held, verb)()
    assert (held.held, held.remaining, held.fencing_token, held.confirmed) == (True, 17, token, True)
    assert row is not None
    assert stage.row is not None
    assert stage.row.began == row.began
    assert stage.sent(RELEASE) == []
    stage.replica.resume()
    assert held.try_renew() is True
    assert held.remaining == 27


# --- cancel ------------------------------------------------------------------------------------------


@pytest.fixture
def awaited(server: LocalSqlServer, driver: Driver) -> Iterator[tuple[Stage, AsyncSqlLease]]:
    with Stage(server, driver, "async") as stage:
        replica = stage.options(poll_interval=4)
        store = AsyncLeaseStore(server.connection_string(driver.odbc), replica=replica)
        yield stage, store.lease("job", owner_id="me", options=OPTIONS, clock=stage.clock)
        asyncio.run(store.aclose())


async def looked_at(stage: Stage, task: asyncio.Task[bool], where: str) -> None:
    """Cancels the task during its first look, or between that and the next."""
    hold = stage.replica.faults.hold(matching=is_look) if where == "in a look" else None
    if hold is not None:
        assert await asyncio.to_thread(hold.held.wait, PATIENCE_S)
    else:
        await asyncio.to_thread(stage.replica.log.wait_for, lambda request: is_look(request) and request.finished)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    if hold is not None:
        hold.release()


@WHERE
async def test_a_cancel_gives_the_new_lease_back(awaited: tuple[Stage, AsyncSqlLease], where: str) -> None:
    stage, lease = awaited
    stage.replica.pause()
    await looked_at(stage, asyncio.create_task(lease.try_acquire()), where)
    assert not lease.held
    assert lease.fencing_token is None
    await asyncio.to_thread(wait_until, lambda: stage.row is None, "the row is given back")
    stage.replica.resume()
    assert await lease.try_acquire() is True
    assert lease.confirmed is True


@WHERE
@pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
async def test_a_cancel_of_a_renewal_keeps_the_tenure_as_far_as_it_was_confirmed(
    awaited: tuple[Stage, AsyncSqlLease], where: str, verb: str
) -> None:
    stage, lease = awaited
    assert await lease.try_acquire() is True
    token = lease.fencing_token
    stage.replica.log.clear()
    stage.passes(10)
    stage.replica.pause()
    await looked_at(stage, asyncio.create_task(getattr(lease, verb)()), where)
    assert (lease.held, lease.remaining, lease.fencing_token, lease.confirmed) == (True, 17, token, True)
    assert (stage.owner, stage.sent(RELEASE)) == ("me", [])
    stage.replica.resume()
    assert await lease.try_renew() is True
    assert lease.remaining == 27


async def test_a_cancelled_acquire_gives_back_no_row_of_somebody_who_came_after_it(
    awaited: tuple[Stage, AsyncSqlLease],
) -> None:
    stage, lease = awaited
    stage.replica.pause()
    task = asyncio.create_task(lease.try_acquire())
    await asyncio.to_thread(stage.replica.log.wait_for, lambda request: is_look(request) and request.finished)
    stage.server.execute("UPDATE [lease].[Leases] SET OwnerInstanceId = N'you'")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(stage.server.log.wait_for, lambda request: RELEASE in request.text and request.finished)
    assert stage.owner == "you"
