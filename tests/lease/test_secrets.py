"""Passwords of every shape connect, and no part of one is in a repr, a log line or anything of an exception."""

from __future__ import annotations

import logging
import re
import traceback
from collections.abc import Callable, Iterator
from itertools import chain

import pyodbc
import pytest

from sqllease import LeaseConfigurationError, LeaseError, LeaseOptions, LeaseStore, SqlLease, schema
from sqllease.connection import Connector
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

PASSWORDS = [
    "Zebra;Quartz",
    "{Zebra",
    "Zebra}",
    "}{;Quartz",
    " Zebra",
    "Quartz ",
    "Zebra=Quartz",
    "Zebra%40Quartz",
    "Zebra;PWD=Quartz",
    "Zebra;SERVER=nowhere;Quartz",
    "{Zebra}",
    "Ze'bra\"Quartz",
    "Zébra→Quartz",
]
PARTS = re.compile(r"(?i)ze'?bra|zébra|quartz")
"""What no text may show. A piece of less would be an accident: any two letters are in every text."""

SHORT = LeaseOptions(duration=3, command_timeout=1)


def everything_told(error: BaseException | None) -> Iterator[str]:
    """All texts of an exception and of all that hangs on it."""
    seen: set[int] = set()
    waiting = [error]
    while waiting:
        error = waiting.pop()
        if error is None or id(error) in seen:
            continue
        seen.add(id(error))
        yield from (str(error), repr(error), repr(error.args), repr(vars(error)))
        yield from getattr(error, "__notes__", ())
        yield from traceback.format_exception(error)
        waiting += [error.__cause__, error.__context__]


def leaks(*texts: str) -> list[str]:
    return [text for text in texts if PARTS.search(text)]


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [f"{record.getMessage()} {record.args!r} {record.exc_text}" for record in caplog.records]


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_password_of_any_shape_connects_and_is_shown_nowhere(
    driver: Driver, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with LocalSqlServer(password=password) as server:
        dsn = server.connection_string(driver=driver.odbc)
        server.execute(schema.create_script())
        store = LeaseStore(dsn)
        lease, other = store.lease("job"), SqlLease("job", dsn)
        assert lease.try_acquire() is True
        assert other.try_acquire() is False
        assert lease.try_renew() is True
        shown = [repr(thing) for thing in (store, lease, other, Connector(dsn), store._pool, lease.options)]
        server.faults.error(50000, "Nothing to do with it.")
        with pytest.raises(LeaseError) as caught:
            lease.try_renew()
        assert lease.try_release() is True
        store.close()
        other.close()
    assert leaks(*shown, *lines(caplog), *everything_told(caught.value)) == []


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_wrong_password_is_shown_nowhere(
    server: LocalSqlServer, driver: Driver, password: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    lease = SqlLease("job", server.connection_string(driver=driver.odbc, password=password), options=SHORT)
    calls: list[Callable[[], object]] = [lease.try_acquire, lambda: lease._store.get("job"), lease._store.verify]
    for call in calls:
        with pytest.raises(LeaseConfigurationError, match="login failed") as caught:
            call()
        assert leaks(*everything_told(caught.value)) == []
    assert leaks(repr(lease), *lines(caplog)) == []


MALFORMED = [
    "UID=sa;PWD=Zebra;Quartz",
    "UID=sa;PWD={Zebra;Quartz",
    "UID=sa;PWD=Zebra}Quartz",
    "UID=sa;PWD={Zebra}Quartz};",
    "UID=sa;PWD={Zebra}}Quartz;",
    "UID=sa;pwd = Zebra Quartz ;PWD=Quartz",
    "PWD={}{;Quartz};UID=sa",
    "UID=sa;PWD={Zebra;SERVER=Quartz;DRIVER=Quartz",
    "UID=sa;Password={Zebra;Quartz}{",
    "UID=sa;PWD=Zebra;=Quartz;DATABASE",
    "UID={sa;PWD=Zebra;Quartz",
    "{PWD=Zebra;Quartz",
]


@pytest.mark.parametrize("rest", MALFORMED)
def test_a_malformed_connection_string_shows_no_part_of_its_password(
    server: LocalSqlServer, driver: Driver, rest: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    place = server.connection_string(driver=driver.odbc).split("UID=")[0]
    for connection in (place + rest, rest, "DRIVER={No Such Driver};" + rest, rest + ";" + place):
        lease = SqlLease("job", connection, options=SHORT)
        with pytest.raises(LeaseError) as caught:
            lease.try_acquire()
        assert leaks(repr(lease), repr(lease._store), *everything_told(caught.value)) == []
    assert leaks(*lines(caplog)) == []


def test_a_server_that_is_down_or_cuts_the_login_is_told_without_the_password(
    driver: Driver, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with LocalSqlServer(password="Zebra;Quartz") as server:
        lease = SqlLease("job", server.connection_string(driver=driver.odbc), options=SHORT)
        server.faults.drop("login", times=10**6)
        with pytest.raises(LeaseError) as cut:
            lease.try_acquire()
    with pytest.raises(LeaseError) as down:
        lease.try_acquire()
    texts = chain(everything_told(cut.value), everything_told(down.value), lines(caplog))
    assert leaks(*texts) == []


def test_what_a_driver_says_of_a_connection_of_a_callable_hangs_on_no_error_of_ours(
    server: LocalSqlServer, driver: Driver
) -> None:
    dsn = server.connection_string(driver=driver.odbc, password="Zebra;Quartz")
    with pytest.raises(LeaseConfigurationError) as caught:
        SqlLease("job", lambda: pyodbc.connect(dsn, autocommit=True)).try_acquire()
    assert leaks(*everything_told(caught.value)) == []
    assert caught.value.__context__ is None


def test_an_empty_password_connects(driver: Driver) -> None:
    with LocalSqlServer(password="") as server:
        server.execute(schema.create_script())
        lease = SqlLease("job", server.connection_string(driver=driver.odbc))
        assert lease.try_acquire() is True
        lease.close()
