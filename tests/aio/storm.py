"""Cancels calls at random moments, round after round. A program of its own: a driver that crashes takes it down, and
not pytest.

Arguments: the driver's id, how many calls to cancel, a seed. Says one JSON object: how many cancels came at which
point, the slowest one, and the rounds after which something was not as promised.
"""

from __future__ import annotations

import asyncio
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from sqllease import AsyncLeaseStore, AsyncSqlLease
from sqllease.testing import LocalSqlServer
from sqllease.testing.server.faults import Hold
from tests.drivers import find_driver

from .desk import ACQUIRE, RELEASE, RENEW, SLOW, Desk, until

VERBS = {"acquire": ACQUIRE, "refresh": ACQUIRE, "renew": RENEW, "release": RELEASE}
POINTS = (
    "before it begins",
    "in the login",
    "in line for a connection",
    "on its way",
    "before it is executed",
    "after",
)


class Storm:
    """The rounds. A bystander renews a lease of the same store in each of them, and must never notice."""

    def __init__(self, desk: Desk, seed: int) -> None:
        self.desk = desk
        self.random = random.Random(seed)
        self.wide, self.narrow = desk.store(max_connections=3), desk.store(max_connections=1)
        self.cancelled: Counter[str] = Counter()
        self.slowest = 0.0
        self.troubles: list[str] = []

    async def blow(self, count: int) -> dict[str, Any]:
        bystanders = {store: store.lease(f"of a bystander {id(store)}", options=SLOW) for store in self._stores}
        for bystander in bystanders.values():
            assert await bystander.try_acquire()
        rounds = 0
        while self.cancelled.total() < count:
            rounds += 1
            verb, point = self.random.choice(list(VERBS)), self.random.choice(POINTS)
            store = self.narrow if point == "in line for a connection" else self.wide
            trouble = await self.round(f"job {rounds}", verb, point, store, bystanders[store])
            if trouble is not None:
                self.troubles.append(f"round {rounds}, {verb} {point}: {trouble}")
        return {
            "rounds": rounds,
            "cancelled": self.cancelled.total(),
            "points": {**Counter(key.split(": ")[1] for key in self.cancelled.elements())},
            "verbs": {**Counter(key.split(": ")[0] for key in self.cancelled.elements())},
            "slowest": self.slowest,
            "troubles": self.troubles,
        }

    @property
    def _stores(self) -> tuple[AsyncLeaseStore, AsyncLeaseStore]:
        return self.wide, self.narrow

    async def round(
        self, name: str, verb: str, point: str, store: AsyncLeaseStore, bystander: AsyncSqlLease
    ) -> str | None:
        """What was not as promised; None when all was."""
        lease, other = store.lease(name, options=SLOW), self.wide.lease(name, options=SLOW)
        if verb != "acquire" and not await lease.try_acquire():
            return "the lease was not free"
        token, before = lease.fencing_token, self.desk.rows(name)
        call: Callable[[], Coroutine[Any, Any, bool]] = {
            "renew": lease.try_renew,
            "release": lease.try_release,
        }.get(verb, lease.try_acquire)
        answer, standing_by = await self.cancel(call, verb, point, store, bystander)
        if not await standing_by:
            return "the bystander has lost its lease"
        await self.desk.settle()
        return await self.look(verb, answer, (token, before), lease, other)

    async def cancel(
        self,
        call: Callable[[], Coroutine[Any, Any, bool]],
        verb: str,
        point: str,
        store: AsyncLeaseStore,
        bystander: AsyncSqlLease,
    ) -> tuple[bool | None, Awaitable[bool]]:
        """The call's answer, or None when it was cancelled; and the bystander's renew."""
        hold: Hold | None = None
        standing_by: asyncio.Task[bool] | None = None
        if point == "in the login":
            await store.aclose()
        elif point == "in line for a connection":
            hold = self.desk.server.faults.hold("before", matching=RENEW)
            standing_by = asyncio.create_task(bystander.try_renew())
            await until(hold.held.is_set, "the bystander's renew has come")
        elif point in ("before it is executed", "after"):
            hold = self.desk.server.faults.hold("after" if point == "after" else "before", matching=VERBS[verb])
        by_timeout = point == "on its way" and self.random.random() < 0.5
        pause = self.random.uniform(0, 0.03 if point == "in the login" else 0.004)
        task = asyncio.create_task(asyncio.wait_for(call(), pause) if by_timeout else call())
        if standing_by is None and verb != "renew":
            standing_by = asyncio.create_task(bystander.try_renew())
        if hold is not None and point != "in line for a connection":
            await until(hold.held.is_set, "the request has come")
        elif point == "before it begins":
            for _ in range(self.random.randrange(12)):
                await asyncio.sleep(0)
        elif not by_timeout:
            await asyncio.sleep(pause)
        began = time.monotonic()
        if not by_timeout:
            task.cancel()
        if hold is not None:
            # Let go at a random moment, before or after the driver was told; now and then the link is cut instead.
            cut = point == "after" and self.random.random() < 0.3
            pause = self.random.uniform(0, 0.2)
            asyncio.get_running_loop().call_later(pause, hold.cancel if cut else hold.release)
        await asyncio.wait([task])
        if standing_by is None:
            standing_by = asyncio.create_task(bystander.try_renew())
        if not task.cancelled() and task.exception() is None:
            return task.result(), standing_by
        if not task.cancelled() and not isinstance(task.exception(), TimeoutError):
            raise task.exception() or AssertionError
        self.slowest = max(self.slowest, time.monotonic() - began - (pause if by_timeout else 0))
        self.cancelled[f"{verb}: {point}"] += 1
        return None, standing_by

    async def look(
        self,
        verb: str,
        answer: bool | None,
        before: tuple[int | None, list[tuple[str, str]]],
        lease: AsyncSqlLease,
        other: AsyncSqlLease,
    ) -> str | None:
        """All that was sent has come to its end: what the object believes, what the table says, and the next calls."""
        rows = self.desk.rows(lease.name)
        if answer is False:
            return "the call was refused"
        if verb in ("refresh", "renew") or (verb == "acquire" and answer):
            if not lease.held or (verb != "acquire" and (lease.fencing_token, rows) != before):
                return f"the tenure was not kept: {lease!r}, {before} became {(lease.fencing_token, rows)}"
            if await other.try_acquire() or not await lease.try_renew() or not await lease.try_release():
                return "the holder could not go on"
        else:
            # A release that was cancelled before its first step has not begun: the tenure goes on.
            if lease.held and (verb, rows) != ("release", before[1]):
                return "held without an answer"
            if verb == "acquire" and rows:
                return f"a row was left behind: {rows}"
            await lease.try_release()
        if self.desk.rows(lease.name):
            return "the row outlived its release"
        if not await other.try_acquire() or not await other.try_release():
            return "the next owner could not get it"
        return None


async def blow(desk: Desk, count: int, seed: int) -> dict[str, Any]:
    storm = Storm(desk, seed)
    report = await storm.blow(count)
    await desk.settle()
    return report


def main() -> None:
    kind, count, seed = sys.argv[1:]
    driver = find_driver(kind)
    assert driver is not None
    with LocalSqlServer(seed=int(seed)) as server:
        report = asyncio.run(blow(Desk(server, driver.odbc), int(count), int(seed)))
    print(json.dumps(report))


if __name__ == "__main__":
    main()
