"""`verify` on real tables: one thing is made wrong at a time, and it says that thing and nothing else."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import LeaseConfigurationError, schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import Bench


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


TABLE = "[lease].[Leases]"
WATCH = f"CREATE TRIGGER [lease].[watch] ON {TABLE} AFTER INSERT AS SET NOCOUNT ON"
NEWER = """
EXEC sys.sp_updateextendedproperty @name = N'sqllease.schema_version', @value = N'2', @level0type = N'SCHEMA',
     @level0name = N'lease', @level1type = N'TABLE', @level1name = N'Leases'"""
# What is done to a good table; the check that says so, how loud, and a word of its text.
CHANGES = {
    "missing": (f"DROP TABLE {TABLE}", "table", "failure", "create_script()"),
    "no index": (f"DROP INDEX IX_Leases_ExpiresAtUtc ON {TABLE}", "index", "warning", "create_script()"),
    "trigger": (WATCH, "triggers", "warning", "watch"),
    "INSTEAD OF trigger": (WATCH.replace("AFTER", "INSTEAD OF"), "triggers", "failure", "drop it"),
    "read-only": ("ALTER DATABASE CURRENT SET READ_ONLY", "read-only", "failure", "primary"),
    "durability": ("ALTER DATABASE CURRENT SET DELAYED_DURABILITY = FORCED", "durability", "failure", "crash"),
    "escalation": (f"ALTER TABLE {TABLE} SET (LOCK_ESCALATION = TABLE)", "lock escalation", "warning", "DISABLE"),
    "further column": (f"ALTER TABLE {TABLE} ADD Further int NOT NULL DEFAULT 0", "columns", "warning", "Further"),
    "newer version": (NEWER, "version", "warning", "upgrade"),
}
# Each of these is well, or none of our business.
HARMLESS = {
    "nothing": "PRINT N'nothing'",
    "disabled trigger": f"{WATCH};\nALTER TABLE {TABLE} DISABLE TRIGGER [watch]",
    "durability allowed": "ALTER DATABASE CURRENT SET DELAYED_DURABILITY = ALLOWED",
    "row versioning": "ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON",
    "further nullable column": f"ALTER TABLE {TABLE} ADD Further int NULL",
    "further index": f"CREATE INDEX further ON {TABLE} (OwnerInstanceId)",
    "rows": f"INSERT INTO {TABLE} (LeaseName, OwnerInstanceId, AcquiredAtUtc, RenewedAtUtc, ExpiresAtUtc)"
    " SELECT N'x', N'y', SYSUTCDATETIME(), SYSUTCDATETIME(), SYSUTCDATETIME()",
}


@pytest.mark.parametrize("change", CHANGES)
def test_verify_says_what_is_wrong_and_nothing_else(bench: Bench, change: str) -> None:
    script, name, status, word = CHANGES[change]
    bench.server.execute(script)
    (check,) = [check for check in bench.store().verify() if check.status != "ok"]
    assert (check.name, check.status) == (name, status)
    assert word in check.text


@pytest.mark.parametrize("change", HARMLESS)
def test_verify_finds_nothing_wrong_with_what_is_harmless(bench: Bench, change: str) -> None:
    for statement in HARMLESS[change].split(";\n"):
        bench.server.execute(statement)
    assert {check.status for check in bench.store().verify()} == {"ok"}


# A column of the table, replaced; and what verify says of it.
COLUMNS = {
    "LeaseName nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL": (
        "LeaseName varchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL",
        "column LeaseName is varchar NOT NULL, it should be nvarchar(200) NOT NULL",
    ),
    "AcquiredAtUtc datetimeoffset(7) NOT NULL": (
        "AcquiredAtUtc datetimeoffset(3) NOT NULL",
        "column AcquiredAtUtc is datetimeoffset(3) NOT NULL, it should be datetimeoffset(7) NOT NULL",
    ),
    "ExpiresAtUtc datetimeoffset(7) NOT NULL": (
        "ExpiresAtUtc datetime2(7) NOT NULL",
        "column ExpiresAtUtc is datetime2 NOT NULL, it should be datetimeoffset(7) NOT NULL",
    ),
    "Metadata nvarchar(1024) NULL": (
        "Metadata nvarchar(max) NULL",
        "column Metadata is nvarchar(max) NULL, it should be nvarchar(1024) NULL",
    ),
    "[RowVersion] rowversion NOT NULL": (
        "[RowVersion] binary(8) NULL",
        "column RowVersion is binary NULL, it should be rowversion NOT NULL",
    ),
}


@pytest.mark.parametrize("column", COLUMNS)
def test_verify_names_a_column_of_another_type(bench: Bench, column: str) -> None:
    other, text = COLUMNS[column]
    script = " ".join(schema.create_script().split())  # columns are aligned by blanks there
    assert column in script
    bench.server.execute(f"DROP TABLE {TABLE}")
    lines = schema.create_script().splitlines()
    bench.server.execute(
        "\n".join(line if " ".join(line.split()).rstrip(",") != column else f"{other}," for line in lines)
    )
    assert [check.text for check in bench.store().verify() if check.status == "failure"] == [text]


def test_verify_of_a_database_that_cannot_be_opened_says_so(bench: Bench) -> None:
    with pytest.raises(LeaseConfigurationError, match="login failed"):
        schema.verify(bench.dsn(password="Wrong-Pass-1"))
