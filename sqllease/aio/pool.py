"""``AsyncPool``: the async waiting around a ``Shelf``. Bound to no loop, like all that it holds."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from sqllease.connection import Connector
from sqllease.faults import Retry
from sqllease.pool import Shelf, all_in_use, forked_pools, spoils

from .connection import AsyncConnection
from .turns import Turns


class AsyncPool:
    """At most ``limit`` connections, opened when first needed. For any number of loops, and for a forked child, which
    starts empty.
    """

    def __init__(self, connector: Connector, limit: int) -> None:
        self.connector = connector
        self._limit = limit
        self.reset()
        forked_pools.add(self)

    def reset(self) -> None:
        """Forgets all connections: they are the parent's."""
        self._shelf: Shelf[AsyncConnection] = Shelf(self._limit)
        self._turns = Turns(self._limit)
        self._lock = threading.Lock()

    @asynccontextmanager
    async def take(self, login_timeout: int, patience: float) -> AsyncIterator[AsyncConnection]:
        """A connection for one call. Raises Retry when none is free for ``patience`` seconds, or none can be opened."""
        if not await self._turns.take(patience):
            raise Retry(all_in_use(self._limit, patience))
        with self._lock:
            connection = self._shelf.take()
        try:
            if connection is None:
                connection = await AsyncConnection.open(self.connector, login_timeout)
                with self._lock:
                    self._shelf.opened(connection)
            yield connection
        except BaseException as error:
            if connection is not None and spoils(error):
                connection.drop()
            raise
        finally:
            with self._lock:
                useless = self._shelf.give(connection)
            for old in useless:
                old.drop()
            self._turns.give()

    def close(self) -> None:
        """Drops the idle connections, without waiting for it. The pool can be used again."""
        with self._lock:
            idle = self._shelf.empty()
        for connection in idle:
            connection.drop()
