"""`list`, `show`, `break`, `purge`: for who is on call."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator

import pytest

from sqllease import LeaseOptions, LeaseStore, SqlLease
from tests.lease.support import add_expired_rows

from .support import Desk, Inside


@pytest.fixture
def lease(desk: Desk, name: str) -> Iterator[SqlLease]:
    """A lease that is held."""
    store = LeaseStore(desk.connection)
    held = store.lease(name, owner_id="host-7:12", metadata="two\nlines \x1b[31m")
    assert held.try_acquire()
    yield held
    held.try_release()
    store.close()


def test_list_shows_one_line_a_lease(inside: Inside, lease: SqlLease) -> None:
    ended = inside("list")
    heading, *lines = ended.out.splitlines()
    assert heading.split() == ["NAME", "STATE", "OWNER", "SINCE", "(UTC)", "LEFT", "METADATA"]
    (line,) = (line for line in lines if line.startswith(lease.name))
    assert re.search(r" held +host-7:12 +\d\d-\d\d \d\d:\d\d:\d\d +[23]\d\.\d s  two\ufffdlines \ufffd\[31m$", line)


def test_list_as_json_has_everything(inside: Inside, lease: SqlLease) -> None:
    ended = inside("list", "--json")
    (row,) = (row for row in json.loads(ended.out) if row["name"] == lease.name)
    assert (row["state"], row["owner_id"], row["metadata"]) == ("held", "host-7:12", lease.metadata)
    assert 20 < row["remaining_s"] <= 30
    assert row["acquired_at"].endswith("+00:00")


def test_watch_looks_again_until_it_is_interrupted(desk: Desk, lease: SqlLease) -> None:
    watching = desk.start("list", "--watch", "--every", "0.1", "--json")
    assert watching.stdout is not None
    looks = [json.loads(watching.stdout.readline()) for _ in range(3)]
    assert all(any(row["name"] == lease.name for row in look) for look in looks)
    watching.send_signal(signal.SIGINT)
    ended = desk.ended(watching)
    assert (ended.code, ended.err) == (0, "")


def test_show_has_one_lease_in_full(inside: Inside, lease: SqlLease) -> None:
    shown = inside("show", lease.name)
    assert shown.code == 0
    assert shown.out.splitlines()[:3] == [f"name:       {lease.name}", "state:      held", "owner:      host-7:12"]
    assert json.loads(inside("show", lease.name, "--json").out)["owner_id"] == "host-7:12"


def test_show_of_nothing_is_1(inside: Inside, name: str) -> None:
    ended = inside("show", name)
    assert (ended.code, ended.out, ended.err) == (1, "", f"sqllease: there is no lease '{name}'\n")


def test_a_resting_lease_is_shown_as_such(desk: Desk, inside: Inside, name: str) -> None:
    store = LeaseStore(desk.connection)
    done = store.lease(name, owner_id="host-8", options=LeaseOptions(hold_at_least=300))
    assert done.try_acquire()
    assert done.try_release()
    store.close()
    assert json.loads(inside("show", name, "--json").out)["state"] == "resting"
    assert "last owner: host-8" in inside("show", name).out
    assert inside("break", name, "--owner", "host-8", "--yes").code == 0
    assert inside("show", name).code == 1


class TestBreak:
    """Only the owner that was seen, and only after a yes."""

    def test_it_asks_and_tells_what_it_means(self, inside: Inside, lease: SqlLease) -> None:
        ended = inside("break", lease.name, "--owner", "host-7:12", stdin="n\n")
        assert ended.code == 1
        assert "Its holder may still believe that it holds it until 20" in ended.out
        assert lease.try_renew()

    def test_yes_takes_it_away(self, inside: Inside, lease: SqlLease) -> None:
        ended = inside("break", lease.name, "--owner", "host-7:12", stdin="y\n")
        assert (ended.code, ended.out.splitlines()[-1].split("]: ")[-1]) == (0, f"lease '{lease.name}' is free")
        assert not lease.try_renew()

    def test_without_asking_it_tells_too(self, inside: Inside, lease: SqlLease) -> None:
        ended = inside("break", lease.name, "--owner", "host-7:12", "--yes")
        assert ended.code == 0
        assert "Its holder may still believe that it holds it until 20" in ended.out

    def test_another_owners_lease_stays(self, inside: Inside, lease: SqlLease) -> None:
        ended = inside("break", lease.name, "--owner", "host-7:1", "--yes")
        assert (ended.code, ended.out) == (1, "")
        assert "its owner is host-7:12; nothing was changed" in ended.err
        assert lease.try_renew()

    def test_no_lease_is_1(self, inside: Inside, name: str) -> None:
        assert inside("break", name, "--owner", "x", "--yes").code == 1


def test_purge_deletes_what_expired_long_ago(own_desk: Desk) -> None:
    add_expired_rows(own_desk.server, 1_200, seconds_ago=7_200)
    add_expired_rows(own_desk.server, 3, seconds_ago=60, prefix="new")
    inside = Inside(own_desk.connection)
    assert inside("purge", "--older-than", "10000").out == "0 deleted\n"
    assert inside("purge").out == "1200 deleted\n"
    assert inside("purge", "--older-than", "0").out == "3 deleted\n"


@pytest.mark.parametrize(
    "arguments", [["list"], ["show", "x"], ["break", "x", "--owner", "y", "--yes"], ["purge"], ["init"]], ids=" ".join
)
def test_a_database_that_fails_is_74_and_one_line(desk: Desk, arguments: list[str]) -> None:
    wrong = Inside(desk.connection.replace(desk.server.password, "Wrong-pass-1"))
    ended = wrong(*arguments)
    assert (ended.code, ended.out) == (74, "")
    assert ended.err.startswith("sqllease: ")
    assert ended.err.count("\n") == 1
    assert "Wrong-pass-1" not in ended.err
