"""The heart of confirmation, on the stand-in's replica and on a real readable secondary where there is one.

A real one is named by SQLLEASE_TEST_REPLICA_DSN, beside SQLLEASE_TEST_DSN for its primary; both name the database.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest

from sqllease import AsyncLeaseStore, LeaseConfigurationError, LeaseOptions, LeaseStore, ReplicaOptions
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver, with_driver
from tests.lease.driven import Desk, DrivenLease
from tests.lease.support import AnyLease, MakeLease
from tests.realserver import DSN_VARIABLE

REPLICA_DSN_VARIABLE = "SQLLEASE_TEST_REPLICA_DSN"
OPTIONS = LeaseOptions(duration=60, safety_margin=3)


class Pair(NamedTuple):
    primary: str
    secondary: str


@pytest.fixture(params=["stand-in", pytest.param("sqlserver", marks=pytest.mark.sqlserver)])
def pair(request: pytest.FixtureRequest, driver: Driver) -> Iterator[Pair]:
    if request.param == "stand-in":
        server: LocalSqlServer = request.getfixturevalue("server")
        server.clock.thaw()
        server.read_only_routing = False
        server.replica.lag = 0.05
        yield Pair(server.connection_string(driver.odbc), server.replica.connection_string(driver.odbc))
        return
    dsns = [os.environ.get(variable) for variable in (DSN_VARIABLE, REPLICA_DSN_VARIABLE)]
    if None in dsns:
        pytest.skip(f"no real readable secondary: {DSN_VARIABLE} and {REPLICA_DSN_VARIABLE} are not both set")
    yield Pair(*(with_driver(str(dsn), driver.odbc) for dsn in dsns))


@pytest.fixture
def make_lease(pair: Pair, colour: str, lease_name: str) -> Iterator[MakeLease]:
    """replica: another connection string than the secondary's."""
    table = LeaseStore(pair.primary)
    table.ensure_created()
    table.close()
    stores: list[Any] = []
    with Desk() as desk:

        def make(name: str | None = None, *, replica: str = pair.secondary, **keywords: Any) -> AnyLease:
            confirming = ReplicaOptions(replica, timeout=20, poll_interval=0.05)
            keywords = {"options": OPTIONS, **keywords}
            if colour == "sync":
                stores.append(LeaseStore(pair.primary, replica=confirming))
                lease: AnyLease = stores[-1].lease(name or lease_name, **keywords)
                return lease
            stores.append(AsyncLeaseStore(pair.primary, replica=confirming))
            return DrivenLease(desk, stores[-1].lease(name or lease_name, **keywords))

        yield make
        for store in stores:
            store.close() if colour == "sync" else desk.run(store.aclose())


def test_the_secondary_shows_a_tenure_each_renewal_of_it_and_the_next_tenure(make_lease: MakeLease) -> None:
    lease = make_lease()
    for _ in range(2):
        assert lease.try_acquire() is True
        assert (lease.held, lease.confirmed) == (True, True)
        token = lease.fencing_token
        assert lease.try_renew() is True
        assert lease.try_acquire() is True  # a refresh
        assert (lease.held, lease.confirmed, lease.fencing_token) == (True, True, token)
        assert lease.try_release() is True
        assert not lease.held


def test_a_second_contender_is_refused_and_then_confirmed_in_its_turn(make_lease: MakeLease) -> None:
    me, you = make_lease(), make_lease()
    assert me.try_acquire() is True
    assert you.try_acquire() is False
    assert you.confirmed is None
    assert me.try_release() is True
    assert you.try_acquire() is True
    assert you.confirmed is True
    assert you.try_release() is True


def test_the_primary_named_as_replica_is_told_and_the_lease_is_free_again(make_lease: MakeLease, pair: Pair) -> None:
    intent = "" if "applicationintent" in pair.primary.lower() else "ApplicationIntent=ReadWrite;"
    mistaken = make_lease(replica=f"{pair.primary.rstrip(';')};{intent}")
    with pytest.raises(LeaseConfigurationError, match="is the primary"):
        mistaken.try_acquire()
    assert not mistaken.held
    other = make_lease()
    assert other.try_acquire() is True
    assert other.try_release() is True
