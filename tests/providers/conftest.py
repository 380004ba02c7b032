"""Fixtures of the lock providers' tests: every kind, both colours, both drivers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.driven import Desk

from .desk import Makers


@pytest.fixture(scope="module")
def shared_server() -> Iterator[LocalSqlServer]:
    """One stand-in with a lease table for a whole file: each test uses resources of its own."""
    with LocalSqlServer() as started:
        started.execute(schema.create_script())
        yield started


@pytest.fixture(params=["sync", "async"])
def makers(request: pytest.FixtureRequest, shared_server: LocalSqlServer, driver: Driver) -> Iterator[Makers]:
    with Desk() as desk:
        made = Makers(shared_server, driver.odbc, request.param, desk)
        yield made
        for close in made.closing:
            close()
