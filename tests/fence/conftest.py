"""A caller for each colour and driver."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .caller import Caller


@pytest.fixture(params=["sync", "async"])
def caller(request: pytest.FixtureRequest, server: LocalSqlServer, driver: Driver) -> Iterator[Caller]:
    with ExitStack() as stack:
        yield Caller(server, driver.odbc, request.param, stack)
