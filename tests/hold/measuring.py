"""Two measurements of holds on a real wire, in real time: a link that falls silent, and a lease that changes hands.

The tests run one of each. As a program (``python -m tests.hold.measuring``) it runs them all, twenty and a hundred
times, and reports the median and the worst. All connections are closed by whoever opened them: a forgotten one might
be collected in the thread of the stand-in, which would then wait for itself.
"""

from __future__ import annotations

import asyncio
import functools
import statistics
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, closing, suppress
from typing import NamedTuple

from sqllease import AsyncSqlLease, LeaseLost, LeaseOptions, SqlLease, schema
from sqllease.testing import LocalSqlServer
from sqllease.testing.server.sqltypes import TICKS_PER_SECOND, Moment
from tests.drivers import find_driver

FOR_EVER = 10**6
POLL_S = 1.0


class Link:
    """A stand-in with a lease table. All that is told in seconds here is told by its clock."""

    def __init__(self, server: LocalSqlServer, odbc: str) -> None:
        self.server = server
        self.dsn = server.connection_string(driver=odbc)
        server.execute(schema.create_script())

    def falls_silent(self) -> None:
        """Nothing is answered any more, and no link is cut."""
        for when in ("before", "login"):
            self.server.faults.silence(when, times=FOR_EVER, matching=lambda request: True)

    def until_expiry(self, name: str) -> float:
        """Seconds from now until the row expires; negative once it has. Reads the clock before anything else."""
        now = self.server.clock.ticks()
        ((expires,),) = self.server.execute(
            f"SELECT CAST(ExpiresAtUtc AS datetime2) FROM [lease].[Leases] WHERE LeaseName = N'{name}'"
        )
        assert isinstance(expires, Moment)
        return (expires.ticks - now) / TICKS_PER_SECOND


class Told(NamedTuple):
    """When the work heard of a loss, in seconds."""

    before_expiry: float
    """From that moment to the row's expiry; negative: too late."""
    last_call: float
    """What the renewal before the silence took: by so much the server may count from a later moment than the lease."""


def silent_blocking(link: Link, options: LeaseOptions) -> Told:
    """The link falls silent right after a renewal."""
    told: list[Told] = []
    lease = SqlLease("job", link.dsn, options=options)
    with closing(lease), suppress(LeaseLost), lease.hold() as held:
        asked = time.monotonic()
        held.ensure(options.duration)
        last_call = time.monotonic() - asked
        link.falls_silent()
        assert held.lost.wait(2 * options.duration)
        told.append(Told(link.until_expiry("job"), last_call))
    return told[0]


def silent_awaiting(link: Link, options: LeaseOptions) -> Told:
    """The same under asyncio, where the work awaits the loss."""
    told: list[Told] = []

    async def work() -> None:
        lease = AsyncSqlLease("job", link.dsn, options=options)
        with suppress(LeaseLost):
            async with aclosing(lease), lease.hold() as held:
                asked = time.monotonic()
                await held.ensure(options.duration)
                last_call = time.monotonic() - asked
                link.falls_silent()
                assert await held.lost.wait(2 * options.duration)
                told.append(Told(link.until_expiry("job"), last_call))

    asyncio.run(work())
    return told[0]


def silent_busy(link: Link, options: LeaseOptions) -> Told:
    """The same under asyncio, with work that never lets the loop go on: it hears of the loss by its callback."""
    heard = threading.Event()
    left: list[float] = []
    took: list[float] = []

    def on_lost() -> None:
        left.append(link.until_expiry("job"))
        heard.set()

    async def work() -> None:
        lease = AsyncSqlLease("job", link.dsn, options=options)
        with suppress(LeaseLost):
            async with aclosing(lease), lease.hold(on_lost=on_lost) as held:
                asked = time.monotonic()
                await held.ensure(options.duration)
                took.append(time.monotonic() - asked)
                link.falls_silent()
                ends = time.monotonic() + 2 * options.duration
                while not heard.is_set() and time.monotonic() < ends:
                    sum(range(1_000))

    asyncio.run(work())
    return Told(left[0], took[0])


SILENT: dict[str, Callable[[Link, LeaseOptions], Told]] = {
    "blocking": silent_blocking,
    "awaiting": silent_awaiting,
    "busy": silent_busy,
}


def silent_link(odbc: str, way: str, options: LeaseOptions) -> Told:
    """One run of ``SILENT[way]`` on a stand-in of its own."""
    with LocalSqlServer() as server:
        return SILENT[way](Link(server, odbc), options)


def handover_by_release(link: Link, name: str) -> float:
    """Seconds from the end of one hold to the begin of the next, which waits for it and polls."""
    with closing(SqlLease(name, link.dsn)) as first, closing(_Contender(name, link.dsn)) as waiting:
        with first.hold():
            waiting.start()
        freed = time.monotonic()
        return waiting.entered() - freed


def handover_by_crash(link: Link, name: str) -> float:
    """Seconds from the expiry of the row of a holder that is no more to the hold of the one who waits for it."""
    short = LeaseOptions(duration=4)
    with closing(SqlLease(name, link.dsn, options=short)) as first, closing(_Contender(name, link.dsn)) as waiting:
        assert first.try_acquire()
        waiting.start()
        expires = time.monotonic() + link.until_expiry(name)
        return waiting.entered() - expires


class _Contender(threading.Thread):
    """Waits for the lease, polling; notes when it has it."""

    def __init__(self, name: str, dsn: str) -> None:
        super().__init__(daemon=True)
        self._lease = SqlLease(name, dsn)
        self._refused = threading.Event()
        self._entered_at = 0.0

    def start(self) -> None:
        """Returns once it has been refused, and waits."""
        super().start()
        while self._lease.holder is None:
            assert self.is_alive(), "it waits no more"
            time.sleep(0.001)

    def run(self) -> None:
        with self._lease.hold(poll_interval=POLL_S):
            self._entered_at = time.monotonic()

    def entered(self) -> float:
        self.join(30)
        assert self._entered_at, "it has not entered"
        return self._entered_at

    def close(self) -> None:
        self._lease.close()


def repeated(run: Callable[[int], float], times: int, at_once: int) -> list[float]:
    """The results of so many runs, so many of them at the same time."""
    with ThreadPoolExecutor(at_once) as threads:
        return list(threads.map(run, range(times)))


def report(what: str, results: Sequence[float], worst: float) -> None:
    told = f"median {statistics.median(results):7.3f} s   worst {worst:7.3f} s   of {len(results)}"
    print(f"{what:58} {told}", flush=True)


def handovers(kind: str, odbc: str) -> bool:
    """A hundred of each; whether all were in time."""
    in_time = True
    with LocalSqlServer() as server:
        link = Link(server, odbc)
        ways: dict[str, Callable[[Link, str], float]] = {"release": handover_by_release, "expiry": handover_by_crash}
        for what, way in ways.items():
            taken = repeated(lambda number, what=what, way=way: way(link, f"{what}-{number}"), 100, 5)  # type: ignore[misc]
            report(f"{kind}: from {what} to the next hold (poll {POLL_S:g} s)", taken, max(taken))
            in_time = in_time and max(taken) <= POLL_S + 0.5
    return in_time


def silences(kind: str, odbc: str, duration: float) -> bool:
    """Twenty of each way; whether the loss was always told before the row expired."""
    in_time = True
    options = LeaseOptions(duration=duration)
    for way in SILENT:
        at_once = 1 if way == "busy" else 10  # busy work would take the others' time, and the stand-in's
        run = functools.partial(silent_link, odbc, way, options)
        left = repeated(lambda _, run=run: run().before_expiry, 20, at_once)  # type: ignore[misc]
        report(f"{kind}: {way}, lease of {duration:g} s, lost before its expiry", left, min(left))
        in_time = in_time and min(left) > 0
    return in_time


def main() -> int:
    """Half an hour with both drivers; arguments name the one to take."""
    in_time = True
    for kind in sys.argv[1:] or ("ms", "freetds"):
        driver = find_driver(kind)
        if driver is not None:
            in_time = handovers(kind, driver.odbc) and in_time
            for duration in (3.0, 30.0):
                in_time = silences(kind, driver.odbc, duration) and in_time
    return 0 if in_time else 1


if __name__ == "__main__":
    sys.exit(main())
