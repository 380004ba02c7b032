"""The T-SQL as text: rules that hold for every file and every batch."""

from __future__ import annotations

import re
from importlib import resources
from pathlib import Path

import pytest

from sqllease import LeaseValueError, schema
from sqllease.names import TableName
from tests.unit.sqltext import ODD_NAMES, code, literals, names, pieces, scripts, skeleton, statements, texts

TOP = Path(__file__).parents[2] / "sql"
FILES = {
    **{
        f"sqllease/sql/{file.name}": file.read_text("utf-8")
        for file in resources.files("sqllease").joinpath("sql").iterdir()
    },
    **{f"sql/{path.name}": path.read_text("utf-8") for path in sorted(TOP.iterdir())},
}
TEXTS = texts()
SCRIPTS = scripts()
EACH_TEXT = pytest.mark.parametrize("label", TEXTS)
WRITES = ("acquire", "acquire and sweep", "renew", "release", "release to rest", "break", "purge")
OWN_CONNECTION = (*WRITES, "look", "get", "list", "create", "verify 0", "verify 1", "verify 2", "verify 3")


@pytest.mark.parametrize("script", ["create", "grant", "drop"])
def test_the_script_in_the_folder_is_the_one_that_the_function_prints(script: str) -> None:
    assert (TOP / f"{script}.sql").read_text("utf-8") == getattr(schema, f"{script}_script")()


def test_the_folder_has_no_other_scripts() -> None:
    assert sorted(path.name for path in TOP.iterdir()) == ["create.sql", "drop.sql", "grant.sql"]


@pytest.mark.parametrize("path", FILES)
def test_no_file_knows_a_local_time(path: str) -> None:
    local = (
        r"\b(GETDATE|GETUTCDATE|SYSDATETIME|SYSDATETIMEOFFSET|CURRENT_TIMESTAMP|CURRENT_DATE|AT\s+TIME\s+ZONE)\b|\{fn"
    )
    assert re.findall(local, FILES[path], re.IGNORECASE) == []


@pytest.mark.parametrize("path", FILES)
def test_a_file_is_plain_ascii_with_unix_line_ends(path: str) -> None:
    # A DBA pastes it into any tool.
    assert FILES[path].isascii()
    assert "\r" not in FILES[path]
    assert FILES[path].endswith("\n")


@EACH_TEXT
def test_every_placeholder_is_replaced(label: str) -> None:
    assert re.findall(r"\$\(\w*\)?", TEXTS[label]) == []


@EACH_TEXT
def test_the_clock_is_read_once_in_a_batch(label: str) -> None:
    assert len(re.findall(r"\bSYSUTCDATETIME\(\)", code(TEXTS[label]))) <= 1


@EACH_TEXT
def test_a_variable_has_one_spelling(label: str) -> None:
    # In a database with a case-sensitive collation @Name and @name are two.
    spelled = set(re.findall(r"(?<![@\w])@\w+", code(TEXTS[label])))
    assert len({variable.lower() for variable in spelled}) == len(spelled)


@pytest.mark.parametrize("label", statements())
def test_a_variable_is_declared_before_it_is_used(label: str) -> None:
    text = code(TEXTS[label])
    for variable in set(re.findall(r"(?<![@\w])@\w+", text)):
        first = re.search(rf"(?<![@\w]){variable}\b", text)
        assert first is not None
        assert text[: first.start()].endswith("DECLARE ")


@pytest.mark.parametrize("label", WRITES)
def test_every_change_of_the_lease_table_locks_rows_and_never_pages(label: str) -> None:
    text = (
        code(TEXTS[label]).replace("WHEN NOT MATCHED BY TARGET\n            THEN INSERT", "").replace("THEN UPDATE", "")
    )
    changes = re.findall(r"\b(?:MERGE|UPDATE|DELETE|INSERT)\b[^;]*", text)
    assert changes
    for change in changes:
        target = re.search(r"\[lease\]\.\[Leases\](?: AS t)? WITH \(([^)]*)\)", change)
        assert target is not None
        assert "ROWLOCK" in target.group(1)


@pytest.mark.parametrize("label", [label for label in statements() if label != "look" and "applock" not in label])
def test_every_use_of_the_lease_table_says_how_it_locks(label: str) -> None:
    uses = re.findall(
        r"\[lease\]\.\[Leases\](?: AS \w)?( WITH \((?:[^)]*\b(?:ROWLOCK|READUNCOMMITTED)\b[^)]*)\))?",
        code(TEXTS[label]),
    )
    assert uses
    assert all(uses)


def test_a_look_at_a_replica_has_no_hint_and_opens_no_transaction() -> None:
    # A poll in one transaction sees one snapshot for ever; a secondary ignores hints, and refuses writes.
    words = set(skeleton(TEXTS["look"]))
    assert {"WITH", "MERGE", "UPDATE", "DELETE", "INSERT"}.isdisjoint(words)
    assert "BEGIN TRANSACTION" not in TEXTS["look"]


@pytest.mark.parametrize("label", OWN_CONNECTION)
def test_a_batch_relies_on_no_setting_of_the_session(label: str) -> None:
    # sp_reset_connection does not reset the isolation level, and a pool may hand out anything.
    text = code(TEXTS[label])
    settings = [
        "SET NOCOUNT ON;",
        "SET XACT_ABORT ON;",
        "SET IMPLICIT_TRANSACTIONS OFF;",
        "SET ROWCOUNT 0;",
        "SET TRANSACTION ISOLATION LEVEL READ COMMITTED;",
        "SET LOCK_TIMEOUT ",
    ]
    assert [setting for setting in settings if setting not in text[: _first_act(text)]] == []


@pytest.mark.parametrize("label", OWN_CONNECTION)
def test_a_batch_refuses_an_open_transaction_first(label: str) -> None:
    text = code(TEXTS[label])
    assert text.index("IF @@TRANCOUNT > 0") < _first_act(text)


def _first_act(text: str) -> int:
    return min(text.index(verb) for verb in ("MERGE", "UPDATE t", "DELETE t", "SELECT ") if verb in text)


@pytest.mark.parametrize("label", ["acquire", "acquire and sweep"])
def test_an_acquire_locks_the_key_of_a_row_that_is_not_there_yet(label: str) -> None:
    # UPDLOCK alone: two inserts (2627). HOLDLOCK alone: a deadlock (1205).
    (hints,) = re.findall(r"MERGE INTO \[lease\]\.\[Leases\] WITH \(([^)]*)\)", code(TEXTS[label]))
    assert {"UPDLOCK", "HOLDLOCK", "ROWLOCK"} <= set(hints.split(", "))


@EACH_TEXT
def test_every_literal_is_unicode(label: str) -> None:
    # A name outside the code page of the database would turn into question marks.
    assert [piece for kind, piece in pieces(TEXTS[label]) if kind == "literal" and not piece.startswith("N")] == []


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.parametrize("odd", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_no_schema_or_table_name_changes_what_a_script_says(script: str, odd: str) -> None:
    assert skeleton(scripts(odd, odd[::-1])[script]) == skeleton(SCRIPTS[script])


@pytest.mark.parametrize("odd", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_create_quotes_each_name_by_the_rule_of_its_place(odd: str) -> None:
    table = odd[::-1]
    text = schema.create_script(odd, table)
    bracketed_schema, bracketed_table = (f"[{name.replace(']', ']]')}]" for name in (odd, table))
    assert {odd, table} <= set(names(text))
    assert {odd, table, f"{bracketed_schema}.{bracketed_table}", f"CREATE SCHEMA {bracketed_schema}"} <= set(
        literals(text)
    )


@pytest.mark.parametrize("role", ODD_NAMES.values(), ids=ODD_NAMES.keys())
def test_grant_quotes_the_role_by_the_rule_of_its_place(role: str) -> None:
    text = schema.grant_script(role=role)
    bracketed = f"[{role.replace(']', ']]')}]"
    assert skeleton(text) == skeleton(SCRIPTS["grant"])
    assert role in names(text)
    assert {role, f"CREATE ROLE {bracketed}"} <= set(literals(text))


@pytest.mark.parametrize("role", ["", " ", "r" * 129, "\ud800", "a\x00b"], ids=ascii)
def test_a_role_that_can_be_no_name_is_refused(role: str) -> None:
    with pytest.raises(LeaseValueError, match="role"):
        schema.grant_script(role=role)


@pytest.mark.parametrize("script", ["create", "grant", "drop"])
@pytest.mark.parametrize(("schema_name", "table"), [("", "Leases"), ("lease", "t" * 129), ("a\x00b", "Leases")])
def test_a_script_for_an_impossible_name_is_refused(script: str, schema_name: str, table: str) -> None:
    with pytest.raises(LeaseValueError):
        getattr(schema, f"{script}_script")(schema_name, table)


def test_the_table_has_the_columns_and_types_that_the_dotnet_original_has() -> None:
    text = code(SCRIPTS["create"])
    assert re.findall(
        r"^\s+\[?(\w+)\]?\s+(nvarchar\(\d+\)|datetimeoffset\(7\)|rowversion)[^\n]*?\b(NOT NULL|NULL),$",
        text,
        re.MULTILINE,
    ) == [
        ("LeaseName", "nvarchar(200)", "NOT NULL"),
        ("OwnerInstanceId", "nvarchar(128)", "NOT NULL"),
        ("AcquiredAtUtc", "datetimeoffset(7)", "NOT NULL"),
        ("RenewedAtUtc", "datetimeoffset(7)", "NOT NULL"),
        ("ExpiresAtUtc", "datetimeoffset(7)", "NOT NULL"),
        ("Metadata", "nvarchar(1024)", "NULL"),
        ("RowVersion", "rowversion", "NOT NULL"),
    ]


def test_names_compare_byte_for_byte_in_a_table_of_ours() -> None:
    text = code(SCRIPTS["create"])
    assert re.findall(r"(\w+)\s+nvarchar\(\d+\)\s+COLLATE Latin1_General_100_BIN2", text) == [
        "LeaseName",
        "OwnerInstanceId",
    ]


def test_a_table_of_ours_never_escalates_to_a_table_lock() -> None:
    assert "ALTER TABLE [lease].[Leases] SET (LOCK_ESCALATION = DISABLE);" in code(SCRIPTS["create"])


def test_grant_gives_the_four_rights_on_the_table_and_nothing_else() -> None:
    grants = re.findall(r"\bGRANT\b[^;]*;", code(schema.grant_script("ops", "Jobs", role="app")))
    assert grants == ["GRANT SELECT, INSERT, UPDATE, DELETE ON OBJECT::[ops].[Jobs] TO [app];"]


def test_drop_leaves_the_schema() -> None:
    assert re.findall(r"\bDROP (\w+)", code(SCRIPTS["drop"])) == ["TABLE"]


def test_a_verify_reads_only() -> None:
    for label, text in SCRIPTS.items():
        if label.startswith("verify"):
            assert {"INSERT", "UPDATE", "DELETE", "CREATE", "ALTER", "DROP"}.isdisjoint(skeleton(text))


def test_a_long_table_name_keeps_its_key_and_index_apart_from_its_neighbours() -> None:
    first, second = (set(names(schema.create_script("s", "n" * 127 + end))) for end in "ab")
    assert first & second == {"s", "RowVersion"}
    assert TableName("s", "n" * 127 + "a").part("PK") in first
