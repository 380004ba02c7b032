"""The sweep: a won acquire deletes some rows that expired long ago, and nobody notices.

Costs are the server's own counts. Those of a table with 100,000 expired rows must equal those of a table with one row
more than the sweep may take; those of an acquire that does not sweep must equal those of an empty table.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import pyodbc
import pytest

from sqllease import LeaseOptions, LeaseStore
from sqllease.testing import LocalSqlServer, ManualClock

from .support import add_expired_rows, at_once, locked_row, names_in, requests_of, row_count

if TYPE_CHECKING:
    from sqllease.testing.server.sqltypes import Work
    from tests.drivers import Driver

LIMIT = 50
MANY = 100_000
DAY_S = 86_400.0
SWEEP = LeaseOptions(duration=300, sweep_limit=LIMIT)  # a command time-out that no busy machine reaches
NO_SWEEP = SWEEP.but(sweep_limit=0)


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests read the server's counts."""
    return server.connection_string(driver=driver.odbc)


@pytest.fixture(scope="module")
def crowded() -> Iterator[LocalSqlServer]:
    """A server whose table has 100,000 expired rows."""
    with LocalSqlServer() as server:
        LeaseStore(server.connection_string()).ensure_created()
        add_expired_rows(server, MANY, seconds_ago=DAY_S)
        yield server


def acquire(server: LocalSqlServer, driver: Driver, options: LeaseOptions) -> Work:
    """One acquire of a fresh name by a store that has not swept yet, and what it made the server do."""
    store = LeaseStore(server.connection_string(driver=driver.odbc))
    store.ensure_created()
    lease = store.lease("fresh", options=options)
    server.log.clear()
    assert lease.try_acquire()
    (asked,) = requests_of(server, "MERGE INTO")
    lease.try_release()
    store.close()
    return asked.work


class TestCost:
    def test_a_sweep_among_100_000_expired_rows_costs_no_more_than_among_one_more_than_it_takes(
        self, crowded: LocalSqlServer, server: LocalSqlServer, store: LeaseStore, driver: Driver
    ) -> None:
        add_expired_rows(server, LIMIT + 1, seconds_ago=DAY_S)
        assert acquire(crowded, driver, SWEEP) == acquire(server, driver, SWEEP)

    @pytest.mark.parametrize("limit", [1, LIMIT, 400])
    def test_a_sweep_deletes_as_many_rows_as_it_may_and_waits_for_none(
        self, crowded: LocalSqlServer, driver: Driver, limit: int
    ) -> None:
        before = row_count(crowded)
        work = acquire(crowded, driver, SWEEP.but(sweep_limit=limit))
        assert before - row_count(crowded) == limit
        assert work.rows_written == limit + 1
        assert work.lock_waits == 0

    def test_an_acquire_that_does_not_sweep_costs_as_much_as_in_an_empty_table(
        self, crowded: LocalSqlServer, server: LocalSqlServer, driver: Driver
    ) -> None:
        assert acquire(crowded, driver, NO_SWEEP) == acquire(server, driver, NO_SWEEP)

    def test_a_sweep_that_finds_nothing_locks_no_row(self, server: LocalSqlServer, driver: Driver) -> None:
        # Each of its two reads of the table has its lock on the table alone, and no more than that.
        assert acquire(server, driver, SWEEP).locks - acquire(server, driver, NO_SWEEP).locks <= 2


class TestWhen:
    def test_at_most_once_in_ten_seconds_for_each_store(self, server: LocalSqlServer, store: LeaseStore) -> None:
        clock = ManualClock()
        one, other = store.lease("a", options=SWEEP, clock=clock), store.lease("b", options=SWEEP, clock=clock)
        add_expired_rows(server, 1, seconds_ago=DAY_S, prefix="first")
        assert one.try_acquire()
        assert names_in(server) == ["a"]
        add_expired_rows(server, 1, seconds_ago=DAY_S, prefix="second")
        clock.advance(9.5)
        assert other.try_acquire()
        assert names_in(server) == ["a", "b", "second-000000"]
        clock.advance(0.5)
        assert one.try_acquire()
        assert names_in(server) == ["a", "b"]

    def test_another_store_sweeps_on_its_own_account(self, server: LocalSqlServer, store: LeaseStore, dsn: str) -> None:
        store.lease("a", options=SWEEP).try_acquire()
        add_expired_rows(server, 1, seconds_ago=DAY_S)
        second = LeaseStore(dsn)
        second.lease("b", options=SWEEP).try_acquire()
        assert names_in(server) == ["a", "b"]
        second.close()

    def test_never_with_a_limit_of_nothing(self, server: LocalSqlServer, store: LeaseStore) -> None:
        add_expired_rows(server, 3, seconds_ago=DAY_S)
        clock = ManualClock()
        for number in range(3):
            store.lease(f"job {number}", options=NO_SWEEP, clock=clock).try_acquire()
            clock.advance(3600)
        assert row_count(server) == 6

    def test_not_by_a_lost_acquire(self, server: LocalSqlServer, store: LeaseStore) -> None:
        store.lease("job", options=NO_SWEEP).try_acquire()
        add_expired_rows(server, 3, seconds_ago=DAY_S)
        assert store.lease("job", options=SWEEP).try_acquire() is False
        assert row_count(server) == 4

    def test_a_lost_acquire_does_not_put_it_off(self, server: LocalSqlServer, store: LeaseStore) -> None:
        clock = ManualClock()
        store.lease("taken", options=NO_SWEEP).try_acquire()
        add_expired_rows(server, 3, seconds_ago=DAY_S)
        store.lease("taken", options=SWEEP, clock=clock).try_acquire()
        store.lease("free", options=SWEEP, clock=clock).try_acquire()
        assert names_in(server) == ["free", "taken"]


class TestWhat:
    def test_only_rows_that_have_been_expired_for_longer_than_sweep_after(
        self, server: LocalSqlServer, store: LeaseStore
    ) -> None:
        add_expired_rows(server, 1, seconds_ago=118, prefix="not yet")
        add_expired_rows(server, 1, seconds_ago=123, prefix="stale")
        store.lease("job", options=LeaseOptions(sweep_after=120)).try_acquire()
        assert names_in(server) == ["job", "not yet-000000"]

    def test_no_lease_that_is_held_and_none_that_rests(self, server: LocalSqlServer, store: LeaseStore) -> None:
        eager: dict[str, Any] = {"sweep_after": 0}
        held = store.lease("held", options=LeaseOptions(**eager))
        rests = store.lease("rests", options=LeaseOptions(hold_at_least=600, **eager))
        held.try_acquire()
        rests.try_acquire()
        rests.try_release()
        LeaseStore(server.connection_string()).lease("job", options=LeaseOptions(**eager)).try_acquire()
        assert names_in(server) == ["held", "job", "rests"]

    def test_the_own_long_expired_row_is_taken_over_and_not_swept(
        self, server: LocalSqlServer, store: LeaseStore
    ) -> None:
        add_expired_rows(server, 2, seconds_ago=DAY_S, prefix="job")
        lease = store.lease("job-000000", options=SWEEP)
        assert lease.try_acquire() is True
        assert names_in(server) == ["job-000000"]
        assert lease.try_renew() is True

    def test_a_row_that_somebody_has_locked_is_passed_over(
        self, server: LocalSqlServer, store: LeaseStore, dsn: str
    ) -> None:
        add_expired_rows(server, 4, seconds_ago=DAY_S)
        with locked_row(dsn, "old-000002"):
            server.log.clear()
            assert store.lease("job", options=SWEEP).try_acquire() is True
            (asked,) = requests_of(server, "MERGE INTO")
            assert (asked.work.lock_waits, asked.errors) == (0, [])
        assert names_in(server) == ["job", "old-000002"]

    def test_a_key_of_the_expiry_index_that_somebody_has_locked_is_not_waited_for(
        self, server: LocalSqlServer, store: LeaseStore, dsn: str
    ) -> None:
        # READPAST passes over locked rows only; a locked index key would be waited for.
        add_expired_rows(server, 4, seconds_ago=DAY_S)
        beside = pyodbc.connect(dsn, autocommit=False)
        beside.execute(
            "SELECT LeaseName FROM [lease].[Leases] WITH (REPEATABLEREAD, INDEX(IX_Leases_ExpiresAtUtc)) "
            "WHERE ExpiresAtUtc < SYSUTCDATETIME()"
        ).fetchall()
        server.log.clear()
        assert store.lease("job", options=SWEEP).try_acquire() is True
        (asked,) = requests_of(server, "MERGE INTO")
        assert (asked.work.lock_waits, asked.errors) == (0, [1222])
        beside.close()


class TestTrouble:
    def test_a_sweep_that_is_forbidden_costs_neither_the_lease_nor_the_connection(
        self, server: LocalSqlServer, store: LeaseStore, driver: Driver
    ) -> None:
        server.execute("CREATE LOGIN limited WITH PASSWORD = N'Limited-1'")
        server.execute("CREATE USER limited FOR LOGIN limited")
        server.execute("GRANT SELECT, INSERT, UPDATE ON [lease].[Leases] TO limited")
        add_expired_rows(server, 2, seconds_ago=DAY_S)
        own = LeaseStore(server.connection_string(driver=driver.odbc, user="limited", password="Limited-1"))
        lease = own.lease("job", options=SWEEP)
        server.log.clear()
        assert lease.try_acquire() is True
        assert lease.held is True
        assert row_count(server) == 3
        assert lease.try_renew() is True
        assert server.log.logins == 1
        own.close()

    def test_sweeps_take_overs_and_renewals_of_the_same_rows_never_deadlock(
        self, server: LocalSqlServer, store: LeaseStore, dsn: str
    ) -> None:
        names = [f"old-{number:06}" for number in range(60)]
        add_expired_rows(server, len(names), seconds_ago=DAY_S)
        server.log.clear()

        def work(part: int) -> list[bool]:
            clock = ManualClock()
            own = LeaseStore(dsn, max_connections=1)
            answers = []
            for name in names[part::6]:
                lease = own.lease(name, options=LeaseOptions(duration=120, sweep_limit=5), clock=clock)
                answers += [lease.try_acquire(), lease.try_renew()]
                clock.advance(10)
            own.close()
            return answers

        answers = at_once([partial(work, part) for part in range(6)])
        assert all(all(part) for part in answers)
        assert server.log.errors == []
        assert names_in(server) == names
