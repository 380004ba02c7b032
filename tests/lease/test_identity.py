"""Which lease, whose, with what beside it: names and owners are exact, metadata comes back as it went.

Lengths are UTF-16 code units, as nvarchar counts ("nchar and nvarchar (Transact-SQL)": n defines the string size in
byte-pairs). That `=` pads the shorter string with blanks, in every collation, is from Microsoft's "INF: How SQL Server
Compares Strings with Trailing Spaces".
"""

from __future__ import annotations

import os
import platform
import re
import uuid
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, NoReturn

import pyodbc
import pytest

from sqllease import (
    Lease,
    LeaseConfigurationError,
    LeaseError,
    LeaseOptions,
    LeaseStore,
    LeaseValueError,
    SqlLease,
)

from .support import TABLE, MakeLease, value

EMOJI = "\N{GRINNING FACE}"
BAD_KEYS = {
    "empty": "",
    "a blank in front": " a",
    "a blank behind": "a ",
    "an ideographic space behind": "a\u3000",
    "a carriage return behind": "a\r",
    "NUL": "a\x00b",
    "a control character": "a\x01b",
    "half a surrogate pair": "a\ud800",
    "not NFC": "e\u0301",
}


def no_connection() -> NoReturn:
    raise AssertionError("a connection was asked for")


class TestNames:
    @pytest.mark.parametrize(
        ("one", "other"),
        [
            pytest.param("daily", "Daily", id="letter case"),
            pytest.param("caf\u00e9", "cafe", id="accent"),
            pytest.param("\uff41", "a", id="full width"),
            pytest.param("\u30ab", "\u304b", id="kana type"),
            pytest.param("stra\u00dfe", "strasse", id="sharp s"),
            pytest.param("job-\U0001f600", "job-\U0001f601", id="two emoji"),
            pytest.param("\U0001f600", "\u2b50", id="emoji and star"),
            pytest.param("\u130d", "\u12dc", id="Ethiopic"),
            pytest.param("a-b", "ab", id="hyphen"),
            pytest.param("n" * 199 + "1", "n" * 199 + "2", id="the last of 200 characters"),
        ],
    )
    def test_names_that_differ_in_python_are_different_leases(
        self, make_lease: MakeLease, beside: pyodbc.Connection, one: str, other: str
    ) -> None:
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName IN (?, ?)", one, other)
        first, second = make_lease(one), make_lease(other)
        assert first.try_acquire() is True
        assert second.try_acquire() is True
        assert first.try_renew() is True
        assert second.try_release() is True
        assert first.try_release() is True

    @pytest.mark.parametrize(
        "name",
        [
            pytest.param("x" * 200, id="200 letters"),
            pytest.param(EMOJI * 100, id="100 emoji"),
            pytest.param("a b", id="a blank inside"),
            pytest.param("'; DROP TABLE t; --", id="quotes"),
            pytest.param("?%_[]{}", id="wild cards and markers"),
            pytest.param("\u062a\u0642\u0631\u064a\u0631", id="Arabic"),
        ],
    )
    def test_a_name_comes_back_exactly(
        self, make_lease: MakeLease, store: LeaseStore, beside: pyodbc.Connection, name: str
    ) -> None:
        beside.execute(f"DELETE FROM {TABLE} WHERE LeaseName = ?", name)
        lease = make_lease(name)
        assert lease.try_acquire() is True
        row = store.get(name)
        assert row is not None
        assert row.name == lease.name == name
        assert make_lease(name).try_acquire() is False
        assert lease.try_renew() is True
        assert lease.try_release() is True

    @pytest.mark.parametrize(
        "name",
        [
            *(pytest.param(text, id=label) for label, text in BAD_KEYS.items()),
            pytest.param("x" * 201, id="201 units"),
            pytest.param(EMOJI * 101, id="101 emoji"),
            pytest.param(7, id="a number"),
        ],
    )
    def test_a_name_that_cannot_be_one_is_refused_before_any_connection(self, name: Any) -> None:
        with pytest.raises(LeaseValueError):
            SqlLease(name, no_connection)


class TestATableOfAnotherCollation:
    """One that was made by hand, where "job" and "JOB" are the same key."""

    @pytest.fixture
    def careless(self, dsn: str, beside: pyodbc.Connection) -> Iterator[LeaseStore]:
        table = f"careless_{uuid.uuid4().hex}"
        text = "COLLATE SQL_Latin1_General_CP1_CI_AS NOT NULL"
        beside.execute(
            f"CREATE TABLE dbo.{table} (LeaseName nvarchar(200) {text} PRIMARY KEY, "
            f"OwnerInstanceId nvarchar(128) {text}, AcquiredAtUtc datetimeoffset(7) NOT NULL, "
            "RenewedAtUtc datetimeoffset(7) NOT NULL, ExpiresAtUtc datetimeoffset(7) NOT NULL, "
            "Metadata nvarchar(1024) NULL, RowVersion rowversion NOT NULL)"
        )
        store = LeaseStore(dsn, schema="dbo", table=table)
        yield store
        store.close()
        beside.execute(f"DROP TABLE dbo.{table}")

    def test_all_verbs_work_there(self, careless: LeaseStore) -> None:
        lease, other = careless.lease("job"), careless.lease("job")
        assert lease.try_acquire() is True
        assert other.try_acquire() is False
        assert lease.try_renew() is True
        assert lease.try_release() is True

    def test_a_row_whose_name_differs_in_python_is_reported_and_left_alone(self, careless: LeaseStore) -> None:
        lease = careless.lease("job", owner_id="me")
        lease.try_acquire()
        with pytest.raises(LeaseConfigurationError, match="collation"):
            careless.lease("JOB").try_acquire()
        assert lease.try_renew() is True

    def test_an_operator_does_not_meet_it_under_another_name(self, careless: LeaseStore) -> None:
        lease = careless.lease("job", owner_id="me")
        lease.try_acquire()
        assert careless.get("JOB") is None
        assert careless.break_lease("JOB", "me") is None
        assert lease.try_renew() is True

    def test_an_owner_who_differs_in_letter_case_is_another(self, careless: LeaseStore) -> None:
        lease, lookalike = careless.lease("job", owner_id="me"), careless.lease("job", owner_id="ME")
        lease.try_acquire()
        assert lookalike.try_acquire() is False
        assert careless.break_lease("job", "ME") is None
        assert lease.try_renew() is True


class TestOwners:
    @pytest.mark.parametrize(
        "other", ["W1", "w1\u200b", "w\u0131", "\uff571"], ids=["case", "zero width", "dotless i", "full width"]
    )
    def test_an_owner_who_only_looks_alike_is_another_owner(
        self, make_lease: MakeLease, store: LeaseStore, other: str
    ) -> None:
        holder, lookalike = make_lease(owner_id="w1"), make_lease(owner_id=other)
        holder.try_acquire()
        assert lookalike.try_acquire() is False
        assert lookalike.try_renew() is False
        assert lookalike.try_release() is False
        assert store.break_lease(holder.name, other) is None
        assert holder.try_renew() is True

    @pytest.mark.parametrize("owner", ["o" * 128, EMOJI * 64, "o'hara; --", "\u540d\u524d"])
    def test_an_owner_id_comes_back_exactly(self, make_lease: MakeLease, store: LeaseStore, owner: str) -> None:
        lease = make_lease(owner_id=owner)
        assert lease.owner_id == owner
        assert lease.try_acquire() is True
        row = store.get(lease.name)
        assert row is not None
        assert row.owner_id == owner
        assert lease.try_renew() is True
        assert lease.try_release() is True

    @pytest.mark.parametrize(
        "owner",
        [
            *(pytest.param(text, id=label) for label, text in BAD_KEYS.items()),
            pytest.param("x" * 129, id="129 units"),
            pytest.param(EMOJI * 65, id="65 emoji"),
        ],
    )
    def test_an_owner_id_that_cannot_be_one_is_refused_before_any_connection(self, owner: str) -> None:
        with pytest.raises(LeaseValueError):
            SqlLease("job", no_connection, owner_id=owner)

    def test_default_owners_differ_also_where_host_and_pid_are_equal(
        self, make_lease: MakeLease, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(platform, "node", lambda: "w")
        monkeypatch.setattr(os, "getpid", lambda: 1)
        first, second = make_lease(), make_lease()
        assert first.owner_id != second.owner_id
        assert [first.try_acquire(), second.try_acquire()] == [True, False]

    def test_a_default_owner_id_has_at_least_96_random_bits(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(platform, "node", lambda: "w")
        owners = {SqlLease("job", no_connection).owner_id for _ in range(200)}
        assert len(owners) == 200
        hexadecimal = [re.fullmatch(rf"w:{os.getpid()}:([0-9a-f]+)", owner) for owner in owners]
        assert all(match is not None and len(match[1]) * 4 >= 96 for match in hexadecimal)

    @pytest.mark.parametrize("host", ["x" * 300, "h\u00f6st name", ""])
    def test_every_host_name_gives_an_owner_id_that_fits(self, monkeypatch: pytest.MonkeyPatch, host: str) -> None:
        monkeypatch.setattr(platform, "node", lambda: host)
        owner = SqlLease("job", no_connection).owner_id
        assert SqlLease("job", no_connection, owner_id=owner).owner_id == owner


class TestMetadata:
    @pytest.mark.parametrize(
        "metadata",
        [None, "", " ", "None", "m" * 1024, EMOJI * 512, "{'pid': 7}?", "two\nlines"],
        ids=["None", "empty", "blank", "the word None", "1024 units", "512 emoji", "quotes", "lines"],
    )
    def test_metadata_comes_back_as_it_went(
        self, make_lease: MakeLease, store: LeaseStore, beside: pyodbc.Connection, metadata: str | None
    ) -> None:
        lease = make_lease(metadata=metadata)
        assert lease.try_acquire() is True
        row = store.get(lease.name)
        assert row is not None
        assert row.metadata == metadata == lease.metadata
        stored = value(beside, f"SELECT Metadata FROM {TABLE} WHERE LeaseName = ?", lease.name)
        assert (stored is None) == (metadata is None)

    def test_a_takeover_from_text_to_none_leaves_no_old_text(self, make_lease: MakeLease, store: LeaseStore) -> None:
        make_lease(owner_id="one", metadata="old").try_acquire()
        make_lease(owner_id="one", metadata=None).try_acquire()
        row = store.get(make_lease().name)
        assert row is not None
        assert row.metadata is None

    @pytest.mark.parametrize(
        "metadata",
        ["m" * 1025, EMOJI * 513, "a\ud800", "a\x00", b"bytes", 7],
        ids=["1025 units", "513 emoji", "half a surrogate pair", "NUL", "bytes", "a number"],
    )
    def test_metadata_that_cannot_be_stored_is_refused_before_any_connection(self, metadata: Any) -> None:
        with pytest.raises(LeaseValueError):
            SqlLease("job", no_connection, metadata=metadata)


class TestConstruction:
    def test_a_lease_shows_what_it_was_made_of(self, make_lease: MakeLease) -> None:
        options = LeaseOptions(duration=timedelta(seconds=12))
        lease = make_lease("job", owner_id="me", metadata="m", options=options)
        assert (lease.name, lease.owner_id, lease.metadata, lease.options) == ("job", "me", "m", options)

    def test_it_has_the_shape_that_application_code_depends_on(self, store: LeaseStore) -> None:
        assert isinstance(store.lease("job"), Lease)

    def test_making_one_opens_nothing(self) -> None:
        SqlLease("job", no_connection)

    def test_it_is_no_context_manager(self) -> None:
        assert not hasattr(SqlLease, "__enter__")

    def test_the_connection_may_be_a_string(self, dsn: str, store: LeaseStore, lease_name: str) -> None:
        lease = SqlLease(lease_name, dsn)
        assert lease.try_acquire() is True
        row = store.get(lease_name)
        assert row is not None
        assert row.owner_id == lease.owner_id
        lease.close()

    def test_the_connection_may_be_a_callable_in_any_commit_mode(
        self, dsn: str, store: LeaseStore, lease_name: str
    ) -> None:
        lease = SqlLease(lease_name, lambda: pyodbc.connect(dsn))
        assert lease.try_acquire() is True
        assert store.lease(lease_name).try_acquire() is False
        lease.close()

    def test_the_connection_may_be_a_store(self, store: LeaseStore, lease_name: str) -> None:
        lease = SqlLease(lease_name, store)
        assert lease.try_acquire() is True
        assert store.lease(lease_name).try_acquire() is False

    @pytest.mark.parametrize("connection", ["", "  ", 7, None], ids=["empty", "blank", "number", "None"])
    def test_any_other_connection_is_refused(self, connection: Any) -> None:
        with pytest.raises(LeaseValueError):
            SqlLease("job", connection)

    def test_options_must_be_options(self, store: LeaseStore) -> None:
        with pytest.raises(LeaseValueError):
            SqlLease("job", store, options={"duration": 30})  # type: ignore[arg-type]

    def test_closing_gives_the_connection_back_and_releases_nothing(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.close()
        assert lease.held is True
        assert make_lease().try_acquire() is False

    def test_a_closed_lease_may_be_used_again(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.close()
        lease.close()
        assert lease.try_renew() is True

    @pytest.mark.parametrize("argument", ["name", "owner_id", "metadata"])
    def test_a_bad_argument_is_a_value_error_and_a_lease_error_and_says_which(self, argument: str) -> None:
        arguments: dict[str, Any] = {"name": "job", argument: "a\x00b"}
        with pytest.raises(ValueError, match=argument.split("_")[0]) as refused:
            SqlLease(connection=no_connection, **arguments)
        assert isinstance(refused.value, LeaseError)

    def test_another_schema_and_table_are_another_set_of_leases(self, dsn: str, make_lease: MakeLease) -> None:
        elsewhere = LeaseStore(dsn, schema="a]b 'c", table="x]; DROP TABLE t--")
        elsewhere.ensure_created()
        here = make_lease()
        there = elsewhere.lease(here.name)
        assert [here.try_acquire(), there.try_acquire()] == [True, True]
        assert [here.try_release(), there.try_release()] == [True, True]
        elsewhere.close()
