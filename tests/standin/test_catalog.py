"""Definitions, and the catalogue that shows them.

Right values are from Microsoft's documentation of CREATE TABLE, ALTER TABLE and the system views.
"""

from __future__ import annotations

import pytest

from tests.standin.desk import Desk, User


@pytest.fixture
def sa() -> User:
    user = Desk().sa
    user.ok("CREATE SCHEMA s")
    user.ok(
        """
        CREATE TABLE s.t (
            name nvarchar(200) COLLATE Latin1_General_100_BIN2 NOT NULL,
            due  datetimeoffset(7) NOT NULL,
            note varchar(max) NULL,
            cost decimal(9, 2) NULL CONSTRAINT df_cost DEFAULT 1.5,
            ver  rowversion NOT NULL,
            CONSTRAINT pk_t PRIMARY KEY CLUSTERED (name),
            CONSTRAINT ck_t CHECK (DATALENGTH(name) > 0),
            INDEX ix_due NONCLUSTERED (due));
        ALTER TABLE s.t SET (LOCK_ESCALATION = DISABLE);
        """
    )
    return user


def test_tables_and_their_schemas(sa: User) -> None:
    """sys.tables, sys.schemas, OBJECT_ID, OBJECT_NAME, SCHEMA_NAME."""
    found = sa.ok(
        "SELECT s.name, t.name, t.type, t.lock_escalation_desc, t.temporal_type FROM sys.tables t JOIN"
        " sys.schemas s ON s.schema_id = t.schema_id"
        " WHERE t.object_id = OBJECT_ID(N'[s].[t]', N'U')"
    )
    assert found.rows == [("s", "t", "U ", "DISABLE", 0)]
    assert sa.ok(
        "SELECT OBJECT_NAME(OBJECT_ID(N's.t')), OBJECT_SCHEMA_NAME(OBJECT_ID(N's.t')), OBJECT_ID(N's.nix'),"
        " SCHEMA_ID(N'nix')"
    ).rows == [("t", "s", None, None)]


def test_type_names(sa: User) -> None:
    """TYPE_NAME: unqualified, by user_type_id; NULL for an id that is not valid."""
    found = sa.ok(
        "SELECT TYPE_NAME(user_type_id) FROM sys.columns WHERE object_id = OBJECT_ID(N's.t') ORDER BY column_id"
    )
    assert [name for (name,) in found.rows[:4]] == ["nvarchar", "datetimeoffset", "varchar", "decimal"]
    assert sa.ok("SELECT TYPE_NAME(36), TYPE_NAME(239), TYPE_NAME(-1)").rows == [("uniqueidentifier", "nchar", None)]


def test_columns_with_types_lengths_and_collations(sa: User) -> None:
    """sys.columns with sys.types; max_length in bytes, -1 for (max)."""
    found = sa.ok(
        "SELECT c.name, y.name, c.max_length, c.[precision], c.scale, c.collation_name, c.is_nullable FROM"
        " sys.columns c"
        " JOIN sys.types y ON y.user_type_id = c.user_type_id WHERE c.object_id = OBJECT_ID(N's.t') ORDER BY"
        " c.column_id"
    )
    default = "SQL_Latin1_General_CP1_CI_AS"
    assert found.rows == [
        ("name", "nvarchar", 400, 0, 0, "Latin1_General_100_BIN2", 0),
        ("due", "datetimeoffset", 10, 34, 7, None, 0),
        ("note", "varchar", -1, 0, 0, default, 1),
        ("cost", "decimal", 5, 9, 2, None, 1),
        ("ver", "timestamp", 8, 0, 0, None, 0),
    ]
    assert sa.ok("SELECT COL_LENGTH(N's.t', N'name'), COL_LENGTH(N's.t', N'nix')").rows == [(400, None)]


def test_information_schema(sa: User) -> None:
    assert sa.ok("SELECT * FROM INFORMATION_SCHEMA.TABLES").rows == [("app", "s", "t", "BASE TABLE")]
    found = sa.ok(
        "SELECT COLUMN_NAME, DATA_TYPE, CHARACTER_MAXIMUM_LENGTH, IS_NULLABLE FROM"
        " INFORMATION_SCHEMA.COLUMNS WHERE ORDINAL_POSITION < 4"
    )
    assert found.rows == [
        ("name", "nvarchar", 200, "NO"),
        ("due", "datetimeoffset", None, "NO"),
        ("note", "varchar", -1, "YES"),
    ]


def test_indexes_and_their_columns(sa: User) -> None:
    """sys.indexes: 1 is clustered; sys.index_columns."""
    sa.ok("CREATE UNIQUE INDEX ux ON s.t (cost, due) INCLUDE (note)")
    found = sa.ok(
        "SELECT i.name, i.type_desc, i.is_unique, i.is_primary_key, c.name, ic.key_ordinal,"
        " ic.is_included_column FROM sys.indexes i"
        " JOIN sys.index_columns ic ON ic.object_id = i.object_id AND ic.index_id = i.index_id"
        " JOIN sys.columns c ON c.object_id = ic.object_id AND c.column_id = ic.column_id"
        " WHERE i.object_id = OBJECT_ID(N's.t') ORDER BY i.index_id, ic.index_column_id"
    )
    assert found.rows == [
        ("pk_t", "CLUSTERED", 1, 1, "name", 1, 0),
        ("ix_due", "NONCLUSTERED", 0, 0, "due", 1, 0),
        ("ux", "NONCLUSTERED", 1, 0, "cost", 1, 0),
        ("ux", "NONCLUSTERED", 1, 0, "due", 2, 0),
        ("ux", "NONCLUSTERED", 1, 0, "note", 0, 1),
    ]
    sa.ok("CREATE TABLE s.heap (a int)")
    assert sa.ok("SELECT type_desc, index_id, name FROM sys.indexes WHERE object_id = OBJECT_ID(N's.heap')").rows == [
        ("HEAP", 0, None)
    ]


def test_constraints_and_triggers_are_objects(sa: User) -> None:
    sa.ok("CREATE TRIGGER s.tr ON s.t AFTER UPDATE AS RETURN")
    assert sa.ok(
        "SELECT name, type FROM sys.objects WHERE parent_object_id = OBJECT_ID(N's.t') ORDER BY name"
    ).rows == [
        ("ck_t", "C "),
        ("df_cost", "D "),
        ("pk_t", "PK"),
        ("tr", "TR"),
    ]
    assert sa.ok(
        "SELECT name, is_disabled, is_instead_of_trigger FROM sys.triggers WHERE parent_id = OBJECT_ID(N's.t')"
    ).rows == [("tr", 0, 0)]
    assert sa.ok("SELECT k.name FROM sys.key_constraints k WHERE k.type = 'PK'").rows == [("pk_t",)]


def test_extended_properties(sa: User) -> None:
    """sp_addextendedproperty, sys.extended_properties; 15233 twice, 15217 for what is not there; they roll back."""
    where = "@level0type = N'SCHEMA', @level0name = N's', @level1type = N'TABLE', @level1name = N't'"
    sa.ok(f"EXEC sys.sp_addextendedproperty @name = N'version', @value = N'1', {where}")
    read = (
        "SELECT CAST(value AS nvarchar(20)) FROM sys.extended_properties WHERE major_id = OBJECT_ID(N's.t')"
        " AND minor_id = 0 AND name = N'version' AND class = 1"
    )
    assert sa.ok(read).value == "1"
    assert sa.run(f"EXEC sp_addextendedproperty @name = N'Version', @value = N'2', {where}").numbers == [15233]
    sa.ok(f"BEGIN TRAN; EXEC sp_updateextendedproperty @name = N'version', @value = N'2', {where}; ROLLBACK")
    assert sa.ok(read).value == "1"
    sa.ok(f"EXEC sp_dropextendedproperty @name = N'version', {where}")
    assert sa.run(f"EXEC sp_dropextendedproperty @name = N'version', {where}").numbers == [15217]


def test_databases_and_their_options(sa: User) -> None:
    read = (
        "SELECT is_read_committed_snapshot_on, snapshot_isolation_state_desc, delayed_durability,"
        " is_read_only FROM sys.databases WHERE name = DB_NAME()"
    )
    assert sa.ok(read).rows == [(0, "OFF", 0, 0)]
    sa.ok("ALTER DATABASE app SET READ_COMMITTED_SNAPSHOT ON; ALTER DATABASE CURRENT SET DELAYED_DURABILITY = FORCED")
    assert sa.ok(read).rows == [(1, "OFF", 2, 0)]
    assert sa.run("BEGIN TRAN; ALTER DATABASE app SET READ_ONLY").numbers == [226]


def test_sessions_and_locks_can_be_watched(sa: User) -> None:
    """sys.dm_exec_sessions, sys.dm_tran_locks."""
    other = sa.desk.login()
    other.ok(
        "SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRAN;"
        " SELECT * FROM s.t WITH (UPDLOCK, HOLDLOCK) WHERE name = N'x'"
    )
    seen = sa.ok(
        f"SELECT login_name, transaction_isolation_level, open_transaction_count FROM sys.dm_exec_sessions"
        f" WHERE session_id = {other.session.id}"
    )
    assert seen.rows == [("sa", 3, 1)]
    locks = sa.ok(
        f"SELECT resource_type, request_mode, request_status FROM sys.dm_tran_locks WHERE request_session_id"
        f" = {other.session.id} ORDER BY 1"
    )
    assert locks.rows == [("KEY", "RangeS-U", "GRANT"), ("OBJECT", "IX", "GRANT")]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("CREATE TABLE s.t (a int)", 2714),
        ("CREATE TABLE s.pk_t (a int)", 2714),
        ("CREATE TABLE nix.t (a int)", 2760),
        ("CREATE TABLE s.u (a int, A int)", 2705),
        ("CREATE TABLE s.u (a int NULL PRIMARY KEY)", 8111),
        ("CREATE TABLE s.u (a int, PRIMARY KEY (b))", 1911),
        ("CREATE TABLE s.u (a int PRIMARY KEY, b int PRIMARY KEY)", 8110),
        ("CREATE TABLE s.u (a rowversion, b rowversion)", 2738),
        ("CREATE TABLE s.u (a nvarchar(9) COLLATE Klingon_CI_AS)", 448),
        ("CREATE INDEX ix_due ON s.t (due)", 1913),
        ("CREATE INDEX ix ON s.t (nix)", 1911),
        ("CREATE INDEX ix ON s.nix (a)", 1088),
        ("ALTER TABLE s.nix ADD a int NULL", 4902),
        ("ALTER TABLE s.t ADD due int NULL", 2705),
        ("ALTER TABLE s.t DROP CONSTRAINT nix", 3728),
        ("DROP TABLE s.nix", 3701),
        ("DROP SCHEMA s", 3729),
        ("DROP SCHEMA nix", 15151),
        ("EXEC (N'CREATE SCHEMA s')", 2714),
        ("SELECT * FROM sys.nix", 40517),
    ],
)
def test_definitions_that_do_not_fit(sa: User, text: str, number: int) -> None:
    assert sa.run(text).numbers == [number]


def test_drop_if_exists(sa: User) -> None:
    sa.ok("DROP TABLE IF EXISTS s.nix; DROP TABLE IF EXISTS s.t; DROP SCHEMA IF EXISTS s")
    assert sa.ok("SELECT COUNT(*) FROM sys.objects").value == 0


def test_columns_are_added_with_and_without_values(sa: User) -> None:
    """ALTER TABLE ADD: NULL, WITH VALUES, NOT NULL with a default; 4901 without one."""
    sa.ok("CREATE TABLE s.u (a int); INSERT s.u VALUES (1)")
    sa.ok(
        "ALTER TABLE s.u ADD b int NULL, c int NULL DEFAULT 5, d int NULL DEFAULT 6 WITH VALUES, e int NOT"
        " NULL DEFAULT 7"
    )
    assert sa.ok("SELECT * FROM s.u").rows == [(1, None, None, 6, 7)]
    assert sa.run("ALTER TABLE s.u ADD f int NOT NULL").numbers == [4901]
    sa.ok("INSERT s.u (a) VALUES (2); ALTER TABLE s.u DROP COLUMN b")
    assert sa.ok("SELECT * FROM s.u WHERE a = 2").rows == [(2, 5, 6, 7)]
    assert sa.ok("SELECT * FROM s.u WHERE a = 2").columns_of[0][1].name == "c"


def test_constraints_are_added_and_dropped(sa: User) -> None:
    sa.ok("INSERT s.t (name, due) VALUES (N'a', '2020-01-01T00:00:00+00:00')")
    assert sa.run("ALTER TABLE s.t ADD CONSTRAINT ck_short CHECK (LEN(name) > 5)").numbers == [547]
    sa.ok("ALTER TABLE s.t ADD CONSTRAINT ck_long CHECK (LEN(name) < 5); ALTER TABLE s.t DROP CONSTRAINT ck_t")
    assert sa.run("UPDATE s.t SET name = N'abcdefgh'").numbers == [547]
    sa.ok("ALTER TABLE s.t ADD CONSTRAINT uq_cost UNIQUE (cost)")
    assert sa.run("INSERT s.t (name, due) VALUES (N'b', '2020-01-01T00:00:00+00:00')").numbers == [2627]
    sa.ok("ALTER TABLE s.t DROP CONSTRAINT uq_cost; INSERT s.t (name, due) VALUES (N'b', '2020-01-01T00:00:00+00:00')")
    assert sa.run("CREATE UNIQUE INDEX ux ON s.t (due)").numbers == [1505]


def test_what_was_bound_before_follows_a_change(sa: User) -> None:
    """A kept plan is bound anew after a change of the definition."""
    sa.ok("CREATE TABLE s.u (a int); INSERT s.u VALUES (1)")
    assert sa.ok("SELECT * FROM s.u").rows == [(1,)]
    sa.ok("ALTER TABLE s.u ADD b int NULL")
    assert sa.ok("SELECT * FROM s.u").rows == [(1, None)]
    sa.ok("DROP TABLE s.u")
    assert sa.run("SELECT * FROM s.u").numbers == [208]


def test_temporary_tables_belong_to_their_session(sa: User) -> None:
    sa.ok("CREATE TABLE #t (a int PRIMARY KEY); INSERT #t VALUES (1); BEGIN TRAN; INSERT #t VALUES (2); ROLLBACK")
    assert sa.ok("SELECT COUNT(*) FROM #t").value == 1
    other = sa.desk.login()
    assert other.run("SELECT * FROM #t").numbers == [208]
    other.ok("CREATE TABLE #t (b int); SELECT b FROM #t")
    assert sa.run("CREATE TABLE #t (a int)").numbers == [2714]
    sa.ok("DROP TABLE #t")
    assert sa.run("SELECT * FROM #t").numbers == [208]
