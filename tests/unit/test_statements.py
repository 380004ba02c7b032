"""The statements of one table: values are parameters, names are quoted, and one text is one plan."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqllease import LeaseOptions
from sqllease.names import TableName
from sqllease.statements import Statement, Statements
from tests.unit.sqltext import ODD_NAMES, code, markers, names, skeleton, statements

ALL = statements()
TENURE = "2026-11-29T14:00:00.1234567+00:00"
EACH = pytest.mark.parametrize("label", ALL)
FIRST_LOCK = re.compile(r"SET LOCK_TIMEOUT (\d+);")


def bound(statement: Statement) -> dict[str, str | int]:
    """Variable -> value, for every `DECLARE @variable type = ?`."""
    variables = re.findall(r"DECLARE @(\w+)\s+[\w()]+\s*=\s*(?:NULLIF\()?\?", code(statement.text))
    return dict(zip(variables, statement.parameters, strict=True))


def acquire(options: LeaseOptions | None = None, **changes: Any) -> Statement:
    arguments: dict[str, Any] = {"metadata": None, "last": None, "keep": False, "sweep": False, **changes}
    metadata = arguments.pop("metadata")
    return Statements(TableName()).acquire("nightly", "me", metadata, options or LeaseOptions(), **arguments)


@EACH
def test_a_statement_asks_for_as_many_parameters_as_it_brings(label: str) -> None:
    assert markers(ALL[label].text) == len(ALL[label].parameters) == len(ALL[label].sizes)


@EACH
def test_no_question_mark_is_anything_but_a_parameter(label: str) -> None:
    # A driver that counts them in comments too would ask for one too many.
    assert ALL[label].text.count("?") == len(ALL[label].parameters)


@EACH
def test_no_parameter_is_null(label: str) -> None:
    # Microsoft's driver would ask the server for the type first: a second round trip.
    assert None not in ALL[label].parameters


@EACH
def test_text_has_a_declared_size_and_a_number_has_none(label: str) -> None:
    sizes = [size is not None for size in ALL[label].sizes]
    assert sizes == [isinstance(value, str) for value in ALL[label].parameters]


@EACH
def test_a_text_parameter_is_as_long_as_the_variable_that_takes_it(label: str) -> None:
    # Shorter, and the driver cuts; longer, and the assignment cuts, without an error (DECLARE @local_variable).
    statement = ALL[label]
    declared = re.findall(r"DECLARE @\w+\s+([\w()]+)\s*=\s*(?:NULLIF\()?\?", code(statement.text))
    for kind, size in zip(declared, statement.sizes, strict=False):
        if kind.startswith("nvarchar"):
            assert kind == f"nvarchar({size})"


def test_names_owners_and_metadata_are_declared_with_the_length_of_their_column() -> None:
    statement = acquire()
    sizes = dict(zip(bound(statement), statement.sizes, strict=True))
    assert (sizes["name"], sizes["owner"], sizes["metadata"]) == (200, 128, 1024)


@EACH
def test_a_value_never_stands_in_the_text(label: str) -> None:
    marked = statements(name="zebra'", owner="yak]")[label]
    assert marked.text == ALL[label].text  # and so every name shares one plan
    assert marked.sizes == ALL[label].sizes


@EACH
@pytest.mark.parametrize("odd", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_no_schema_or_table_name_changes_what_the_statement_says(label: str, odd: str) -> None:
    table = TableName(odd, odd[::-1])
    text = statements(table)[label].text
    assert skeleton(text) == skeleton(ALL[label].text)
    swap = {"lease": odd, "Leases": odd[::-1]}
    assert names(text) == [swap.get(name, name) for name in names(ALL[label].text)]


@given(st.text(min_size=1, max_size=20), st.text(min_size=1, max_size=20))
def test_no_name_at_all_changes_what_an_acquire_says(schema: str, table: str) -> None:
    schema, table = (f"n{name.replace(chr(0), '')}." for name in (schema, table))
    assert skeleton(statements(TableName(schema, table))["acquire"].text) == skeleton(ALL["acquire"].text)


@pytest.mark.parametrize(
    "seconds", [2, 30, 30.25, 2_147.5, 0.000001 + 2, 366 * 86_400], ids=lambda seconds: f"{seconds} s"
)
def test_a_duration_goes_out_as_whole_seconds_and_microseconds(seconds: float) -> None:
    # DATEADD takes an int: 2,147 seconds of microseconds at most.
    values = bound(acquire(LeaseOptions(duration=seconds)))
    whole, micro = int(values["duration_s"]), int(values["duration_us"])
    assert 0 <= micro < 1_000_000
    assert whole * 1_000_000 + micro == round(seconds * 1_000_000)


def test_hold_and_grace_go_out_the_same_way() -> None:
    values = bound(acquire(LeaseOptions(hold_at_least=90.5, takeover_grace=1.25)))
    assert (values["hold_s"], values["hold_us"]) == (90, 500_000)
    assert (values["grace_s"], values["grace_us"]) == (1, 250_000)


@pytest.mark.parametrize(("metadata", "has_metadata"), [(None, 0), ("", 1), ("from ops", 1)])
def test_no_metadata_and_empty_metadata_are_told_apart(metadata: str | None, has_metadata: int) -> None:
    values = bound(acquire(metadata=metadata))
    assert (values["metadata"], values["has_metadata"]) == (metadata or "", has_metadata)


def test_an_acquire_says_which_tenure_it_knows_and_whether_it_is_still_held() -> None:
    values = bound(acquire(last=TENURE, keep=True))
    assert (values["last"], values["keep"]) == (TENURE, 1)
    assert (bound(acquire())["last"], bound(acquire())["keep"]) == ("", 0)


@pytest.mark.parametrize("label", ["renew", "release"])
def test_renew_and_release_name_the_one_tenure_they_mean(label: str) -> None:
    values = bound(ALL[label])
    assert (values["name"], values["owner"], values["tenure"]) == ("nightly", "me", TENURE)


def test_a_tenure_fits_its_parameter() -> None:
    statement = ALL["renew"]
    sizes = dict(zip(bound(statement), statement.sizes, strict=True))
    assert (sizes["tenure"] or 0) >= len("9999-12-31T23:59:59.9999999+14:00")


def test_a_purge_says_how_old_and_how_many() -> None:
    assert bound(Statements(TableName()).purge(60.5, 500, 1.5)) == {"age_s": 60, "age_us": 500_000, "limit": 500}


@pytest.mark.parametrize(("lock_timeout", "milliseconds"), [(1.5, "1500"), (0.001, "1"), (0.0011, "1")])
@pytest.mark.parametrize("label", ["acquire", "renew", "release"])
def test_the_server_waits_for_a_lock_as_long_as_the_options_say(
    label: str, lock_timeout: float, milliseconds: str
) -> None:
    text = statements(options=LeaseOptions(lock_timeout=lock_timeout))[label].text
    assert FIRST_LOCK.findall(text)[0] == milliseconds


def test_two_options_of_one_table_do_not_share_a_text_by_mistake() -> None:
    made = Statements(TableName())
    short, long = LeaseOptions(lock_timeout=0.5), LeaseOptions(lock_timeout=1.5)
    texts = [made.renew("nightly", "me", TENURE, options).text for options in (short, long, short)]
    assert [FIRST_LOCK.findall(text)[0] for text in texts] == ["500", "1500", "500"]


def test_only_an_acquire_that_is_told_to_sweeps() -> None:
    assert "DELETE" not in code(acquire().text)
    assert "DELETE" in code(acquire(sweep=True).text)


def test_a_sweep_comes_after_the_answer() -> None:
    # So no failure of it can touch the acquire.
    text = code(acquire(sweep=True).text)
    assert text.index("AS ErrorNumber") < text.index("DELETE")


def test_a_sweep_takes_the_limit_and_never_less_than_the_age_of_the_options() -> None:
    text = acquire(LeaseOptions(sweep_limit=7, sweep_after=60.5), sweep=True).text
    assert "TOP (7)" in text
    (after,) = re.findall(r"DATEADD\(second, -(\d+), @now\)", code(text))
    assert int(after) >= 60.5


@EACH
def test_each_batch_has_one_result_set_with_the_promised_columns(label: str) -> None:
    chunks = [chunk.strip() for chunk in code(ALL[label].text).split(";")]
    answers = [chunk for chunk in chunks if chunk.startswith("SELECT")]
    assert len(answers) == 1
    assert (
        tuple(re.findall(r"\bAS (\w+)(?=,|\s*$|\s+FROM\b)", answers[0]))[: len(ALL[label].columns)]
        == ALL[label].columns
    )


@EACH
def test_no_output_goes_to_the_client_directly(label: str) -> None:
    # A bare OUTPUT fails on a table with triggers (334), and shows rows that are rolled back later.
    text = code(ALL[label].text)
    assert len(re.findall(r"\bOUTPUT\b", text)) == len(re.findall(r"\bOUTPUT\b[^;]*?\bINTO @\w+ \(", text))


def test_the_lease_of_a_get_is_the_one_that_was_asked_for() -> None:
    assert (ALL["get"].parameters, ALL["list"].parameters) == (("nightly",), ())
