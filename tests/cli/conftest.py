"""Fixtures of the command's tests: one server for many of them, and a desk to run the command from."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from sqllease import schema
from tests.drivers import Driver

from .support import Desk, Inside

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer

collect_ignore_glob = [] if sys.platform == "linux" else ["test_run*.py"]


@pytest.fixture(scope="session")
def shared_server(ms_driver: Driver) -> Iterator[LocalSqlServer]:
    """A server with a lease table, for tests that leave it as it is: each uses a lease of its own."""
    from sqllease.testing import LocalSqlServer

    with LocalSqlServer() as server:
        schema.ensure_created(server.connection_string(driver=ms_driver.odbc))
        yield server


@pytest.fixture
def desk(shared_server: LocalSqlServer, ms_driver: Driver) -> Iterator[Desk]:
    """The command against the shared server."""
    made = Desk(shared_server, shared_server.connection_string(driver=ms_driver.odbc))
    yield made
    made.close()


@pytest.fixture
def inside(desk: Desk) -> Inside:
    """The command inside this process, against the shared server."""
    return Inside(desk.connection)


@pytest.fixture
def own_desk(server: LocalSqlServer, ms_driver: Driver) -> Iterator[Desk]:
    """The command against a server of this test alone, with a lease table."""
    connection = server.connection_string(driver=ms_driver.odbc)
    schema.ensure_created(connection)
    made = Desk(server, connection)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    """A lease that no other test uses."""
    return f"job-{uuid.uuid4().hex[:12]}"
