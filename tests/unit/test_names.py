"""Names: what may be one, in which unit it is counted, and how it is quoted."""

from __future__ import annotations

import os
import platform
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqllease import LeaseError, LeaseValueError
from sqllease.names import (
    RESTING_MARK,
    TableName,
    check_lease_name,
    check_metadata,
    check_owner_id,
    new_owner_id,
    quote_identifier,
    quote_literal,
    resting_owner,
)
from tests.unit.sqltext import ODD_NAMES

LOCK = "\U0001f512"  # two UTF-16 units
E_ACUTE = "\N{LATIN SMALL LETTER E WITH ACUTE}"


@pytest.mark.parametrize(
    "name",
    [
        "a",
        "n" * 200,
        LOCK * 100,
        "two words",
        f"caf{E_ACUTE}",
        "東京",
        "a/b:c",
        "[x]",
        "o'hara",
        "100%",
        "$(table)",
        "Daily",
    ],
)
def test_a_good_lease_name_is_given_back_unchanged(name: str) -> None:
    assert check_lease_name(name) == name


NO_KEY = {
    "empty": "",
    "blank": " ",
    "blank at the end": "daily ",
    "blank at the beginning": " daily",
    "ideographic blank at the end": "w1\u3000",
    "no-break space at the beginning": "\xa0w1",
    "carriage return of an env file": "w1\r",
    "newline": "a\nb",
    "tab": "a\tb",
    "NUL": "a\x00b",
    "next line, of the second block of control characters": "a\x85b",
    "delete": "a\x7fb",
    "high half of a surrogate pair": "a\ud800",
    "low half of a surrogate pair": "\udc00a",
    "accent as a character of its own": "cafe\u0301",
    "bytes": b"daily",
    "number": 7,
    "None": None,
}


@pytest.mark.parametrize("name", NO_KEY.values(), ids=NO_KEY.keys())
def test_what_the_server_could_take_for_something_else_is_no_lease_name(name: object) -> None:
    with pytest.raises(LeaseValueError, match="lease name"):
        check_lease_name(name)


@pytest.mark.parametrize("owner", NO_KEY.values(), ids=NO_KEY.keys())
def test_what_the_server_could_take_for_something_else_is_no_owner_id(owner: object) -> None:
    with pytest.raises(LeaseValueError, match="owner id"):
        check_owner_id(owner)


@pytest.mark.parametrize("name", ["n" * 201, LOCK * 101, LOCK * 200, "n" * 199 + LOCK])
def test_a_lease_name_over_200_utf16_units_is_refused_not_cut(name: str) -> None:
    with pytest.raises(LeaseValueError, match="at most 200"):
        check_lease_name(name)


@pytest.mark.parametrize("owner", ["o" * 128, LOCK * 64])
def test_an_owner_id_may_have_128_utf16_units(owner: str) -> None:
    assert check_owner_id(owner) == owner


@pytest.mark.parametrize("owner", ["o" * 129, LOCK * 65, "o" * 127 + LOCK])
def test_an_owner_id_over_128_utf16_units_is_refused(owner: str) -> None:
    with pytest.raises(LeaseValueError, match="at most 128"):
        check_owner_id(owner)


def test_no_owner_id_can_equal_the_owner_of_a_resting_row() -> None:
    assert RESTING_MARK == "\x01"
    with pytest.raises(LeaseValueError):
        check_owner_id(RESTING_MARK + "me")


@pytest.mark.parametrize(
    ("owner", "resting"),
    [
        ("me", "\x01me"),
        ("o" * 127, "\x01" + "o" * 127),
        ("o" * 128, "\x01" + "o" * 127),
        ("o" * 126 + LOCK, "\x01" + "o" * 126),  # cut between characters, never through one
        ("o" * 125 + LOCK + "o", "\x01" + "o" * 125 + LOCK),
        ("o" * 126 + " o", "\x01" + "o" * 126),  # the table refuses a blank at the end
        ("o" + "\u3000" * 126 + "o", "\x01o"),
    ],
    ids=["short", "127", "128", "emoji at the cut", "emoji before it", "blank at the cut", "many blanks"],
)
def test_the_owner_of_a_resting_row_is_who_held_it_cut_to_the_column(owner: str, resting: str) -> None:
    assert check_owner_id(owner) == owner
    assert resting_owner(owner) == resting


@given(st.text(alphabet=st.sampled_from(["n", " ", LOCK]), max_size=126))
def test_the_owner_of_a_resting_row_always_fits_the_column_and_ends_in_no_blank(middle: str) -> None:
    owner = ("n" + middle).encode("utf-16-le")[:252].decode("utf-16-le", errors="ignore") + "no"
    resting = resting_owner(check_owner_id(owner))
    assert len(resting.encode("utf-16-le")) // 2 <= 128
    assert resting == resting.rstrip()
    assert owner.startswith(resting.removeprefix(RESTING_MARK))
    assert len(resting) > 1


@pytest.mark.parametrize("metadata", [None, "", " padded ", "m" * 1024, LOCK * 512, "two\nlines", "cafe\u0301"])
def test_metadata_is_free_text_of_at_most_1024_utf16_units(metadata: str | None) -> None:
    assert check_metadata(metadata) == metadata


@pytest.mark.parametrize("metadata", ["m" * 1025, LOCK * 513, "\ud800", "a\x00", b"m", 7])
def test_metadata_that_does_not_fit_is_refused(metadata: object) -> None:
    with pytest.raises(LeaseValueError, match="metadata"):
        check_metadata(metadata)


def test_a_refused_name_is_a_value_error_and_a_lease_error() -> None:
    assert issubclass(LeaseValueError, ValueError)
    assert issubclass(LeaseValueError, LeaseError)


def test_a_message_about_half_a_surrogate_pair_can_be_printed() -> None:
    with pytest.raises(LeaseValueError) as caught:
        check_lease_name("a\ud800")
    assert str(caught.value).encode()


@pytest.fixture
def _containers_that_look_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "node", lambda: "w")
    monkeypatch.setattr(os, "getpid", lambda: 1)


@pytest.mark.usefixtures("_containers_that_look_alike")
def test_owner_ids_differ_where_host_and_pid_are_the_same() -> None:
    assert len({new_owner_id() for _ in range(100)}) == 100


@pytest.mark.usefixtures("_containers_that_look_alike")
def test_an_owner_id_shows_host_and_pid_and_has_96_random_bits_or_more() -> None:
    host, pid, random = new_owner_id().split(":")
    assert (host, pid) == ("w", "1")
    assert len(bytes.fromhex(random)) * 8 >= 96


@pytest.mark.parametrize("host", ["", "h" * 300, f"b{E_ACUTE}b{E_ACUTE}", "a b", LOCK, "a:b", "x\x01y"])
def test_a_fresh_owner_id_is_a_valid_one_on_any_host(monkeypatch: pytest.MonkeyPatch, host: str) -> None:
    monkeypatch.setattr(platform, "node", lambda: host)
    owner = new_owner_id()
    assert check_owner_id(owner) == owner
    assert len(owner.split(":")) == 3


@pytest.mark.parametrize(
    ("name", "quoted"),
    [("a]b", "[a]]b]"), ("[x]", "[[x]]]"), ("o'hara", "[o'hara]"), ("x.y", "[x.y]"), ("order", "[order]")],
)
def test_an_identifier_doubles_closing_brackets_only(name: str, quoted: str) -> None:
    assert quote_identifier(name) == quoted


@pytest.mark.parametrize(("text", "quoted"), [("o'hara", "N'o''hara'"), ("a]b", "N'a]b'"), ("", "N''"), ("'", "N''''")])
def test_a_literal_doubles_single_quotes_only(text: str, quoted: str) -> None:
    assert quote_literal(text) == quoted


@given(st.text())
def test_the_server_reads_a_quoted_identifier_as_the_name_itself(name: str) -> None:
    match = re.fullmatch(r"\[((?:[^\]]|\]\])*)\]", quote_identifier(name))
    assert match is not None
    assert match.group(1).replace("]]", "]") == name


@given(st.text())
def test_the_server_reads_a_quoted_literal_as_the_text_itself(text: str) -> None:
    match = re.fullmatch(r"N'((?:[^']|'')*)'", quote_literal(text))
    assert match is not None
    assert match.group(1).replace("''", "'") == text


@pytest.mark.parametrize("name", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_any_text_is_a_schema_and_a_table(name: str) -> None:
    table = TableName(name, name)
    assert (table.schema, table.table) == (name, name)


NO_IDENTIFIER = {
    "empty": "",
    "blank": "  ",
    "129 characters": "n" * 129,
    "65 emoji": LOCK * 65,
    "blank at the end": "x ",
    "NUL": "a\x00b",
    "half of a surrogate pair": "\ud800",
    "None": None,
}


@pytest.mark.parametrize("name", NO_IDENTIFIER.values(), ids=NO_IDENTIFIER.keys())
@pytest.mark.parametrize("which", ["schema", "table"])
def test_what_can_be_no_identifier_is_refused(which: str, name: object) -> None:
    arguments: dict[str, object] = {which: name}
    with pytest.raises(LeaseValueError, match=f"a {which} name"):
        TableName(**arguments)  # type: ignore[arg-type]


@pytest.mark.parametrize("table", ["#Leases", "##Leases"])
def test_a_temporary_table_is_refused(table: str) -> None:
    # "Prefix local temporary table names with single number sign, and global with a double one" (CREATE TABLE): each
    # connection would have a lease table of its own, or the table would go with its maker. Brackets change nothing.
    with pytest.raises(LeaseValueError, match="table name"):
        TableName("lease", table)


def test_a_table_is_written_with_its_schema_each_part_quoted() -> None:
    assert str(TableName("a]b", "o'hara")) == "[a]]b].[o'hara]"


def test_objects_of_the_table_are_named_after_it() -> None:
    assert TableName().part("PK") == "PK_Leases"
    assert TableName().part("IX", "_ExpiresAtUtc") == "IX_Leases_ExpiresAtUtc"


@given(
    st.text(alphabet=st.sampled_from(["n", "]", LOCK]), min_size=1, max_size=64), st.sampled_from(["PK", "CK", "IX"])
)
def test_a_derived_name_always_fits_an_identifier(table: str, prefix: str) -> None:
    derived = TableName("s", table).part(prefix, "_ExpiresAtUtc")
    assert 0 < len(derived.encode("utf-16-le")) // 2 <= 128


def test_derived_names_of_long_tables_that_differ_at_the_end_differ() -> None:
    assert TableName("s", "n" * 127 + "a").part("PK") != TableName("s", "n" * 127 + "b").part("PK")


def test_a_derived_name_stays_the_same_from_run_to_run() -> None:
    # A name that changed would make a second index. The text is cut to fit, then 16 digits of SHA-256 of the whole.
    assert re.fullmatch("PK_n{108}_[0-9a-f]{16}", TableName("s", "n" * 128).part("PK"))
    assert TableName("s", "n" * 128).part("PK") == TableName("t", "n" * 128).part("PK")
