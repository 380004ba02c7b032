"""What a user would pick instead: sqlalchemy-dlock, which is ``sp_getapplock`` on a connection that the lock pins down.

Knows the two ways to use it: on a connection that stays checked out, and on one from the pool for each cycle. It is a
different promise (the lock ends with the connection, and nothing tells its holder), so its time is no target.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pyodbc
import sqlalchemy
from sqlalchemy_dlock.factory import create_sadlock

from sqllease import LeaseStore

from .leases import OPTIONS
from .pairs import Pair, calls
from .standin import StandIn

PINNED, POOLED = "dlock, connection kept", "dlock, from the pool"
WAYS = (PINNED, POOLED)
HELD_AT_ONCE = 16


def _engine(connection_string: str, size: int = 5) -> sqlalchemy.Engine:
    return sqlalchemy.create_engine(
        "mssql+pyodbc://", creator=lambda: pyodbc.connect(connection_string), pool_size=size
    )


def _cycle(connection: sqlalchemy.Connection) -> bool:
    lock: Any = create_sadlock(connection, "benchmark")
    acquired = bool(lock.acquire(block=False))
    lock.release()
    return acquired


@contextmanager
def dlock_pair(way: str, connection_string: str) -> Iterator[Pair]:
    """One cycle of acquire and release of a lease, beside the same of a lock."""
    store, engine = LeaseStore(connection_string), _engine(connection_string)
    lease = store.lease("benchmark", options=OPTIONS)
    with ExitStack() as pinned:
        kept: list[sqlalchemy.Connection] = []

        def lease_cycle() -> bool:
            return lease.try_acquire() and lease.try_release()

        def pinned_cycle() -> bool:
            if not kept:
                kept.append(pinned.enter_context(engine.connect()))
            return _cycle(kept[0])

        def pooled_cycle() -> bool:
            with engine.connect() as connection:
                return _cycle(connection)

        theirs: Callable[[], bool] = pinned_cycle if way == PINNED else pooled_cycle
        try:
            yield Pair("acquire + release", way, calls(lease_cycle, True), calls(theirs, True))
        finally:
            store.close()
    engine.dispose()


def logins_for_many(connection_string: str, server: StandIn) -> tuple[int, int]:
    """How many logins one thread needs to hold many leases, and many locks, at once."""
    server.counts()
    store = LeaseStore(connection_string)
    leases = [store.lease(f"benchmark-{number}", options=OPTIONS) for number in range(HELD_AT_ONCE)]
    held = [lease.try_acquire() for lease in leases]
    assert all(held)
    for lease in leases:
        lease.try_release()
    store.close()
    our_logins = server.counts().logins
    engine = _engine(connection_string, HELD_AT_ONCE)
    with ExitStack() as stack:
        for number in range(HELD_AT_ONCE):
            lock: Any = create_sadlock(stack.enter_context(engine.connect()), f"benchmark-{number}")
            stack.enter_context(lock)
    engine.dispose()
    return our_logins, server.counts().logins
