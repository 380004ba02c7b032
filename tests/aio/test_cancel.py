"""Cancels at every point of a call. Everything here runs in processes of its own, since it is drivers that crash.

Cancelling a task inside aioodbc's own cursor ends the interpreter with a segmentation fault, with either driver; so
does closing a connection before another thread's cancel has come back. The full figures (500 random cancels with
Microsoft's driver, 50 with FreeTDS) are played with SQLLEASE_TEST_FULL=1; the usual run plays 40 and 10.
"""

from __future__ import annotations

import asyncio
import json
import os
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from sqllease import AsyncLeaseStore
from sqllease.aio.turns import Turns
from sqllease.answers import Row
from sqllease.calls import Acquire
from sqllease.statements import Statement
from tests.drivers import DRIVER_IDS, Driver

from .cancelling import SCENARIOS
from .programs import run_module

FULL = bool(os.environ.get("SQLLEASE_TEST_FULL"))
COUNTS = {"ms": 500, "freetds": 50} if FULL else {"ms": 40, "freetds": 10}
SEED = 2025

Plays = dict[str, Future[str]]


@pytest.fixture(scope="module")
def plays() -> Plays:
    """What the play with each driver says; they run beside each other, since they mostly wait."""
    stage = ThreadPoolExecutor(len(DRIVER_IDS))
    begun = {driver_id: stage.submit(run_module, "cancelling", driver_id) for driver_id in DRIVER_IDS}
    stage.shutdown(wait=False)
    return begun


@pytest.mark.timeout(90)
@pytest.mark.parametrize("scenario", SCENARIOS)
def test_on_a_cancel(driver: Driver, plays: Plays, scenario: str) -> None:
    told = dict(json.loads(line) for line in plays[driver.id].result().splitlines())
    assert told[scenario] is None, told[scenario]


@pytest.mark.timeout(400 if FULL else 60)
def test_cancels_at_random_moments_crash_nothing_leave_no_row_and_disturb_nobody(driver: Driver) -> None:
    count = COUNTS[driver.id]
    report = json.loads(run_module("storm", driver.id, count, SEED, patience=350 if FULL else 50))
    assert report["troubles"] == []
    assert report["cancelled"] == count
    assert set(report["verbs"]) == {"acquire", "refresh", "renew", "release"}
    # A cancelled caller waits for its driver, but not longer than a second; the command time-out here is 30 s.
    assert report["slowest"] < 5


@pytest.mark.parametrize("steps", range(6))
async def test_a_cancel_in_the_moment_of_a_turn_is_not_swallowed(steps: int) -> None:
    # asyncio.wait_for does swallow it, up to Python 3.11: the caller's time-out would never fire.
    turns = Turns(1)
    assert await turns.take()
    waiting = asyncio.create_task(turns.take(10))
    await asyncio.sleep(0)
    turns.give()
    for _ in range(steps):
        await asyncio.sleep(0)
    obeyed = waiting.cancel()
    await asyncio.wait([waiting])
    assert waiting.cancelled() is obeyed


@pytest.mark.parametrize("rows", [None, []], ids=["no answer", "an empty answer"])
def test_what_a_driver_makes_of_a_cancelled_acquire_is_no_proof_that_it_did_nothing(rows: list[Row] | None) -> None:
    lease = AsyncLeaseStore("DRIVER=x").lease("job")
    acquire = Acquire(lease)
    acquire.begin()
    asked: list[Statement] = []

    def ask(statement: Statement) -> list[Row]:
        asked.append(statement)
        return []

    acquire.too_late(rows, ask)
    assert asked == [lease._statements.get("job")]
