"""Fixtures of the election's tests: a stand-in with a lease table, and candidates of either colour."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import pytest

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import World

from .stage import Candidate, Script


class Enter(Protocol):
    """Makes a candidate for the lease of this test, and starts it."""

    def __call__(self, script: Script | None = None, **keywords: Any) -> Candidate: ...


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    with LocalSqlServer(tls=False) as started:
        started.execute(schema.create_script())
        yield started


@pytest.fixture
def dsn(server: LocalSqlServer, ms_driver: Driver) -> str:
    return server.connection_string(driver=ms_driver.odbc)


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def enter(dsn: str, colour: str) -> Iterator[Enter]:
    made: list[Candidate] = []

    def make(script: Script | None = None, **keywords: Any) -> Candidate:
        made.append(Candidate(keywords.pop("colour", colour), dsn, script, **keywords))
        return made[-1].start()

    yield make
    for candidate in made:
        candidate.close()


@pytest.fixture
def world(server: LocalSqlServer) -> Iterator[World]:
    """The server's clock and a client's clock, both standing still until the test lets time pass."""
    server.clock.freeze()
    yield World(server)
    server.clock.thaw()
