"""What `verify` says of a lease table, by what the catalogue says; and `ensure_created` next to another installer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

import sqllease
from sqllease.ddl import ensure_created_in
from sqllease.faults import Fault, Kind, Retry
from sqllease.names import TableName
from sqllease.verification import Check, verify_in
from tests.unit.sqltext import GOOD_COLUMNS, GOOD_DATABASE, GOOD_INDEXES, as_connection, catalogue

TABLE = TableName()
KEY, INDEX = GOOD_INDEXES
CI = "SQL_Latin1_General_CP1_CI_AS"


def trouble(**found: Any) -> list[tuple[str, str, str]]:
    """All checks that are not well: name, status, text."""
    checks = verify_in(as_connection(catalogue(**found)), TABLE)
    return [(check.name, check.status, check.text) for check in checks if check.status != "ok"]


def columns(**changes: dict[int, Any] | None) -> list[Sequence[Any]]:
    """The right columns, but with some cells changed, or (None) without a column."""
    made: list[Sequence[Any]] = []
    for row in GOOD_COLUMNS:
        change = changes.get(row[1], {})
        if change is not None:
            made.append([change.get(position, cell) for position, cell in enumerate(row)])
    return made


def database(**changes: Any) -> Sequence[Any]:
    fields = "updateability durability versioning select insert update delete escalation version".split()
    return [changes.get(field, cell) for field, cell in zip(fields, GOOD_DATABASE, strict=True)]


def test_the_table_of_create_script_has_nothing_wrong() -> None:
    checks = verify_in(as_connection(catalogue()), TABLE)
    assert {check.status for check in checks} == {"ok"}
    assert len(checks) >= 10


def test_a_missing_table_is_one_failure_and_no_further_questions() -> None:
    connection = catalogue(columns=[])
    (check,) = verify_in(as_connection(connection), TableName("ops", "Jobs"))
    assert (check.name, check.status) == ("table", "failure")
    assert "[ops].[Jobs]" in check.text
    assert len(connection.asked) == 1


def test_a_view_is_no_lease_table() -> None:
    ((name, status, _),) = trouble(columns=[["V ", *row[1:]] for row in GOOD_COLUMNS])
    assert (name, status) == ("table", "failure")


@pytest.mark.parametrize("column", [row[1] for row in GOOD_COLUMNS])
def test_a_missing_column_is_a_failure_that_names_it(column: str) -> None:
    ((name, status, text),) = trouble(columns=columns(**{column: None}))
    assert (name, status) == ("columns", "failure")
    assert column in text


@pytest.mark.parametrize(
    ("column", "change", "found", "wanted"),
    [
        ("LeaseName", {3: 200}, "nvarchar(100) NOT NULL", "nvarchar(200) NOT NULL"),
        ("OwnerInstanceId", {3: -1}, "nvarchar(max) NOT NULL", "nvarchar(128) NOT NULL"),
        ("AcquiredAtUtc", {2: "datetime2", 3: 8}, "datetime2 NOT NULL", "datetimeoffset(7) NOT NULL"),
        ("ExpiresAtUtc", {4: 3, 3: 8}, "datetimeoffset(3) NOT NULL", "datetimeoffset(7) NOT NULL"),
        ("Metadata", {5: 0}, "nvarchar(1024) NOT NULL", "nvarchar(1024) NULL"),
        ("RowVersion", {2: "binary"}, "binary NOT NULL", "rowversion NOT NULL"),
    ],
)
def test_a_column_of_another_type_is_a_failure_that_says_what_it_is_and_should_be(
    column: str, change: dict[int, Any], found: str, wanted: str
) -> None:
    ((name, status, text),) = trouble(columns=columns(**{column: change}))
    assert (name, status) == ("columns", "failure")
    assert [part for part in (column, found, wanted) if part not in text] == []


def test_a_nullable_column_that_a_later_version_added_is_well() -> None:
    assert trouble(columns=[*GOOD_COLUMNS, ("U ", "Later", "int", 4, 0, 1, None)]) == []


def test_an_unknown_column_that_must_have_a_value_is_a_warning() -> None:
    ((name, status, text),) = trouble(columns=[*GOOD_COLUMNS, ("U ", "Strange", "int", 4, 0, 0, None)])
    assert (name, status) == ("columns", "warning")
    assert "Strange" in text


@pytest.mark.parametrize("column", ["LeaseName", "OwnerInstanceId"])
def test_a_collation_that_is_not_binary_is_a_warning(column: str) -> None:
    # The .NET original's table is one, and is safe: a name that meets another one's row is reported.
    ((name, status, text),) = trouble(columns=columns(**{column: {6: CI}}))
    assert (name, status) == ("collation", "warning")
    assert f"{column} {CI}" in text


def test_any_binary_collation_will_do() -> None:
    assert (
        trouble(columns=columns(LeaseName={6: "Japanese_XJIS_140_BIN2"}, OwnerInstanceId={6: "Latin1_General_BIN"}))
        == []
    )
    assert trouble(columns=columns(LeaseName={6: "Latin1_General_100_BIN2_UTF8"})) == []


@pytest.mark.parametrize(
    "indexes",
    [
        [INDEX],
        [("PK", 0, 0, 0, 1, "LeaseName"), INDEX],
        [("PK", 1, 1, 0, 1, "LeaseName"), INDEX],
        [("PK", 1, 0, 1, 1, "LeaseName"), INDEX],
        [("PK", 1, 0, 0, 1, "LeaseName"), ("PK", 1, 0, 0, 2, "OwnerInstanceId"), INDEX],
        [("PK", 1, 0, 0, 1, "OwnerInstanceId"), INDEX],
    ],
    ids=["none", "not unique", "disabled", "filtered", "with a second column", "of another column"],
)
def test_a_table_without_a_unique_key_on_the_lease_name_is_a_failure(indexes: list[Sequence[Any]]) -> None:
    ((name, status, text),) = trouble(indexes=indexes)
    assert (name, status) == ("key", "failure")
    assert "two owners" in text


def test_a_unique_index_is_as_good_as_a_primary_key() -> None:
    assert trouble(indexes=[("UX", 1, 0, 0, 1, "LeaseName"), INDEX]) == []


@pytest.mark.parametrize(
    "indexes",
    [
        [KEY],
        [KEY, ("IX", 0, 1, 0, 1, "ExpiresAtUtc")],
        [KEY, ("IX", 0, 0, 0, 1, "RenewedAtUtc"), ("IX", 0, 0, 0, 2, "ExpiresAtUtc")],
        [KEY, ("IX", 0, 0, 1, 1, "ExpiresAtUtc")],
    ],
    ids=["none", "disabled", "not its first column", "filtered"],
)
def test_a_table_without_a_usable_index_on_the_expiry_is_a_warning(indexes: list[Sequence[Any]]) -> None:
    ((name, status, _),) = trouble(indexes=indexes)
    assert (name, status) == ("index", "warning")


def test_a_trigger_is_a_warning_that_names_it() -> None:
    ((name, status, text),) = trouble(triggers=[("Audit", 0)])
    assert (name, status) == ("triggers", "warning")
    assert "Audit" in text


def test_an_instead_of_trigger_is_a_failure_that_names_it() -> None:
    ((name, status, text),) = trouble(triggers=[("Audit", 0), ("Swallow", 1)])
    assert (name, status) == ("triggers", "failure")
    assert "Swallow" in text


@pytest.mark.parametrize(
    ("change", "name", "status", "told"),
    [
        ({"updateability": "READ_ONLY"}, "read-only", "failure", "READ_ONLY"),
        ({"durability": 2}, "durability", "failure", "FORCED"),
        ({"insert": 0}, "rights", "failure", "INSERT"),
        ({"select": None, "delete": 0}, "rights", "failure", "SELECT, DELETE"),
        ({"escalation": "TABLE"}, "lock escalation", "warning", "LOCK_ESCALATION"),
        ({"version": "2"}, "version", "warning", "2"),
    ],
)
def test_a_database_that_does_not_fit_says_why(change: dict[str, Any], name: str, status: str, told: str) -> None:
    ((found, how_bad, text),) = trouble(database=database(**change))
    assert (found, how_bad) == (name, status)
    assert told in text


@pytest.mark.parametrize("change", [{"durability": 1}, {"versioning": 0}, {"version": None}])
def test_a_setting_that_does_no_harm_is_well(change: dict[str, Any]) -> None:
    # Delayed durability that is only allowed, locking instead of row versions, a table of the .NET original.
    assert trouble(database=database(**change)) == []


def test_all_that_is_wrong_is_told_at_once() -> None:
    found = trouble(
        columns=columns(Metadata=None, LeaseName={6: CI}),
        indexes=[],
        triggers=[("Swallow", 1)],
        database=database(updateability="READ_ONLY", delete=0),
    )
    assert [name for name, status, _ in found if status == "failure"] == [
        "columns",
        "key",
        "triggers",
        "read-only",
        "rights",
    ]
    assert [name for name, status, _ in found if status == "warning"] == ["collation", "index"]


def test_every_function_that_a_check_advises_exists() -> None:
    told: list[Check] = []
    everything_wrong: tuple[dict[str, Any], ...] = (
        {"columns": []},
        {"columns": columns(Metadata=None, LeaseName={6: CI}), "indexes": [], "database": database(delete=0)},
    )
    for found in everything_wrong:
        told += verify_in(as_connection(catalogue(**found)), TABLE)
    advised = {function for check in told for function in re.findall(r"(\w+)\(\)", check.text)}
    assert advised
    assert advised <= set(dir(sqllease.schema))


class RefusingConnection:
    """Answers so many scripts with one error, and then each as if all were well."""

    def __init__(self, number: int, times: int = 10) -> None:
        self.number = number
        self.times = times
        self.asked = 0

    def run(self, text: str, command_timeout: int) -> None:
        self.asked += 1
        if self.asked <= self.times:
            raise Retry(Fault(Kind.SET_UP, self.number, text="the server's words"))


THERE = pytest.mark.parametrize("number", [2714, 2759, 1913, 1750])
"""An object, a schema, an index, a constraint of that name is there already."""


@THERE
def test_an_installer_that_came_first_is_no_error(number: int) -> None:
    connection = RefusingConnection(number, times=1)
    ensure_created_in(as_connection(connection), TABLE)
    assert connection.asked == 2


@THERE
def test_a_name_that_is_still_in_the_way_at_the_second_look_is_told_with_the_table(number: int) -> None:
    with pytest.raises(Retry) as caught:
        ensure_created_in(as_connection(RefusingConnection(number)), TABLE)
    assert caught.value.fault.number == number
    assert caught.value.fault.text == "[lease].[Leases]: the server's words"


@pytest.mark.parametrize("number", [262, 2760, 51003, 1222])
def test_any_other_error_of_an_install_is_told_at_once(number: int) -> None:
    connection = RefusingConnection(number)
    with pytest.raises(Retry):
        ensure_created_in(as_connection(connection), TABLE)
    assert connection.asked == 1
