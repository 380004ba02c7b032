"""The few connections of one store: each given to one caller at a time, all of them suspect once one link has broken.

``Shelf`` is the bookkeeping, the same for every colour; ``Pool`` is the sync waiting around it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from .connection import Connection, Connector
from .errors import LeaseStoreError
from .faults import Kind, Retry


class Shelf:
    """Which connections are idle and how many are out. Not thread-safe: its user locks."""

    def __init__(self, limit: int) -> None:
        self._idle: list[Connection] = []
        self._out = 0
        self._limit = limit
        self._generation = 0
        self._born: dict[int, int] = {}

    @property
    def free(self) -> bool:
        """True when one more may be taken."""
        return self._out < self._limit

    def take(self) -> Connection | None:
        """The idle connection that was used last, or None: then the caller opens one. Either way one more is out."""
        self._out += 1
        return self._idle.pop() if self._idle else None

    def opened(self, connection: Connection) -> None:
        """A taken place was filled with a new connection."""
        self._born[id(connection)] = self._generation

    def give(self, connection: Connection | None) -> list[Connection]:
        """Puts a connection (None: none could be opened) back, and gives the ones that are now to be dropped.

        One broken link makes its idle siblings suspect: a restarted server has cut them all, and each would fail
        somebody once.
        """
        self._out -= 1
        if connection is None:
            return []
        born = self._born.get(id(connection), self._generation)
        if not connection.usable:
            self._generation = max(self._generation, born + 1)
            suspects, self._idle = self._idle, []
            return self._forget([connection, *suspects])
        if born < self._generation:
            return self._forget([connection])
        self._idle.append(connection)
        return []

    def empty(self) -> list[Connection]:
        """Takes all idle connections off, to be dropped."""
        idle, self._idle = self._idle, []
        return self._forget(idle)

    def _forget(self, connections: list[Connection]) -> list[Connection]:
        for connection in connections:
            self._born.pop(id(connection), None)
        return connections


class Pool:
    """At most ``limit`` connections, opened when first needed. Safe for threads, and for a forked child, which starts
    empty.
    """

    def __init__(self, connector: Connector, limit: int) -> None:
        self._connector = connector
        self._limit = limit
        self._reset()

    def _reset(self) -> None:
        self._pid = os.getpid()
        self._shelf = Shelf(self._limit)
        self._changed = threading.Condition()

    @contextmanager
    def take(self, login_timeout: int, patience: float) -> Iterator[Connection]:
        """A connection for one call. Raises LeaseStoreError when none is free for ``patience`` seconds, Retry when
        none can be opened.
        """
        if self._pid != os.getpid():
            self._reset()
        with self._changed:
            if not self._changed.wait_for(lambda: self._shelf.free, patience):
                raise LeaseStoreError(
                    f"all {self._limit} connections of the store were busy for {patience:g} s: raise max_connections",
                    transient=True,
                )
            connection = self._shelf.take()
        try:
            if connection is None:
                connection = Connection(self._connector.open(login_timeout), self._connector.hidden)
                with self._changed:
                    self._shelf.opened(connection)
            yield connection
        except BaseException as error:
            # Whatever ended the call in the middle (also Ctrl-C) leaves a link that may still get the old answer.
            clean = isinstance(error, Retry) and error.fault.kind is Kind.CONTENTION
            if connection is not None and not clean:
                connection.drop()
            raise
        finally:
            with self._changed:
                useless = self._shelf.give(connection)
                self._changed.notify()
            for old in useless:
                old.drop()

    def close(self) -> None:
        """Drops the idle connections; those in use are dropped by the next failure or close. The pool can be used
        again.
        """
        if self._pid != os.getpid():
            self._reset()
        with self._changed:
            idle = self._shelf.empty()
        for connection in idle:
            connection.drop()
