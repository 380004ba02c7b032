"""The lease's calls beside the bare driver's, sync and async: renew, refresh, lost acquire, acquire + release.

The statements come from the lease itself: both sides send the same text, with parameters of the same kind and length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from sqllease import LeaseOptions, LeaseStore
from sqllease.aio import AsyncLeaseStore
from sqllease.answers import ANSWER_COLUMNS
from sqllease.base import LeaseBase
from sqllease.calls import Acquire, Release, Renew
from sqllease.statements import Statement

from .bare import AsyncBare, Bare
from .pairs import Pair, async_calls, calls

OPTIONS = LeaseOptions(duration=600, command_timeout=10, sweep_limit=0)
"""Without the sweep, which one acquire in ten seconds does: the text is the same each time."""

SYNC_TARGET, ASYNC_TARGET = 1.10, 1.25
RENEW, REFRESH, LOST, CYCLE = "renew", "refresh", "lost acquire", "acquire + release"
TITLES = (RENEW, REFRESH, LOST, CYCLE)

_DONE = ANSWER_COLUMNS.index("DoneName")
_TENURE = ANSWER_COLUMNS.index("DoneAcquiredAt")
_RELEASED_TENURE = 2
"""Where the tenure stands among the parameters of a release."""


def _done(row: Sequence[Any]) -> bool:
    return row[_DONE] is not None


def _releasing(tenure: str, release: Statement) -> list[str | int]:
    parameters = list(release.parameters)
    parameters[_RELEASED_TENURE] = tenure
    return parameters


def _sent(title: str, lease: LeaseBase) -> tuple[Statement, Statement]:
    """What a lease that was just acquired (or lost) sends for this verb, and how it would be released."""
    if title == CYCLE:
        release = Release(lease).prepare()  # from here on the lease has no tenure, and its next acquire says so
        return Acquire(lease).prepare(), release
    statement = (Renew(lease) if title == RENEW else Acquire(lease)).prepare()
    return statement, statement


@contextmanager
def sync_pair(title: str, connection_string: str) -> Iterator[Pair]:
    """The pair of this title, with all that it needs; closed with the block."""
    store, bare = LeaseStore(connection_string), Bare(connection_string)
    lease, holder = (store.lease("benchmark", options=OPTIONS) for _ in range(2))
    (holder if title == LOST else lease).try_acquire()
    statement, release = _sent(title, lease)

    def bare_call() -> bool:
        return _done(bare.ask(statement, statement.parameters))

    def bare_cycle() -> bool:
        acquired = bare.ask(statement, statement.parameters)
        return _done(bare.ask(release, _releasing(acquired[_TENURE], release)))

    def lease_cycle() -> bool:
        return lease.try_acquire() and lease.try_release()

    verbs: dict[str, Callable[[], bool]] = {RENEW: lease.try_renew, CYCLE: lease_cycle}
    expected = title != LOST
    try:
        if title == CYCLE:  # settles what was only prepared
            lease_cycle()
        yield Pair(
            f"sync {title}",
            "pyodbc",
            calls(verbs.get(title, lease.try_acquire), expected),
            calls(bare_cycle if title == CYCLE else bare_call, expected),
            SYNC_TARGET,
        )
    finally:
        lease.try_release()
        holder.try_release()
        store.close()
        bare.close()


@contextmanager
def async_pair(title: str, connection_string: str) -> Iterator[Pair]:
    """The same for asyncio, both sides in one loop."""
    with asyncio.Runner() as runner:
        store, bare = AsyncLeaseStore(connection_string), AsyncBare(connection_string)
        lease, holder = (store.lease("benchmark", options=OPTIONS) for _ in range(2))
        runner.run((holder if title == LOST else lease).try_acquire())
        statement, release = _sent(title, lease)

        async def bare_call() -> bool:
            return _done(await bare.ask(statement, statement.parameters))

        async def bare_cycle() -> bool:
            acquired = await bare.ask(statement, statement.parameters)
            return _done(await bare.ask(release, _releasing(acquired[_TENURE], release)))

        async def lease_cycle() -> bool:
            return await lease.try_acquire() and await lease.try_release()

        verbs: dict[str, Callable[[], Awaitable[bool]]] = {RENEW: lease.try_renew, CYCLE: lease_cycle}
        expected = title != LOST
        try:
            if title == CYCLE:  # settles what was only prepared
                runner.run(lease_cycle())
            yield Pair(
                f"async {title}",
                "aioodbc",
                async_calls(verbs.get(title, lease.try_acquire), expected, runner),
                async_calls(bare_cycle if title == CYCLE else bare_call, expected, runner),
                ASYNC_TARGET,
            )
        finally:
            runner.run(lease.try_release())
            runner.run(holder.try_release())
            runner.run(store.aclose())
            runner.run(bare.close())
