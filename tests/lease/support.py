"""What the tests of the lease share: the shape of a lease, threads that report, and how to wait for an event.

Knows both the library's names and the stand-in's. Nothing here waits for time to pass: only for something to happen.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import pyodbc

from sqllease import Lease, LeaseOptions
from sqllease.testing import ManualClock
from sqllease.testing.server.sqltypes import Moment
from sqllease.testing.server.transactions import Commit, RowImage

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from sqllease.testing.server.requestlog import Request

T = TypeVar("T")

TICKS = 10_000_000
PATIENCE_S = 40.0
"""How long something that must happen may take before the test fails."""
TABLE = "[lease].[Leases]"


class AnyLease(Lease, Protocol):
    """A lease of the library with blocking verbs, whatever drives it."""

    @property
    def options(self) -> LeaseOptions: ...
    @property
    def metadata(self) -> str | None: ...
    @property
    def confirmed(self) -> bool | None: ...


class MakeLease(Protocol):
    """Makes a contender for the lease of this test, or for another name; keywords as for SqlLease."""

    def __call__(self, name: str | None = None, **keywords: Any) -> AnyLease: ...


class World:
    """Time on both sides: a stand-in whose clock stands still, and a client's clock beside it."""

    def __init__(self, server: LocalSqlServer) -> None:
        self.server = server
        self.client = ManualClock()

    def passes(self, seconds: float) -> None:
        """Lets time pass everywhere."""
        self.server.clock.advance(seconds)
        self.client.advance(seconds)

    def row(self, name: str) -> Row | None:
        """The row of a lease as it stands in the table, exact to 100 ns; None when there is none."""
        times = (
            f"DATEDIFF_BIG(nanosecond, '2000-01-01', {column}) / 100"
            for column in ("AcquiredAtUtc", "RenewedAtUtc", "ExpiresAtUtc", "CAST(SYSUTCDATETIME() AS datetimeoffset)")
        )
        literal = name.replace("'", "''")
        rows = self.server.execute(
            f"SELECT OwnerInstanceId, {', '.join(times)}, CAST(RowVersion AS bigint) FROM {TABLE} "
            f"WHERE LeaseName = N'{literal}'"
        )
        return Row(*rows[0]) if rows else None  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Row:
    """One row of the lease table. Times are ticks of 100 ns; now is the server's clock at the read."""

    owner: str
    acquired: int
    renewed: int
    expires: int
    now: int
    version: int

    @property
    def acquired_ago(self) -> float:
        """Seconds since the tenure began, by the server's clock."""
        return (self.now - self.acquired) / TICKS

    @property
    def expires_in(self) -> float:
        """Seconds until the row expires, by the server's clock."""
        return (self.expires - self.now) / TICKS

    @property
    def lasts(self) -> float:
        """Seconds from the begin of the tenure to the row's expiry."""
        return (self.expires - self.acquired) / TICKS


def in_background(call: Callable[[], T]) -> Future[T]:
    """Runs the call in a thread of its own; the future has its result or its exception."""
    future: Future[T] = Future()

    def run() -> None:
        try:
            future.set_result(call())
        except BaseException as error:  # noqa: BLE001 - handed to whoever asks for the result
            future.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    return future


def at_once(calls: Sequence[Callable[[], T]]) -> list[T]:
    """Runs every call in its own thread, all started by one barrier. Raises what a call raised."""
    barrier = threading.Barrier(len(calls))

    def after_barrier(call: Callable[[], T]) -> T:
        barrier.wait(PATIENCE_S)
        return call()

    futures = [in_background(partial(after_barrier, call)) for call in calls]
    return [future.result(PATIENCE_S) for future in futures]


def wait_until(condition: Callable[[], object], what: str) -> None:
    """Returns as soon as the condition is true."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"did not happen within {PATIENCE_S:g} s: {what}")
        time.sleep(0.002)


def wait_until_somebody_waits_for_a_lock(server: LocalSqlServer) -> None:
    """Returns once a session of the stand-in is blocked by a lock."""
    engine = server.engine
    wait_until(
        lambda: any(engine.instance.locks.waiting(session) for session in list(engine.sessions.values())),
        "a session waits for a lock",
    )


@contextmanager
def locked_row(connection_string: str, name: str) -> Iterator[Callable[[], None]]:
    """Another session's open transaction that has changed the row of this lease, as a person's window would.

    Gives what ends it; it ends with the block at the latest.
    """
    session = pyodbc.connect(connection_string, autocommit=False)
    try:
        session.execute(f"UPDATE {TABLE} SET Metadata = Metadata WHERE LeaseName = ?", name)
        yield session.rollback
        session.rollback()
    finally:
        session.close()


def value(connection: pyodbc.Connection, query: str, *parameters: object) -> Any:
    """The one value of a query. Reads to the end: FreeTDS can ask nothing else on a connection before that."""
    ((answer,),) = connection.execute(query, *parameters).fetchall()
    return answer


def add_expired_rows(server: LocalSqlServer, count: int, *, seconds_ago: float, prefix: str = "old") -> None:
    """Puts rows into the lease table that expired so long ago, in one commit and without a lock, as a replica takes
    them over: a hundred thousand rows take seconds. Nobody may be asking the server meanwhile.
    """
    database = server.engine.default
    table = database.table("lease", "Leases")
    assert table is not None
    expiry = server.clock.ticks() - round(seconds_ago * TICKS)
    images = []
    for number in range(count):
        began, version = Moment(expiry - 30 * TICKS - number), database.next_rowversion()
        row = (f"{prefix}-{number:06}", "dead", began, began, Moment(expiry - number), None, version)
        images.append(RowImage(table.id, table.clustered.key_of(row, ()), row))
    database.apply(Commit(database.sequence + 1, tuple(images), database.rowversion))
    for record in list(table.versioned):
        table.settle(record)


def names_in(server: LocalSqlServer) -> list[str]:
    """The names of all rows in the lease table, sorted."""
    return sorted(str(name) for (name,) in server.execute(f"SELECT LeaseName FROM {TABLE}"))


def row_count(server: LocalSqlServer) -> int:
    """How many rows the lease table has."""
    table = server.engine.default.table("lease", "Leases")
    assert table is not None
    return table.row_count()


def requests_of(server: LocalSqlServer, part: str) -> list[Request]:
    """The requests in the server's log whose text has this part, in their order."""
    return [request for request in server.log.requests if part in request.text]
