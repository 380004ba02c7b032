"""A row that somebody else keeps locked: each call comes back within its bound, and False is only what was seen."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pyodbc
import pytest

from sqllease import LeaseOptions, LeaseStoreError
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, Bench
from .support import PATIENCE_S, in_background, wait_until_somebody_waits_for_a_lock

IMPATIENT = LeaseOptions(duration=6, command_timeout=5, lock_timeout=0.02)


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


@pytest.fixture
def window(bench: Bench) -> pyodbc.Connection:
    """A person's window with a transaction open, until the end of the test."""
    return bench.raw(autocommit=False)


def lock(window: pyodbc.Connection, name: str = "job") -> None:
    (count,) = window.execute(
        "SELECT COUNT(*) FROM [lease].[Leases] WITH (UPDLOCK) WHERE LeaseName = ?", name
    ).fetchone()
    assert count == 1


def expired_row(bench: Bench) -> None:
    bench.lease(owner_id="former").try_acquire()
    bench.server.clock.advance(60)


def test_an_acquire_of_a_locked_expired_row_raises_a_transient_error_within_its_bound(
    bench: Bench, window: pyodbc.Connection
) -> None:
    expired_row(bench)
    lock(window)
    lease = bench.lease(options=IMPATIENT)
    bench.slow(1.5)
    with pytest.raises(LeaseStoreError, match="busy") as caught:
        lease.try_acquire()
    assert (caught.value.number, caught.value.transient) == (1222, True)
    assert not lease.held
    assert bench.row().owner == "former"
    window.rollback()
    assert lease.try_acquire() is True


def test_an_acquire_of_a_row_that_another_owner_is_seen_to_hold_is_false_without_waiting_for_its_lock(
    bench: Bench, window: pyodbc.Connection
) -> None:
    bench.lease(owner_id="holder").try_acquire()
    lock(window)
    bench.server.log.clear()
    assert bench.lease(options=IMPATIENT).try_acquire() is False
    (request,) = bench.sent(ACQUIRE)
    assert (request.work.lock_waits, request.errors) == (0, [])


def test_an_acquire_that_waits_in_vain_is_false_when_it_then_sees_another_owner(
    bench: Bench, window: pyodbc.Connection
) -> None:
    bench.server.engine.scheduler.switch_probability = 0
    expired_row(bench)
    lock(window)
    lease = bench.lease()
    bench.slow(3)
    call = in_background(lease.try_acquire)
    wait_until_somebody_waits_for_a_lock(bench.server)
    bench.server.log.clear()
    window.execute(
        "UPDATE [lease].[Leases] SET OwnerInstanceId = N'winner', ExpiresAtUtc = DATEADD(hour, 1, SYSUTCDATETIME())"
    )
    bench.server.clock.advance(lease.options.lock_timeout)
    assert call.result(PATIENCE_S) is False
    assert bench.sent(ACQUIRE) == []  # it was the answer of the very attempt that had waited
    assert lease.holder is not None
    assert lease.holder.owner_id == "winner"


def test_a_renew_of_a_locked_row_raises_and_the_lease_is_still_held(bench: Bench, window: pyodbc.Connection) -> None:
    lease = bench.lease(options=IMPATIENT)
    lease.try_acquire()
    lock(window)
    bench.slow(1.5)
    with pytest.raises(LeaseStoreError) as caught:
        lease.try_renew()
    assert (caught.value.number, caught.value.transient) == (1222, True)
    assert lease.held
    window.rollback()
    bench.server.faults.clear()
    assert lease.try_renew() is True


def test_a_renew_whose_row_is_locked_by_a_winner_raises_and_is_not_called_lost(
    bench: Bench, window: pyodbc.Connection
) -> None:
    lease = bench.lease(options=IMPATIENT)
    lease.try_acquire()
    window.execute("UPDATE [lease].[Leases] SET OwnerInstanceId = N'winner'")
    bench.slow(1.5)
    with pytest.raises(LeaseStoreError, match="busy"):
        lease.try_renew()
    assert lease.held


def test_a_release_of_a_locked_row_raises_and_the_lease_is_not_held(bench: Bench, window: pyodbc.Connection) -> None:
    lease = bench.lease(options=IMPATIENT)
    lease.try_acquire()
    lock(window)
    bench.slow(1.5)
    with pytest.raises(LeaseStoreError) as caught:
        lease.try_release()
    assert (caught.value.number, caught.value.transient) == (1222, True)
    assert not lease.held


def test_a_row_that_is_locked_for_a_moment_only_is_won(bench: Bench, window: pyodbc.Connection) -> None:
    expired_row(bench)
    lock(window)
    lease = bench.lease()
    call = in_background(lease.try_acquire)
    wait_until_somebody_waits_for_a_lock(bench.server)
    window.rollback()
    assert call.result(PATIENCE_S) is True


def test_a_window_left_open_over_the_whole_table_holds_nobody_up_beyond_the_bound(
    bench: Bench, window: pyodbc.Connection
) -> None:
    mine = bench.lease("mine", options=IMPATIENT)
    mine.try_acquire()
    bench.lease("taken").try_acquire()
    window.execute("SELECT LeaseName FROM [lease].[Leases] WITH (UPDLOCK)").fetchall()
    options = LeaseOptions(duration=6, command_timeout=3, lock_timeout=0.05)  # no attempt after two seconds
    began = time.monotonic()
    assert bench.lease("taken", options=options).try_acquire() is False
    assert bench.lease("wanted", options=options).try_acquire() is True  # behind all locked keys: not concerned
    with pytest.raises(LeaseStoreError, match="busy"):
        bench.lease("mine", options=options, clock=Real(), owner_id=mine.owner_id).try_acquire()
    assert time.monotonic() - began < 2 * options.duration


def test_inspection_waits_for_no_lock(bench: Bench, window: pyodbc.Connection) -> None:
    store = bench.store()
    bench.lease(connection=store, owner_id="holder").try_acquire()
    window.execute("UPDATE [lease].[Leases] SET Metadata = N'x'")
    bench.server.log.clear()
    seen = store.get("job")
    assert seen is not None
    assert seen.owner_id == "holder"
    assert [info.name for info in store.list()] == ["job"]
    assert all(request.work.lock_waits == 0 for request in bench.server.log.requests)


def test_a_purge_passes_over_locked_rows(bench: Bench, window: pyodbc.Connection) -> None:
    store = bench.store()
    for name in ("job", "other"):
        bench.lease(name).try_acquire()
    bench.server.clock.advance(7200)
    lock(window)
    assert store.purge() == 1
    assert [row.name for row in bench.rows()] == ["job"]


class Real:
    """The machine's clock: for calls that end by time alone."""

    def now(self) -> float:
        return time.monotonic()
