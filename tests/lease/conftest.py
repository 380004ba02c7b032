"""Fixtures of the lease's tests: a lease table, contenders for one lease, and a raw connection beside them.

`dsn` decides where the table is. A file whose tests move the server's clock, or read its log, overrides `dsn` with the
stand-in alone.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyodbc
import pytest

from sqllease import AsyncLeaseStore, LeaseStore

from .driven import Desk, DrivenLease
from .support import MakeLease, World

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer


@pytest.fixture
def store(dsn: str) -> Iterator[LeaseStore]:
    """A store whose table is there."""
    with_table = LeaseStore(dsn)
    with_table.ensure_created()
    yield with_table
    with_table.close()


@pytest.fixture
def lease_name() -> str:
    """A name that no other test has, so that the tests may share a real server's table."""
    return f"test-{uuid.uuid4().hex}"


@pytest.fixture(params=["sync", "async"])
def make_lease(request: pytest.FixtureRequest, dsn: str, store: LeaseStore, lease_name: str) -> Iterator[MakeLease]:
    """Makes contenders for one lease. Tests call the verbs and properties of what it makes, nothing else."""
    if request.param == "sync":
        yield lambda name=None, **keywords: store.lease(lease_name if name is None else name, **keywords)
        return
    with Desk() as desk:
        awaited = AsyncLeaseStore(dsn)
        yield lambda name=None, **keywords: DrivenLease(
            desk, awaited.lease(lease_name if name is None else name, **keywords)
        )
        desk.run(awaited.aclose())


@pytest.fixture
def beside(dsn: str) -> Iterator[pyodbc.Connection]:
    """Another session of the same database, in autocommit mode."""
    connection = pyodbc.connect(dsn, autocommit=True)
    yield connection
    connection.close()


@pytest.fixture
def world(server: LocalSqlServer) -> Iterator[World]:
    """The stand-in's clock and a client's clock, both standing still until the test lets time pass."""
    server.clock.freeze()
    yield World(server)
    server.clock.thaw()
