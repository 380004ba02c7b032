"""Leases that share a store: what one of them does, or suffers, costs its siblings no connection."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import LeaseConfigurationError, SqlLease
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, Bench
from .support import PATIENCE_S, in_background, wait_until


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def test_closing_a_lease_of_a_shared_store_leaves_the_stores_connections_open(bench: Bench) -> None:
    store = bench.store()
    lease, sibling = bench.lease("one", store), bench.lease("two", store)
    lease.try_acquire()
    sibling.try_acquire()
    bench.server.log.clear()
    lease.close()
    assert sibling.try_renew() is True
    assert lease.try_renew() is True  # and the closed one may go on as well
    assert bench.server.log.logins == 0


def test_closing_a_lease_with_a_connection_of_its_own_closes_it_and_releases_nothing(bench: Bench) -> None:
    lease = SqlLease("job", bench.dsn())
    lease.try_acquire()
    lease.close()
    wait_until(lambda: bench.server.connections == 0, "the connection is closed")
    assert lease.held
    assert len(bench.rows()) == 1


CASELESS = """
DROP TABLE [lease].[Leases];
CREATE TABLE [lease].[Leases] (
    LeaseName nvarchar(200) COLLATE Latin1_General_100_CI_AS NOT NULL PRIMARY KEY,
    OwnerInstanceId nvarchar(128) NOT NULL, AcquiredAtUtc datetimeoffset(7) NOT NULL,
    RenewedAtUtc datetimeoffset(7) NOT NULL, ExpiresAtUtc datetimeoffset(7) NOT NULL,
    Metadata nvarchar(1024) NULL, [RowVersion] rowversion NOT NULL)
"""


@pytest.mark.parametrize("trouble", ["a name that the collation takes for another", "a missing right"])
def test_an_error_of_the_set_up_that_one_lease_meets_costs_its_siblings_no_login(bench: Bench, trouble: str) -> None:
    store = bench.store()
    if trouble != "a missing right":
        bench.server.execute(CASELESS)
    siblings = [bench.lease(name, store) for name in ("Job", "two", "three")]
    with bench.kept_back(ACQUIRE) as hold:  # so that the store has more than one connection
        first = in_background(siblings[0].try_acquire)
        assert hold.held.wait(PATIENCE_S)
        assert [sibling.try_acquire() for sibling in siblings[1:]] == [True, True]
    assert first.result(PATIENCE_S) is True
    unlucky = bench.lease("job", store)
    bench.server.log.clear()
    for _ in range(3):
        if trouble == "a missing right":
            bench.server.faults.error(229, "The SELECT permission was denied.", matching=ACQUIRE)
        with pytest.raises(LeaseConfigurationError):
            unlucky.try_acquire()
    assert [sibling.try_renew() for sibling in siblings] == [True, True, True]
    assert bench.server.log.logins == 0
