"""The few connections of one store: each given to one caller at a time, all of them suspect once one link has broken.

``Shelf`` is the bookkeeping, the same for every colour; ``Pool`` is the sync waiting around it.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import Generic, Protocol, TypeVar

from .connection import Connection, Connector
from .errors import LeaseConfigurationError
from .faults import Fault, Kind, Retry


class Droppable(Protocol):
    """A connection of either colour."""

    @property
    def usable(self) -> bool: ...
    @property
    def broken(self) -> bool: ...
    def drop(self) -> None: ...


C = TypeVar("C", bound=Droppable)


class Shelf(Generic[C]):
    """Which connections are idle and how many are out. Not thread-safe: its user locks."""

    def __init__(self, limit: int) -> None:
        self._idle: list[C] = []
        self._out = 0
        self._limit = limit
        self._generation = 0
        self._born: dict[int, int] = {}

    @property
    def free(self) -> bool:
        """True when one more may be taken."""
        return self._out < self._limit

    def take(self) -> C | None:
        """The idle connection that was used last, or None: then the caller opens one. Either way one more is out."""
        self._out += 1
        return self._idle.pop() if self._idle else None

    def opened(self, connection: C) -> None:
        """A taken place was filled with a new connection."""
        self._born[id(connection)] = self._generation

    def give(self, connection: C | None) -> list[C]:
        """Puts a connection (None: none could be opened) back, and gives the ones that are now to be dropped.

        One broken link makes its idle siblings suspect: a restarted server has cut them all, and each would fail
        somebody once.
        """
        self._out -= 1
        if connection is None:
            return []
        born = self._born.get(id(connection), self._generation)
        if connection.broken:
            self._generation = max(self._generation, born + 1)
            suspects, self._idle = self._idle, []
            return self._forget([connection, *suspects])
        if born < self._generation or not connection.usable:
            return self._forget([connection])
        self._idle.append(connection)
        return []

    def empty(self) -> list[C]:
        """Takes all idle connections off, to be dropped."""
        idle, self._idle = self._idle, []
        return self._forget(idle)

    def _forget(self, connections: list[C]) -> list[C]:
        for connection in connections:
            self._born.pop(id(connection), None)
        return connections


def all_in_use(limit: int, patience: float) -> Fault:
    """No connection became free in time: nothing was asked."""
    return Fault(Kind.BUSY, text=f"all {limit} were in use for {patience:g} s", sent=False)


def spoils(error: BaseException) -> bool:
    """Whether a connection is in doubt after a call that ended so. Ctrl-C and a cancel leave an answer on the way."""
    if isinstance(error, Retry):
        return error.fault.breaks_connection
    return not isinstance(error, LeaseConfigurationError)


class Pool:
    """At most ``limit`` connections, opened when first needed. Safe for threads; a forked child starts empty."""

    def __init__(self, connector: Connector, limit: int) -> None:
        self._connector = connector
        self._limit = limit
        self.reset()
        forked_pools.add(self)

    def reset(self) -> None:
        """Forgets all connections: they are the parent's."""
        self._shelf: Shelf[Connection] = Shelf(self._limit)
        self._changed = threading.Condition()

    def take(self, login_timeout: int, patience: float) -> Taken:
        """``with``: a connection for one call. Raises Retry when none is free for ``patience`` seconds, or none can be
        opened.
        """
        return Taken(self, login_timeout, patience)

    def _take(self, patience: float) -> Connection | None:
        with self._changed:
            if not self._shelf.free and not self._changed.wait_for(lambda: self._shelf.free, patience):
                raise Retry(all_in_use(self._limit, patience))
            return self._shelf.take()

    def _open(self, login_timeout: int) -> Connection:
        connection = Connection(self._connector.open(login_timeout), self._connector.hidden)
        with self._changed:
            self._shelf.opened(connection)
        return connection

    def _give(self, connection: Connection | None) -> None:
        with self._changed:
            useless = self._shelf.give(connection)
            self._changed.notify()
        for old in useless:
            old.drop()

    def close(self) -> None:
        """Drops the idle connections. The pool can be used again."""
        with self._changed:
            idle = self._shelf.empty()
        for connection in idle:
            connection.drop()


class Taken:
    """One connection while it is out. A class, since a generator costs each call twice as much."""

    __slots__ = ("_connection", "_login_timeout", "_patience", "_pool")

    def __init__(self, pool: Pool, login_timeout: int, patience: float) -> None:
        self._pool, self._login_timeout, self._patience = pool, login_timeout, patience

    def __enter__(self) -> Connection:
        connection = self._pool._take(self._patience)
        if connection is None:
            try:
                connection = self._pool._open(self._login_timeout)
            except BaseException:
                self._pool._give(None)
                raise
        self._connection = connection
        return connection

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        try:
            if error is not None and spoils(error):
                self._connection.drop()
        finally:  # a second Ctrl-C may come out of the close
            self._pool._give(self._connection)


class Resettable(Protocol):
    """A pool of either colour."""

    def reset(self) -> None: ...


forked_pools: weakref.WeakSet[Resettable] = weakref.WeakSet()
"""The pools of this process: a forked child starts each of them anew."""


def _reset_all() -> None:
    for pool in list(forked_pools):
        pool.reset()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset_all)
