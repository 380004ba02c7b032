"""One stand-in with a lease table in it, one driver, and the handles that the tests of faults and surroundings pull.

Knows the wire of the stand-in (what to match, what to wait for). Knows nothing of what a test wants to see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from types import TracebackType
from typing import Any, NamedTuple, Self

import pyodbc

from sqllease import LeaseOptions, LeaseStore, SqlLease, schema
from sqllease.clock import Clock
from sqllease.testing import LocalSqlServer, ManualClock
from sqllease.testing.server.faults import Hold
from sqllease.testing.server.requestlog import Request
from tests.drivers import Driver

QUICK = LeaseOptions(duration=6, command_timeout=3, lock_timeout=0.5)
"""Belief for 5.4 s after the send, no attempt later than 2 s after the call began. The driver's patience is real time:
long enough that a busy machine alone never wears it out.
"""
HASTY = LeaseOptions(duration=18, command_timeout=2, lock_timeout=0.5)
"""For tests that have to wait until the driver gives up; a call has six seconds."""

FOR_EVER = 10**6

ACQUIRE, RENEW, RELEASE = "MERGE INTO", "Move the expiry", "Give one tenure back"
"""Part of the text of each verb's batch."""

_ROWS = """
SELECT LeaseName, OwnerInstanceId, CONVERT(nvarchar(34), AcquiredAtUtc, 126), CONVERT(nvarchar(34), ExpiresAtUtc, 126),
       CAST([RowVersion] AS bigint)
  FROM [lease].[Leases] ORDER BY LeaseName;
"""


class SeenRow(NamedTuple):
    """A row as the administrator sees it; times as ISO text, which sorts as they do."""

    name: str
    owner: str
    acquired: str
    expires: str
    version: int


class Bench:
    """Use it in ``with``: what was opened through it is closed at the end. Time stands still for leases that
    ``lease()`` gives, until ``clock.advance``.
    """

    def __init__(self, server: LocalSqlServer, driver: Driver) -> None:
        self.server = server
        self.driver = driver
        self.clock = ManualClock()
        self._open = contextlib.ExitStack()
        self._stores: list[LeaseStore] = []
        server.execute(schema.create_script())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.server.faults.clear()
        self._open.close()

    # the client's side

    def dsn(self, **keywords: Any) -> str:
        return self.server.connection_string(driver=self.driver.odbc, **keywords)

    def store(self, connection: str | Callable[[], Any] | None = None, **keywords: Any) -> LeaseStore:
        keywords = {"login_timeout": 5} | keywords
        store = LeaseStore(self.dsn() if connection is None else connection, **keywords)
        self._open.callback(store.close)
        self._stores.append(store)
        return store

    def hang_up(self) -> None:
        """Closes all idle connections of the stores: the next call has to log in."""
        for store in self._stores:
            store.close()

    def lease(
        self,
        name: str = "job",
        connection: str | Callable[[], Any] | LeaseStore | None = None,
        *,
        options: LeaseOptions = QUICK,
        clock: Clock | None = None,
        **keywords: Any,
    ) -> SqlLease:
        store = connection if isinstance(connection, LeaseStore) else self.store(connection)
        return store.lease(name, options=options, clock=clock or self.clock, **keywords)

    def raw(self, *, autocommit: bool = True, **keywords: Any) -> pyodbc.Connection:
        """A connection of somebody else, to be used by hand."""
        connection = pyodbc.connect(self.dsn(**keywords), autocommit=autocommit, timeout=5)
        self._open.callback(connection.close)
        return connection

    # the server's side

    def rows(self) -> list[SeenRow]:
        found: list[Any] = self.server.execute(_ROWS)
        return [SeenRow(*row) for row in found]

    def row(self) -> SeenRow:
        (row,) = self.rows()
        return row

    def slow(self, seconds: float, at: str = "before") -> None:
        """From now on each statement (or, with "login", each login) takes so long by the leases' clock."""

        def pass_time(request: Request) -> None:
            if not request.housekeeping:
                self.clock.advance(seconds)

        self.server.faults.drop(at, times=FOR_EVER, matching=pass_time)

    def sent(self, text: str) -> list[Request]:
        """What clients have asked with this in it, so far."""
        return [request for request in self.server.log.requests if text in request.text and not request.housekeeping]

    def arrived(self, text: str) -> Request:
        """Waits for the first such request."""
        return self.server.log.wait_for(lambda request: text in request.text and not request.housekeeping)

    def finished(self, request: Request) -> None:
        """Waits until the server is through with it."""
        self.server.log.wait_for(lambda other: other is request and request.finished)

    @contextlib.contextmanager
    def kept_back(self, text: str, when: str = "before") -> Iterator[Hold]:
        """The network keeps the first such request (or, with "after", its answer) until the end of the block, or
        ``release``.
        """
        hold = self.server.faults.hold(when, matching=text)
        try:
            yield hold
        finally:
            hold.release()
