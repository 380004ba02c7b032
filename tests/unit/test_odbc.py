"""Connection strings, by the rules of Microsoft's page on SQLDriverConnect."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sqllease.odbc import parse, scrub, secrets, with_default

PASSWORDS = ["p;w", "{x", "x}", "}{;", " lead", "trail ", "a=b", "p%40", "", "a}}b", "}", "{a}", ";PWD=x", "\N{LOCK}"]


def braced(value: str) -> str:
    """By the same page: in braces all stands for itself, but a closing brace, which is doubled."""
    return "{" + value.replace("}", "}}") + "}"


@pytest.mark.parametrize("password", PASSWORDS)
def test_a_braced_password_is_read_back_exactly(password: str) -> None:
    assert parse(f"SERVER=db;PWD={braced(password)};UID=sa") == [("server", "db"), ("pwd", password), ("uid", "sa")]


KEYS = st.from_regex(r"[A-Za-z][A-Za-z0-9_ ]{0,10}[A-Za-z0-9]", fullmatch=True)


@given(st.lists(st.tuples(KEYS, st.text())))
def test_any_pairs_with_braced_values_are_read_back_exactly(pairs: list[tuple[str, str]]) -> None:
    text = ";".join(f"{key}={braced(value)}" for key, value in pairs)
    assert parse(text) == [(key.lower(), value) for key, value in pairs]


@given(st.text())
def test_no_text_is_too_odd_to_look_at(text: str) -> None:
    parse(text)
    secrets(text)


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("", []),
        (" ; ;; ", []),
        ("Server=db", [("server", "db")]),
        ("SERVER=tcp:db,1433;", [("server", "tcp:db,1433")]),
        (" Uid = sa ; PWD = x ", [("uid", "sa"), ("pwd", "x")]),
        ("PWD=a=b==;UID=sa", [("pwd", "a=b=="), ("uid", "sa")]),
        ("PWD=;UID=sa", [("pwd", ""), ("uid", "sa")]),
        ("PWD=a{b}c;UID=sa", [("pwd", "a{b}c"), ("uid", "sa")]),
        (
            "DRIVER={ODBC Driver 18 for SQL Server};;UID=sa",
            [("driver", "ODBC Driver 18 for SQL Server"), ("uid", "sa")],
        ),
        ("UID=a;uid=b", [("uid", "a"), ("uid", "b")]),
    ],
)
def test_a_connection_string_is_read_by_the_grammar(text: str, pairs: list[tuple[str, str]]) -> None:
    assert parse(text) == pairs


@pytest.mark.parametrize("junk", ["junk", "=x", "{junk}"])
def test_text_that_is_no_pair_is_left_out_and_hides_nothing_behind_it(junk: str) -> None:
    assert parse(f"SERVER=db;{junk};PWD=hunter2") == [("server", "db"), ("pwd", "hunter2")]


@pytest.mark.parametrize("text", ["SERVER=db", "SERVER=db;", "SERVER=db; ", "PWD={a}}b}", "PWD={a}}b};", ""])
def test_a_missing_key_is_added_at_the_end(text: str) -> None:
    longer = with_default(text, "ApplicationIntent", "ReadOnly")
    assert longer.startswith(text)
    assert parse(longer) == [*parse(text), ("applicationintent", "ReadOnly")]


@pytest.mark.parametrize(
    "text", ["APP=mine", "app=mine;", "SERVER=db; App = {mine}", "SERVER=db;APP=", "junk;APP=mine"]
)
def test_the_users_own_value_wins_whatever_the_case_of_its_key(text: str) -> None:
    assert with_default(text, "App", "sqllease") == text


@pytest.mark.parametrize("text", ["PWD={;APP=x}", "PWD={}};APP=x}", "UID=APP=x", "WSAPP=x"])
def test_a_key_inside_a_value_is_not_that_key(text: str) -> None:
    assert with_default(text, "APP", "sqllease") == f"{text};APP=sqllease;"


@pytest.mark.parametrize("key", ["PWD", "pwd", "Password", "PASSWORD", "AccessToken", "ClientCertPassword"])
@pytest.mark.parametrize(
    "text",
    ["SERVER=db;{key}=hunter2;UID=sa", "{key} = {{hunter2}}", "junk;{key}=hunter2", "SERVER=db;junk;{key}=hunter2"],
)
def test_a_secret_is_found_under_each_of_its_keys(key: str, text: str) -> None:
    assert "hunter2" in secrets(text.format(key=key))


@pytest.mark.parametrize("between", [" ", "\n", ",", "\t", ", "])
@pytest.mark.parametrize(
    "text", ["DRIVER=NoSuch{}PWD=hunter2;UID=sa", "UID=sa{}Password=hunter2", "DRIVER={{NoSuch{}PWD=hunter2}};UID=sa"]
)
def test_a_secret_is_found_where_its_semicolon_is_missing(text: str, between: str) -> None:
    assert "hunter2" in secrets(text.format(between))


def test_what_is_no_secret_stays_readable() -> None:
    assert secrets("DRIVER={ODBC Driver 18 for SQL Server};SERVER=pwd-host;UID=password;DATABASE=app") == ()


@given(
    # Stars are what scrub itself writes.
    st.text(st.characters(codec="utf-8", exclude_characters="*"), min_size=3),
    st.text(max_size=20),
    st.text(max_size=20),
)
def test_no_braced_password_survives_scrubbing(password: str, before: str, after: str) -> None:
    hidden = secrets(f"SERVER=db;PWD={braced(password)};UID=sa")
    assert password not in scrub(f"{before}{password}{after}", hidden)


@pytest.mark.parametrize(
    ("text", "quoted"),
    [
        ("SERVER=db;PWD=hunter2};UID=sa", "hunter2"),
        ("SERVER=db;PWD={hunt}er2;UID=sa", "er2"),
        ("SERVER=db;PWD={hunter;second}third;UID=sa", "third"),
        ("SERVER=db;PWD=hunter2;secondhalf;UID=sa", "secondhalf"),
    ],
)
def test_the_pieces_of_a_badly_quoted_password_are_scrubbed_too(text: str, quoted: str) -> None:
    told = scrub(f"Invalid connection string attribute '{quoted}'", secrets(text))
    assert told == "Invalid connection string attribute '***'"


def test_a_secret_that_contains_another_is_scrubbed_as_a_whole() -> None:
    assert scrub("hunter2hunter2x", secrets("PWD=hunter2;AccessToken=hunter2hunter2x")) == "***"
