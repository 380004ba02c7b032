"""A primary and its replica whose clocks stand still, and leases of both colours that ask for confirmation.

Knows the wire of the stand-in: what a look at the replica looks like there. Knows nothing of what a test wants to see.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqllease import AsyncLeaseStore, LeaseOptions, LeaseStore, ReplicaOptions, schema
from sqllease.clock import Clock
from sqllease.testing import LocalSqlServer, ManualClock
from sqllease.testing.server.faults import Hold
from sqllease.testing.server.requestlog import Request
from tests.drivers import Driver
from tests.lease.driven import Desk, DrivenLease
from tests.lease.support import PATIENCE_S, AnyLease, in_background

OPTIONS = LeaseOptions(duration=30, safety_margin=3, command_timeout=10, lock_timeout=1)
"""Belief for 27 s after the send."""
TIMEOUT = 5.0
"""For how long the replica is looked at."""
ACQUIRE, RENEW, RELEASE, LOOK = "MERGE INTO", "Move the expiry", "Give one tenure back", "Updateability"
"""Part of the text of each batch."""
FOR_EVER = 10**6

_ROWS = """
SELECT OwnerInstanceId, CONVERT(nvarchar(34), AcquiredAtUtc, 126), CAST([RowVersion] AS bigint)
  FROM [lease].[Leases] WHERE LeaseName = N'job'
"""
TOUCH = "UPDATE [lease].[Leases] SET Metadata = N'by hand'"


class SeenRow(NamedTuple):
    """The row of the lease as the administrator sees it."""

    owner: str
    began: str
    version: int


class Stage:
    """Use it in ``with``: what was opened through it is closed at the end. colour: sync or async."""

    def __init__(self, server: LocalSqlServer, driver: Driver, colour: str, *, table: bool = True) -> None:
        self.server, self.replica, self.driver, self.colour = server, server.replica, driver, colour
        self.clock = ManualClock()
        self._open = contextlib.ExitStack()
        self._desk = self._open.enter_context(Desk())
        if table:
            server.execute(schema.create_script())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for endpoint in (self.server, self.replica):
            endpoint.faults.clear()
        self._open.close()

    # the client's side

    def options(self, connection: str | Callable[[], Any] | None = None, **keywords: Any) -> ReplicaOptions:
        """By default a look follows the other at once: time passes as the looks let it, see ``each_look_takes``."""
        if connection is None:
            connection = self.replica.connection_string(self.driver.odbc)
        return ReplicaOptions(connection, **{"timeout": TIMEOUT, "poll_interval": 0.001, **keywords})

    def leases(
        self,
        *owners: str,
        options: LeaseOptions = OPTIONS,
        clock: Clock | None = None,
        names: Sequence[str] | None = None,
        **replica: Any,
    ) -> list[AnyLease]:
        """Leases of one new store, of these owners; all of the name "job", or with names of their own. replica: as for
        ``ReplicaOptions``.
        """
        wanted = list(zip(names or ["job"] * len(owners), owners, strict=True))
        primary, confirming = self.server.connection_string(self.driver.odbc), self.options(**replica)
        keywords: dict[str, Any] = {"options": options, "clock": clock or self.clock}
        if self.colour == "sync":
            store = LeaseStore(primary, replica=confirming)
            self._open.callback(store.close)
            return [store.lease(name, owner_id=owner, **keywords) for name, owner in wanted]
        awaited = AsyncLeaseStore(primary, replica=confirming)
        self._open.callback(lambda: self._desk.run(awaited.aclose()))
        return [DrivenLease(self._desk, awaited.lease(name, owner_id=owner, **keywords)) for name, owner in wanted]

    def lease(self, owner: str = "me", **keywords: Any) -> AnyLease:
        """The one lease of a new store."""
        (lease,) = self.leases(owner, **keywords)
        return lease

    def passes(self, seconds: float) -> None:
        """Lets time pass everywhere."""
        self.server.clock.advance(seconds)
        self.clock.advance(seconds)

    # the servers' side

    def each_look_takes(self, seconds: float) -> None:
        """From now on each look takes so long, on all clocks."""

        def pass_time(request: Request) -> None:
            if is_look(request):
                self.passes(seconds)

        self.replica.faults.drop("before", times=FOR_EVER, matching=pass_time)

    @contextlib.contextmanager
    def before_the_look(self, call: Callable[[], bool]) -> Iterator[Outcome]:
        """Begins the call and gives way once its first look is on its way to the replica; it goes on after the
        block.
        """
        hold: Hold = self.replica.faults.hold(matching=is_look)
        outcome = Outcome()
        try:
            future = in_background(call)
            assert hold.held.wait(PATIENCE_S)
            yield outcome
        finally:
            hold.release()
        outcome.error = future.exception(PATIENCE_S)
        outcome.value = None if outcome.error else future.result()

    @property
    def looks(self) -> list[Request]:
        """What the replica was asked so far."""
        return [request for request in self.replica.log.requests if is_look(request)]

    def sent(self, text: str) -> list[Request]:
        """What the primary was asked with this in it, so far."""
        return [request for request in self.server.log.requests if text in request.text and not request.housekeeping]

    @property
    def row(self) -> SeenRow | None:
        """The row on the primary; None when there is none."""
        rows: list[Any] = self.server.execute(_ROWS)
        return SeenRow(*rows[0]) if rows else None

    @property
    def owner(self) -> str | None:
        """Who is in the row."""
        row = self.row
        return None if row is None else row.owner

    def is_lost_to(self, owner: str) -> None:
        """The primary is lost with what the replica has not got, and on the new one this owner takes the lease."""
        self.server.failover(lose_tail=True)
        with contextlib.closing(LeaseStore(self.server.connection_string(self.driver.odbc))) as store:
            assert store.lease("job", owner_id=owner, options=OPTIONS, clock=self.clock).try_acquire()


class Outcome:
    """How a call has ended: filled in when it has."""

    value: bool | None = None
    error: BaseException | None = None


def is_look(request: Request) -> bool:
    return LOOK in request.text and not request.housekeeping
