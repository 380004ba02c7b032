"""`sqllease demo`: both acts on the stand-in, the first one on a server that the environment names."""

from __future__ import annotations

from pathlib import Path

from sqllease.odbc import parse
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .support import Desk


def test_both_acts_go_as_they_should_and_leave_a_picture(desk: Desk, tmp_path: Path) -> None:
    picture = tmp_path / "timeline.svg"
    ended = desk("demo", "--timeline", str(picture))
    assert (ended.code, ended.err) == (0, "")
    assert "Act one: a holder dies" in ended.out
    assert "Act two: a failover that loses the lease" in ended.out
    assert "<svg " in picture.read_text()


def test_a_real_server_that_is_named_without_a_driver_gets_one(ms_driver: Driver, desk: Desk) -> None:
    with LocalSqlServer() as server:
        dsn = server.connection_string(driver=ms_driver.odbc)
        bare = ";".join(f"{key}={{{value}}}" for key, value in parse(dsn) if key != "driver")
        ended = desk("demo", "--real", "--driver", ms_driver.odbc, SQLLEASE_TEST_DSN=bare)
    assert (ended.code, ended.err) == (0, "")
    assert "3 tenures, 0 overlaps" in ended.out
