"""What a verb costs, counted by the server: round trips, logins, locks, writes, declared types.

Microsoft's driver needs one round trip for each verb; FreeTDS may add one for its own bookkeeping. The full figure of
lost tries needs minutes with SQLLEASE_TEST_FULL=1; the usual run does a twentieth of it.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pyodbc
import pytest

from sqllease import LeaseOptions, LeaseStore, SqlLease

from .support import World, at_once, requests_of

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

Cost = Callable[[Callable[[], bool], bool], int]
NO_SWEEP = LeaseOptions(sweep_limit=0)
LOST_TRIES = 10_000 if os.environ.get("SQLLEASE_TEST_FULL") else 500


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests read the server's log."""
    return server.connection_string(driver=driver.odbc)


@pytest.fixture
def allowed(driver: Driver) -> int:
    """Round trips that one verb may cost."""
    return 1 if driver.id == "ms" else 2


@pytest.fixture
def cost(server: LocalSqlServer) -> Cost:
    """Runs a verb that has to give this answer, and counts its round trips."""

    def count(verb: Callable[[], bool], answer: bool) -> int:
        server.log.clear()
        assert verb() is answer
        return server.log.round_trips

    return count


def warm(lease: SqlLease) -> SqlLease:
    """A lease whose store has been through every verb once: the steady state."""
    lease.try_acquire()
    lease.try_renew()
    lease.try_release()
    return lease


class TestRoundTrips:
    def test_a_won_acquire(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        assert cost(warm(store.lease("job")).try_acquire, True) <= allowed

    def test_a_lost_acquire(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        holder, other = warm(store.lease("job")), store.lease("job")
        holder.try_acquire()
        assert cost(other.try_acquire, False) <= allowed

    def test_a_takeover(self, store: LeaseStore, cost: Cost, allowed: int, world: World) -> None:
        holder, other = warm(store.lease("job")), store.lease("job")
        holder.try_acquire()
        world.server.clock.advance(60)
        assert cost(other.try_acquire, True) <= allowed

    def test_a_refresh(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        lease = warm(store.lease("job"))
        lease.try_acquire()
        assert cost(lease.try_acquire, True) <= allowed

    def test_a_renew(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        lease = warm(store.lease("job"))
        lease.try_acquire()
        assert cost(lease.try_renew, True) <= allowed

    def test_a_renew_of_a_lost_lease(self, store: LeaseStore, cost: Cost, allowed: int, world: World) -> None:
        lease = warm(store.lease("job", clock=world.client))
        lease.try_acquire()
        world.server.clock.advance(60)
        assert cost(lease.try_renew, False) <= allowed

    def test_a_release(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        lease = warm(store.lease("job"))
        lease.try_acquire()
        assert cost(lease.try_release, True) <= allowed

    def test_a_release_into_rest(self, store: LeaseStore, cost: Cost, allowed: int) -> None:
        warm(store.lease("other job"))
        lease = store.lease("job", options=LeaseOptions(hold_at_least=600))
        lease.try_acquire()
        assert cost(lease.try_release, True) <= allowed

    @pytest.mark.parametrize("metadata", [None, "", "m" * 1024], ids=["None", "empty", "1024 units"])
    def test_an_acquire_with_any_metadata(
        self, store: LeaseStore, cost: Cost, allowed: int, metadata: str | None
    ) -> None:
        warm(store.lease("job"))
        assert cost(store.lease("job", metadata=metadata).try_acquire, True) <= allowed

    def test_what_is_known_without_asking_costs_nothing(self, store: LeaseStore, server: LocalSqlServer) -> None:
        lease = warm(store.lease("job"))
        lease.try_acquire()
        server.log.clear()
        lease.check()
        assert lease.held
        assert (lease.remaining > 0, lease.fencing_token is None, lease.holder) == (True, False, None)
        assert server.log.requests == []

    def test_a_verb_without_a_tenure_asks_nothing(self, store: LeaseStore, server: LocalSqlServer) -> None:
        lease = warm(store.lease("job"))
        server.log.clear()
        assert lease.try_renew() is False
        assert lease.try_release() is False
        assert server.log.requests == []


class TestLogins:
    def test_a_thousand_operations_of_one_lease_are_one_login(self, dsn: str, server: LocalSqlServer) -> None:
        LeaseStore(dsn).ensure_created()
        lease = SqlLease("job", dsn)
        server.log.clear()
        for _ in range(250):
            assert lease.try_acquire()
            assert lease.try_renew()
            assert lease.try_renew()
            assert lease.try_release()
        assert server.log.logins == 1
        lease.close()

    def test_a_store_has_no_more_connections_than_it_may(self, dsn: str, server: LocalSqlServer) -> None:
        store = LeaseStore(dsn, max_connections=2)
        store.ensure_created()
        server.log.clear()
        assert all(at_once([store.lease(f"job {number}").try_acquire for number in range(12)]))
        assert server.log.logins <= 2
        assert server.connections <= 2
        store.close()

    def test_closing_the_store_closes_its_connections(self, store: LeaseStore, server: LocalSqlServer) -> None:
        warm(store.lease("job"))
        assert server.connections == 1
        store.close()
        server.log.wait_for(lambda request: request.kind == "close")
        assert server.connections == 0


class TestDeclaredTypes:
    def test_they_are_the_same_for_every_length_of_name_owner_and_metadata(
        self, store: LeaseStore, server: LocalSqlServer
    ) -> None:
        warm(store.lease("job"))
        server.log.clear()
        for length in (1, 2, 10, 39, 64, 65, 127, 128):
            for metadata in (None, "", "m" * length, "m" * 8 * length):
                lease = store.lease("n" * length, owner_id="o" * length, metadata=metadata, options=NO_SWEEP)
                assert lease.try_acquire()
                assert lease.try_renew()
                assert lease.try_release()
        for statement in ("MERGE INTO", "Move the expiry", "Give one tenure back"):
            declared = {request.parameters for request in requests_of(server, statement) if request.parameters}
            assert len(declared) == 1

    def test_the_text_is_the_same_for_every_name(self, store: LeaseStore, server: LocalSqlServer) -> None:
        warm(store.lease("job"))
        server.log.clear()
        for length in (1, 50, 200):
            store.lease("n" * length, options=NO_SWEEP).try_acquire()
        assert len({request.text for request in requests_of(server, "MERGE INTO")}) == 1


class TestALostAcquire:
    def test_writes_nothing(self, store: LeaseStore, world: World) -> None:
        holder, other = warm(store.lease("job")), store.lease("job", metadata="other")
        holder.try_acquire()
        before = world.row("job")
        world.server.log.clear()
        for _ in range(5):
            assert other.try_acquire() is False
        asked = requests_of(world.server, "MERGE INTO")
        assert [(request.work.rows_written, request.errors) for request in asked] == [(0, [])] * 5
        assert world.row("job") == before

    def test_takes_no_lock_but_the_one_on_the_schema_that_every_read_takes(
        self, store: LeaseStore, server: LocalSqlServer, dsn: str
    ) -> None:
        holder, other = warm(store.lease("job")), store.lease("job")
        holder.try_acquire()
        # Exclusive locks on every key and on the gaps between: whoever asked for a lock of a row would wait.
        session = pyodbc.connect(dsn, autocommit=False)
        session.execute("UPDATE [lease].[Leases] WITH (HOLDLOCK) SET Metadata = Metadata")
        server.log.clear()
        assert other.try_acquire() is False
        session.rollback()
        session.close()
        (asked,) = requests_of(server, "MERGE INTO")
        dirty_reads = 2
        assert (asked.work.locks, asked.work.lock_waits) == (dirty_reads, 0)

    @pytest.mark.skipif(sys.platform == "win32", reason="no list of open files")
    def test_many_of_them_leave_connections_and_files_as_they_were(
        self, store: LeaseStore, server: LocalSqlServer
    ) -> None:
        holder, other = store.lease("job"), store.lease("job")
        holder.try_acquire()
        other.try_acquire()
        connections, files = server.connections, open_files()
        server.log.clear()
        for _ in range(LOST_TRIES):
            assert other.try_acquire() is False
        assert server.connections == connections
        assert open_files() <= files
        assert server.log.logins == 0
        assert server.log.errors == []


def open_files() -> int:
    """How many file descriptors this process has open, the stand-in's included."""
    return len(list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()))
