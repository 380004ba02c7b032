"""Fixtures for all tests: both drivers, a started stand-in, and a real server where there is one."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, NoReturn

import hypothesis
import pytest

from tests import scriptdom
from tests.drivers import DRIVER_IDS, Driver, find_driver, with_driver
from tests.realserver import real_server, why_not

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer

# Set by scripts/test, which has installed all that the tests need: what is missing there is a failure, not a skip.
COMPLETE = bool(os.environ.get("CI") or os.environ.get("SQLLEASE_TESTS_COMPLETE"))


# The same examples in each run, and no bound on their time: a slow machine is no counterexample.
hypothesis.settings.register_profile(
    "steady", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("steady")


@pytest.fixture(scope="session", params=DRIVER_IDS)
def driver(request: pytest.FixtureRequest) -> Driver:
    """Microsoft's driver, then FreeTDS."""
    return _the_driver(request.param)


@pytest.fixture(scope="session")
def ms_driver() -> Driver:
    """Microsoft's driver alone, for what is promised with it only."""
    return _the_driver("ms")


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    """A fresh stand-in, encrypted, with an empty database `app`."""
    from sqllease.testing import LocalSqlServer

    with LocalSqlServer() as started:
        yield started


@pytest.fixture(params=["stand-in", pytest.param("sqlserver", marks=pytest.mark.sqlserver)])
def dsn(request: pytest.FixtureRequest, driver: Driver) -> str:
    """A connection string: always of the stand-in, and once more of a real server where there is one.

    The database of the real server lives as long as the test run; tests keep apart by names of their own.
    """
    if request.param == "sqlserver":
        real: str = request.getfixturevalue("real_dsn")
        return with_driver(real, driver.odbc)
    standin: LocalSqlServer = request.getfixturevalue("server")
    return standin.connection_string(driver=driver.odbc)


@pytest.fixture(scope="session")
def real_dsn() -> Iterator[str]:
    reason = why_not()
    if reason is not None:
        pytest.skip(reason)
    with real_server(_the_driver("ms")) as connection_string:
        yield connection_string


@pytest.fixture(scope="session")
def parse_errors() -> Callable[[list[str]], list[list[str]]]:
    """`scriptdom.parse_errors`, where Microsoft's parser is installed."""
    if not scriptdom.EXPECTED:
        pytest.skip("the .NET runtime of Microsoft's parser has wheels for x86-64 Linux only")
    if not scriptdom.available():
        _missing("Microsoft's T-SQL parser")
    return scriptdom.parse_errors


def _the_driver(driver_id: str) -> Driver:
    return find_driver(driver_id) or _missing(f"the ODBC driver {driver_id!r}")


def _missing(thing: str) -> NoReturn:
    message = f"{thing} is not installed here; scripts/setup installs it"
    if COMPLETE:
        pytest.fail(message)
    pytest.skip(message)
