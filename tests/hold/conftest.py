"""Fixtures of the tests of holds."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import keepalive, lost
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.bench import Bench
from tests.lease.support import wait_until

from .scripted import HoldBench, library_threads


@pytest.fixture(autouse=True)
def _no_threads_of_another_test() -> None:
    wait_until(lambda: not library_threads(), "the threads of earlier tests have ended")


@pytest.fixture(autouse=True)
def _quick_looks(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever waits for a clock that a test moves looks at it more often. Marked ``real_time``: as it is in life."""
    if "real_time" not in request.keywords:
        for room in (keepalive, lost):
            monkeypatch.setattr(room, "LOOK_S", 0.005)


@pytest.fixture
def bench(server: LocalSqlServer, ms_driver: Driver) -> Iterator[Bench]:
    """A stand-in with a lease table, for Microsoft's driver."""
    with HoldBench(server, ms_driver) as bench:
        yield bench
