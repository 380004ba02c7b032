"""`ddl`, `init`, `verify`: for who runs the database."""

from __future__ import annotations

import json

import pytest

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .support import Desk, Inside


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        ([], schema.create_script()),
        (["--schema", "a]b", "--table", "o'hara"], schema.create_script("a]b", "o'hara")),
        (["--drop"], schema.drop_script()),
        (["--grant", "app", "--table", "Jobs"], schema.grant_script(table="Jobs", role="app")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ddl_prints_the_librarys_own_script(arguments: list[str], script: str) -> None:
    ended = Inside(None)("ddl", *arguments)
    assert (ended.code, ended.out, ended.err) == (0, script, "")


@pytest.mark.parametrize(
    "arguments", [["--grant", "app", "--drop"], ["--schema", ""], ["--table", "t" * 129]], ids=lambda value: value[0]
)
def test_ddl_refuses_what_cannot_be(arguments: list[str]) -> None:
    ended = Inside(None)("ddl", *arguments)
    assert (ended.code, ended.out) == (2, "")


@pytest.fixture
def empty(server: LocalSqlServer, ms_driver: Driver) -> Inside:
    return Inside(server.connection_string(driver=ms_driver.odbc))


def test_init_creates_what_is_missing_and_may_run_again(empty: Inside) -> None:
    for _ in range(2):
        ended = empty("init", "--schema", "ops", "--table", "Jobs")
        assert (ended.code, ended.out) == (0, "ops.Jobs is there\n")
    assert empty("list", "--schema", "ops", "--table", "Jobs").code == 0


def test_verify_goes_through_the_whole_list(inside: Inside) -> None:
    ended = inside("verify", "--json")
    assert ended.code == 0
    checks = {check["name"]: check for check in json.loads(ended.out)}
    assert {check["status"] for check in checks.values()} == {"ok"}
    assert checks.keys() >= {
        *("driver", "server", "clock", "round trip", "table", "columns", "collation", "key", "triggers"),
        *("row versioning", "durability", "rights", "read-only"),
    }
    assert "msodbcsql" in checks["driver"]["text"]


def test_verify_is_a_table_for_people(inside: Inside) -> None:
    ended = inside("verify")
    assert ended.code == 0
    assert all(line == line.rstrip() for line in ended.out.splitlines())
    assert "ok  rights           SELECT, INSERT, UPDATE, DELETE" in ended.out.splitlines()


def test_verify_fails_where_there_is_no_table(empty: Inside) -> None:
    ended = empty("verify")
    assert ended.code == 1
    assert "failure  table" in ended.out
    assert ended.err == "sqllease: 1 of 5 checks failed\n"


def test_verify_fails_where_nobody_may_log_in(desk: Desk) -> None:
    ended = Inside(desk.connection.replace(desk.server.password, "hidden-1"))("verify")
    assert ended.code == 1
    assert ended.out.startswith("failure  connection  ")
    assert "hidden-1" not in ended.out + ended.err


def test_verify_tells_a_replica_from_a_primary(ms_driver: Driver) -> None:
    with LocalSqlServer(replica=True) as server:
        primary = server.connection_string(driver=ms_driver.odbc)
        schema.ensure_created(primary)
        good = Inside(primary)("verify", "--json", "--replica", server.replica.connection_string(driver=ms_driver.odbc))
        server.read_only_routing = False
        bad = Inside(primary)("verify", "--json", "--replica", primary)
    assert (good.code, bad.code) == (0, 1)
    (told,) = (check for check in json.loads(good.out) if check["name"] == "replica")
    assert told["status"] == "ok"
    assert "is read-only and has the table" in told["text"]
    assert json.loads(bad.out)[-1]["status"] == "failure"


def test_verify_refuses_a_read_only_database_without_the_table(desk: Desk, ms_driver: Driver) -> None:
    with LocalSqlServer(replica=True) as unrelated:
        stranger = unrelated.replica.connection_string(driver=ms_driver.odbc)
        ended = Inside(desk.connection)("verify", "--json", "--replica", stranger)
    assert ended.code == 1
    assert "is read-only, but has no table [lease].[Leases]" in json.loads(ended.out)[-1]["text"]


def test_verify_tells_how_far_the_clocks_are_apart(own_desk: Desk) -> None:
    own_desk.server.clock.advance(100)
    checks = json.loads(Inside(own_desk.connection)("verify", "--json").out)
    (clock,) = (check for check in checks if check["name"] == "clock")
    assert clock["status"] == "warning"
    assert clock["text"].startswith(("the server's clock is 100.0", "the server's clock is 99.9"))
