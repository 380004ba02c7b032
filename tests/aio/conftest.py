"""Fixtures of the async tests: a stand-in with a lease table, and a store on it."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from sqllease import AsyncLeaseStore
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .desk import Desk


@pytest.fixture
def desk(server: LocalSqlServer, driver: Driver) -> Desk:
    return Desk(server, driver.odbc)


@pytest.fixture
async def store(desk: Desk) -> AsyncIterator[AsyncLeaseStore]:
    """A store whose connections are closed at the end."""
    store = desk.store()
    yield store
    await store.aclose()
