"""INSERT, UPDATE, DELETE, MERGE, OUTPUT and triggers.

Right values are from Microsoft's documentation of Transact-SQL; the page is named in each docstring.
"""

from __future__ import annotations

import pytest

from tests.standin.desk import Desk, User

TABLE = """
CREATE TABLE dbo.t (
    id   int IDENTITY(10, 5) NOT NULL CONSTRAINT pk_t PRIMARY KEY,
    name nvarchar(5)  NOT NULL,
    size int          NULL CONSTRAINT df_size DEFAULT 7,
    ver  rowversion   NOT NULL,
    CONSTRAINT ck_size CHECK (size > 0),
    CONSTRAINT uq_name UNIQUE (name));
CREATE TABLE dbo.k (id int NOT NULL PRIMARY KEY, n int NULL);
INSERT dbo.k VALUES (1, 10), (2, 20), (3, 30);
"""


@pytest.fixture
def sa() -> User:
    user = Desk().sa
    user.ok(TABLE)
    return user


def k(user: User) -> list[tuple[object, ...]]:
    return list(user.ok("SELECT id, n FROM dbo.k ORDER BY id").rows)


# --- INSERT ----------------------------------------------------------------------------------------


def test_an_insert_fills_identity_default_and_rowversion(sa: User) -> None:
    """INSERT; IDENTITY (property): seed, then increment; SCOPE_IDENTITY."""
    sa.ok("INSERT dbo.t (name) VALUES (N'a'); INSERT INTO dbo.t (name, size) VALUES (N'b', DEFAULT), (N'c', NULL)")
    assert sa.ok("SELECT id, name, size FROM dbo.t ORDER BY id").rows == [(10, "a", 7), (15, "b", 7), (20, "c", None)]
    assert sa.ok("SELECT COUNT(DISTINCT ver) FROM dbo.t").value == 3
    assert sa.ok("INSERT dbo.t (name) VALUES (N'd'); SELECT SCOPE_IDENTITY(), @@IDENTITY").rows == [(25, 25)]


def test_an_identity_value_is_given_only_under_identity_insert(sa: User) -> None:
    """Errors 544 and 545; SET IDENTITY_INSERT."""
    assert sa.run("INSERT dbo.t (id, name) VALUES (1, N'a')").numbers == [544]
    sa.ok("SET IDENTITY_INSERT dbo.t ON; INSERT dbo.t (id, name) VALUES (100, N'a')")
    assert sa.run("INSERT dbo.t (name) VALUES (N'b')").numbers == [545]
    sa.ok("SET IDENTITY_INSERT dbo.t OFF; INSERT dbo.t (name) VALUES (N'b')")
    assert sa.ok("SELECT MAX(id) FROM dbo.t").value == 105


def test_a_rowversion_cannot_be_given(sa: User) -> None:
    """Errors 273 and 272 (rowversion (Transact-SQL))."""
    assert sa.run("INSERT dbo.t (name, ver) VALUES (N'a', 0x01)").numbers == [273]
    assert sa.run("UPDATE dbo.t SET ver = 0x01").numbers == [272]


def test_dbts_is_the_rowversion_used_last(sa: User) -> None:
    """@@DBTS: "the last-used timestamp value of the current database"."""
    for change in ("INSERT dbo.t (name) VALUES (N'a')", "UPDATE dbo.t SET size = 1"):
        ((last, version),) = sa.ok(f"{change}; SELECT @@DBTS, ver FROM dbo.t").rows
        assert last == version


def test_what_is_too_long_is_cut_without_ansi_warnings(sa: User) -> None:
    """SET ANSI_WARNINGS OFF: "data is truncated to the size of the column and the statement succeeds"."""
    sa.ok("SET ANSI_WARNINGS OFF; INSERT dbo.t (name) VALUES (N'123456'); UPDATE dbo.t SET name += N'7'")
    assert sa.ok("SELECT name, @@OPTIONS & 8 FROM dbo.t").rows == [("12345", 0)]
    assert sa.run("SET ANSI_WARNINGS ON; UPDATE dbo.t SET name += N'7'").numbers == [2628]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT dbo.t (name) VALUES (NULL)", 515),
        ("INSERT dbo.t (size) VALUES (1)", 515),
        ("INSERT dbo.t (name, size) VALUES (N'a', 0)", 547),
        ("INSERT dbo.t (name) VALUES (N'123456')", 2628),
        ("INSERT dbo.t (name) VALUES (N'a'), (N'A')", 2627),
        ("INSERT dbo.k VALUES (1, 1)", 2627),
        ("INSERT dbo.k VALUES (1)", 213),
        ("INSERT dbo.k (id) VALUES (1, 2)", 110),
        ("INSERT dbo.k (id, n) VALUES (1)", 109),
        ("INSERT dbo.k (id, nix) VALUES (1, 2)", 207),
        ("INSERT dbo.k (id, id) VALUES (1, 2)", 264),
        ("INSERT dbo.k VALUES (N'x', 2)", 245),
        ("INSERT dbo.nix VALUES (1)", 208),
        ("UPDATE dbo.t SET id = 1", 8102),
        ("UPDATE dbo.k SET n = 1, n = 2", 264),
        ("UPDATE dbo.k SET id = 1", 2627),
    ],
)
def test_rows_that_do_not_fit(sa: User, text: str, number: int) -> None:
    """Database engine events and errors; nothing of the statement stays."""
    assert sa.run(text).numbers == [number]
    assert sa.ok("SELECT COUNT(*) FROM dbo.t").value == 0
    assert k(sa) == [(1, 10), (2, 20), (3, 30)]


def test_messages_name_the_place(sa: User) -> None:
    """The texts of 515 and 547 as sys.messages has them, and 3621 behind a terminated statement."""
    answer = sa.run("INSERT dbo.t (name) VALUES (NULL)")
    assert (
        str(answer.errors[0]) == "Cannot insert the value NULL into column 'name', table 'app.dbo.t';"
        " column does not allow nulls. INSERT fails."
    )
    assert answer.infos == [(3621, "The statement has been terminated.")]
    (error,) = sa.run("INSERT dbo.t (name, size) VALUES (N'a', 0)").errors
    assert str(error) == (
        'The INSERT statement conflicted with the CHECK constraint "ck_size". The conflict occurred in'
        ' database "app", table "dbo.t".'
    )


def test_an_unknown_check_passes(sa: User) -> None:
    """CHECK constraints reject FALSE only."""
    assert sa.ok("INSERT dbo.t (name, size) VALUES (N'a', NULL)").counts == [1]


def test_insert_from_a_query_and_default_values(sa: User) -> None:
    """INSERT ... SELECT, DEFAULT VALUES."""
    sa.ok("INSERT dbo.k (id, n) SELECT id + 10, n FROM dbo.k WHERE id < 3")
    assert len(k(sa)) == 5
    sa.ok("CREATE TABLE dbo.d (a int DEFAULT 3, b int NULL); INSERT dbo.d DEFAULT VALUES")
    assert sa.ok("SELECT a, b FROM dbo.d").rows == [(3, None)]


# --- UPDATE, DELETE -----------------------------------------------------------------------------------


def test_an_update_sees_the_old_row_in_all_its_expressions(sa: User) -> None:
    """UPDATE: expressions use the values before; compound assignment; variables."""
    sa.ok("UPDATE dbo.k SET id = id + 1, n = id")
    assert k(sa) == [(2, 1), (3, 2), (4, 3)]
    answer = sa.ok(
        "DECLARE @v int, @w int; UPDATE dbo.k SET @w = n, @v = n += 5 WHERE id = 4; SELECT @v, @w, @@ROWCOUNT"
    )
    assert answer.rows == [(8, 3, 1)]


def test_an_update_changes_each_row_once(sa: User) -> None:
    """UPDATE with FROM: a row that joins several times is changed once."""
    answer = sa.ok("UPDATE k SET n += 1 FROM dbo.k AS k JOIN (VALUES (1), (1), (2)) AS v (x) ON v.x = k.id")
    assert answer.counts == [2]
    assert k(sa) == [(1, 11), (2, 21), (3, 30)]


def test_update_and_delete_with_top(sa: User) -> None:
    """TOP in UPDATE and DELETE."""
    assert sa.ok("UPDATE TOP (2) dbo.k SET n = 0").counts == [2]
    assert sa.ok("DELETE TOP (1) FROM dbo.k WHERE n = 0").counts == [1]
    assert len(k(sa)) == 2


def test_delete_by_alias_and_by_common_table(sa: User) -> None:
    """DELETE with FROM; a common table of one table can be the target, in its own order."""
    sa.ok("DELETE x FROM dbo.k AS x WHERE x.id = 1")
    answer = sa.ok("WITH last AS (SELECT TOP (1) id, n FROM dbo.k ORDER BY n DESC) DELETE FROM last OUTPUT deleted.id")
    assert answer.rows == [(3,)]
    assert k(sa) == [(2, 20)]
    sa.ok("WITH c AS (SELECT id AS a, n AS b FROM dbo.k) UPDATE c SET b = 5 WHERE a = 2")
    assert k(sa) == [(2, 5)]


def test_truncate_removes_all_rows(sa: User) -> None:
    """TRUNCATE TABLE; the identity begins again."""
    sa.ok("INSERT dbo.t (name) VALUES (N'a'); TRUNCATE TABLE dbo.t; INSERT dbo.t (name) VALUES (N'b')")
    assert sa.ok("SELECT id, name FROM dbo.t").rows == [(10, "b")]


def test_rowcount_limits_changes_too(sa: User) -> None:
    """SET ROWCOUNT n: UPDATE and DELETE stop after n rows."""
    assert sa.ok("SET ROWCOUNT 1; DELETE dbo.k; SET ROWCOUNT 0").counts == [1]


# --- OUTPUT ------------------------------------------------------------------------------------------


def test_output_shows_rows_before_and_after(sa: User) -> None:
    """OUTPUT clause."""
    answer = sa.ok("UPDATE dbo.k SET n = n + 1 OUTPUT deleted.n, inserted.n AS new, inserted.id * 2 WHERE id > 1")
    assert answer.rows == [(20, 21, 4), (30, 31, 6)]
    assert [column.name for column in answer.columns_of[0]] == ["n", "new", ""]
    assert sa.ok("INSERT dbo.k OUTPUT inserted.* VALUES (9, 9)").rows == [(9, 9)]
    assert sa.ok("DELETE dbo.k OUTPUT deleted.id WHERE id = 9").rows == [(9,)]


def test_output_knows_the_new_rowversion(sa: User) -> None:
    sa.ok(
        "DECLARE @v TABLE (id int, ver binary(8));"
        " INSERT dbo.t (name) OUTPUT inserted.id, inserted.ver INTO @v VALUES (N'a')"
    )
    answer = sa.ok(
        "DECLARE @v TABLE (ver binary(8)); UPDATE dbo.t SET name = N'b' OUTPUT inserted.ver INTO @v (ver);"
        " SELECT CASE WHEN v.ver = t.ver THEN 1 ELSE 0 END FROM @v v CROSS JOIN dbo.t t"
    )
    assert answer.value == 1


def test_output_sees_the_other_tables_of_from(sa: User) -> None:
    """OUTPUT clause: from_table_name columns."""
    answer = sa.ok(
        "UPDATE k SET n = v.y OUTPUT inserted.id, v.y FROM dbo.k k JOIN (VALUES (2, 5)) v (x, y) ON v.x = k.id"
    )
    assert answer.rows == [(2, 5)]


def test_output_into_an_audit_table_belongs_to_the_transaction_and_a_table_variable_does_not(sa: User) -> None:
    """table (Transact-SQL): transaction rollbacks do not affect table variables."""
    sa.ok("CREATE TABLE dbo.audit (id int, old int, new int)")
    answer = sa.ok(
        """
        DECLARE @seen TABLE (id int, old int);
        BEGIN TRANSACTION;
        UPDATE dbo.k SET n = 0 OUTPUT inserted.id, deleted.n, inserted.n INTO dbo.audit WHERE id = 1;
        UPDATE dbo.k SET n = 0 OUTPUT inserted.id, deleted.n INTO @seen WHERE id = 2;
        ROLLBACK;
        SELECT id, old FROM @seen;
        SELECT COUNT(*) FROM dbo.audit;
        """
    )
    assert answer.results == [[(2, 20)], [(0,)]]
    sa.ok("UPDATE dbo.k SET n = 1 OUTPUT inserted.id, deleted.n, inserted.n INTO dbo.audit (id, old, new) WHERE id = 3")
    assert sa.ok("SELECT * FROM dbo.audit").rows == [(3, 30, 1)]


def test_a_failed_statement_leaves_nothing_in_a_table_variable(sa: User) -> None:
    """A statement is all or nothing, also towards the target of OUTPUT INTO."""
    answer = sa.run(
        "DECLARE @v TABLE (id int);"
        " INSERT dbo.k (id) OUTPUT inserted.id INTO @v SELECT 4 UNION ALL SELECT 1; SELECT COUNT(*) FROM @v"
    )
    assert answer.numbers == [2627]
    assert answer.results == [[(0,)]]


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("INSERT dbo.k OUTPUT deleted.id VALUES (9, 9)", 4104),
        ("INSERT dbo.k OUTPUT deleted.* VALUES (9, 9)", 107),
        ("DELETE dbo.k OUTPUT inserted.id", 4104),
        ("DELETE dbo.k OUTPUT inserted.*", 107),
        ("DELETE dbo.k OUTPUT nowhere.*", 107),
        ("DELETE dbo.k OUTPUT *", 102),
        ("INSERT dbo.k OUTPUT id VALUES (9, 9)", 207),
        ("DELETE dbo.k OUTPUT n", 207),
        ("UPDATE k SET n = 0 OUTPUT k.n FROM dbo.k AS k", 4104),
        ("UPDATE dbo.k SET n = 0 OUTPUT $action", 207),
        ("INSERT dbo.k OUTPUT $action VALUES (9, 9)", 207),
        ("UPDATE dbo.k SET n = 0 OUTPUT (SELECT COUNT(*) FROM dbo.k)", 10705),
        ("DELETE dbo.k OUTPUT CASE WHEN EXISTS (SELECT 1 FROM dbo.t) THEN 1 END", 10705),
        ("DELETE dbo.k OUTPUT CASE WHEN deleted.id IN (SELECT id FROM dbo.t) THEN 1 END", 10705),
    ],
)
def test_what_output_may_not_name(sa: User, text: str, number: int) -> None:
    """OUTPUT clause: DELETED not in INSERT, INSERTED not in DELETE, $action in MERGE only, no sub-queries; references
    to the table being modified must have the prefix INSERTED or DELETED."""
    answer = sa.run(text)
    assert answer.numbers == [number]
    assert answer.results == []
    assert k(sa) == [(1, 10), (2, 20), (3, 30)]


def test_output_shows_all_columns_of_a_table_in_from(sa: User) -> None:
    """OUTPUT clause: { DELETED | INSERTED | from_table_name } . *"""
    answer = sa.ok(
        "UPDATE k SET n = v.y OUTPUT deleted.*, v.* FROM dbo.k k JOIN (VALUES (2, 5)) v (x, y) ON v.x = k.id"
    )
    assert answer.rows == [(2, 20, 2, 5)]
    assert [column.name for column in answer.columns_of[0]] == ["id", "n", "x", "y"]


def test_output_goes_into_no_table_with_check_constraints_or_enabled_triggers(sa: User) -> None:
    """OUTPUT clause: output_table cannot have enabled triggers defined on it, nor CHECK constraints (331, 333)."""
    sa.ok("CREATE TABLE dbo.strict (id int, CONSTRAINT ck_id CHECK (id > 0)); CREATE TABLE dbo.heard (id int)")
    sa.ok("CREATE TRIGGER dbo.hear ON dbo.heard AFTER INSERT AS SET NOCOUNT ON")
    answer = sa.run("DELETE dbo.k OUTPUT deleted.id INTO dbo.strict")
    assert answer.numbers == [333]
    found = "The target table 'dbo.strict' of the OUTPUT INTO clause cannot have any enabled check constraints or any"
    assert str(answer.errors[0]) == f"{found} enabled rules. Found check constraint or rule 'ck_id'."
    into = "UPDATE dbo.k SET n = 0 OUTPUT deleted.id INTO dbo.heard WHERE id = 1"
    assert sa.run(into).numbers == [331]
    assert k(sa) == [(1, 10), (2, 20), (3, 30)]
    sa.ok("ALTER TABLE dbo.heard DISABLE TRIGGER hear")
    assert sa.ok(f"{into}; SELECT id FROM dbo.heard").rows == [(1,)]


# --- MERGE --------------------------------------------------------------------------------------------

MERGE = """
MERGE dbo.k AS t USING (VALUES (1, 11), (7, 77)) AS s (id, n) ON t.id = s.id
WHEN MATCHED AND t.n < s.n THEN UPDATE SET n = s.n
WHEN MATCHED THEN DELETE
WHEN NOT MATCHED BY TARGET AND s.n > 50 THEN INSERT (id, n) VALUES (s.id, s.n)
WHEN NOT MATCHED BY SOURCE AND t.id = 3 THEN UPDATE SET n = -1
OUTPUT $action, deleted.id, inserted.id, s.n;
"""


def test_merge_takes_the_first_clause_that_fits(sa: User) -> None:
    """MERGE (Transact-SQL)."""
    assert sorted(sa.ok(MERGE).rows, key=str) == [("INSERT", None, 7, 77), ("UPDATE", 1, 1, 11), ("UPDATE", 3, 3, None)]
    assert sa.ok("SELECT @@ROWCOUNT").value == 3
    assert sorted(sa.ok(MERGE).rows, key=str) == [
        ("DELETE", 1, None, 11),
        ("DELETE", 7, None, 77),
        ("UPDATE", 3, 3, None),
    ]
    assert k(sa) == [(2, 20), (3, -1)]


UPSERT = "MERGE {} t USING (VALUES (1, 5), (7, 7)) AS s (id, n) ON t.id = s.id {};"


@pytest.mark.parametrize("item", ["n += s.n", "t.n += s.n", "n = t.n + s.n"])
def test_an_assignment_of_merge_changes_the_target_whatever_the_source_calls_its_columns(sa: User, item: str) -> None:
    """MERGE (Transact-SQL), UPDATE SET <set_clause>: the column names are those of the target table."""
    answer = sa.ok(
        UPSERT.format(
            "dbo.k AS", f"WHEN MATCHED THEN UPDATE SET {item} WHEN NOT MATCHED THEN INSERT (id, n) VALUES (id, n)"
        )
    )
    assert answer.counts == [2]
    assert k(sa) == [(1, 15), (2, 20), (3, 30), (7, 7)]


def test_a_compound_assignment_of_merge_knows_a_target_without_an_alias(sa: User) -> None:
    """MERGE (Transact-SQL): [ AS ] table_alias is optional; so it is for a table variable."""
    text = "MERGE {0} USING (VALUES (1, 5)) AS s (id, n) ON {1}.id = s.id WHEN MATCHED THEN UPDATE SET n *= s.n;"
    sa.ok(text.format("dbo.k", "k"))
    assert k(sa)[0] == (1, 50)
    variable = "DECLARE @v TABLE (id int, n int); INSERT @v VALUES (1, 2); "
    assert sa.ok(variable + text.format("@v", "[@v]") + " SELECT n FROM @v").value == 10


def test_merge_by_source_knows_the_columns_of_the_target_only(sa: User) -> None:
    """MERGE (Transact-SQL): only columns from the target table can be referenced in <clause_search_condition> (error
    5334); an action that names a column of the source ends in error 207."""
    sa.ok(UPSERT.format("dbo.k AS", "WHEN NOT MATCHED BY SOURCE AND n > 25 THEN UPDATE SET n = n + id"))
    assert k(sa) == [(1, 10), (2, 20), (3, 33)]
    by_source = "MERGE dbo.k t USING (VALUES (1, 5)) AS s (id, x) ON t.id = s.id WHEN NOT MATCHED BY SOURCE "
    for name in ("s.x", "x", "s.id"):
        answer = sa.run(f"{by_source} AND {name} IS NULL THEN DELETE;")
        assert answer.numbers == [5334]
        assert f"The identifier '{name}' cannot be bound." in str(answer.errors[0])
        assert sa.run(f"{by_source} THEN UPDATE SET n = {name};").numbers == [207]
    inner = f"{by_source} AND EXISTS (SELECT 1 FROM dbo.k AS o WHERE o.id = s.x) THEN DELETE;"
    assert sa.run(inner).numbers == [5334]
    assert k(sa) == [(1, 10), (2, 20), (3, 33)]


def test_merge_refuses_to_change_a_row_twice(sa: User) -> None:
    """Error 8672."""
    text = "MERGE dbo.k AS t USING (VALUES (1), (1)) AS s (id) ON t.id = s.id WHEN MATCHED THEN UPDATE SET n = 0;"
    assert sa.run(text).numbers == [8672]


def test_merge_needs_its_semicolon(sa: User) -> None:
    """Error 10713."""
    assert sa.run("MERGE dbo.k t USING (VALUES (1)) s (id) ON t.id = s.id WHEN MATCHED THEN DELETE").numbers == [10713]


def test_merge_with_forceseek_on_the_target(sa: User) -> None:
    """Table hints on a MERGE target; 8622 when no seek is possible."""
    text = (
        "MERGE dbo.k WITH (HOLDLOCK, UPDLOCK, FORCESEEK) AS t USING (VALUES (1)) s (one) ON {} WHEN MATCHED"
        " THEN DELETE;"
    )
    assert sa.run("DECLARE @i int = 2; " + text.format("t.id = @i")).numbers == []
    assert k(sa) == [(1, 10), (3, 30)]
    assert sa.run(text.format("t.id + 0 = s.one")).numbers == [8622]


# --- triggers ------------------------------------------------------------------------------------------

TRIGGER = """
CREATE TRIGGER dbo.watch ON dbo.k AFTER INSERT, UPDATE, DELETE AS
INSERT dbo.log SELECT @@ROWCOUNT, (SELECT COUNT(*) FROM inserted), (SELECT COUNT(*) FROM deleted), @@TRANCOUNT
"""


@pytest.fixture
def watched(sa: User) -> User:
    sa.ok("CREATE TABLE dbo.log (number int, new int, old int, trans int)")
    sa.ok(TRIGGER)
    return sa


def test_a_trigger_fires_once_a_statement(watched: User) -> None:
    """CREATE TRIGGER: also for no rows; @@ROWCOUNT is the statement's; it runs inside a transaction."""
    watched.ok("INSERT dbo.k VALUES (8, 1), (9, 1)")
    watched.ok("UPDATE dbo.k SET n = 2 WHERE id >= 8")
    watched.ok("DELETE dbo.k WHERE id = 99")
    assert watched.ok("SELECT * FROM dbo.log").rows == [(2, 2, 0, 1), (2, 2, 2, 1), (0, 0, 0, 1)]
    assert watched.ok("SELECT @@TRANCOUNT").value == 0


def test_a_merge_fires_the_trigger_for_each_action_with_the_total_count(watched: User) -> None:
    """MERGE: triggers fire per action; @@ROWCOUNT inside is the total."""
    watched.ok(MERGE.replace("OUTPUT $action, deleted.id, inserted.id, s.n", ""))
    assert {row[0] for row in watched.ok("SELECT number, new, old FROM dbo.log").rows} == {3}
    assert sorted(watched.ok("SELECT new, old FROM dbo.log").rows) == [(0, 0), (1, 0), (2, 2)]


def test_output_to_the_client_is_refused_where_a_trigger_is_enabled(watched: User) -> None:
    """Error 334; OUTPUT INTO works, and so does a disabled trigger."""
    assert watched.run("UPDATE dbo.k SET n = 1 OUTPUT inserted.n").numbers == [334]
    assert watched.run("DECLARE @v TABLE (n int); UPDATE dbo.k SET n = 1 OUTPUT inserted.n INTO @v").numbers == []
    watched.ok("ALTER TABLE dbo.k DISABLE TRIGGER watch")
    assert len(watched.ok("UPDATE dbo.k SET n = 1 OUTPUT inserted.n").rows) == 3
    watched.ok("ALTER TABLE dbo.k ENABLE TRIGGER watch")
    assert watched.run("UPDATE dbo.k SET n = 1 OUTPUT inserted.n").numbers == [334]


def test_a_rollback_in_a_trigger_ends_the_batch(sa: User) -> None:
    """Error 3609."""
    sa.ok("CREATE TRIGGER dbo.no ON dbo.k FOR DELETE AS ROLLBACK TRANSACTION")
    answer = sa.run("BEGIN TRANSACTION; UPDATE dbo.k SET n = 0; DELETE dbo.k; SELECT 1")
    assert answer.numbers == [3609]
    assert answer.results == []
    assert k(sa) == [(1, 10), (2, 20), (3, 30)]
    assert sa.ok("SELECT @@TRANCOUNT").value == 0
    assert sa.run("DELETE dbo.k; SELECT 1").numbers == [3609]
    assert len(k(sa)) == 3


def test_a_thrown_error_in_a_trigger_undoes_its_statement(sa: User) -> None:
    """Triggers run with XACT_ABORT ON: the error rolls back and ends the batch."""
    sa.ok(
        "CREATE TRIGGER dbo.no ON dbo.k FOR UPDATE AS BEGIN;"
        " IF EXISTS (SELECT 1 FROM inserted WHERE n < 0) THROW 51000, N'no', 1; END"
    )
    answer = sa.run("UPDATE dbo.k SET n = -1; SELECT 1")
    assert answer.numbers == [51000]
    assert answer.results == []
    assert k(sa)[0] == (1, 10)
    assert sa.ok("UPDATE dbo.k SET n = 1").counts == [3]
    caught = sa.ok(
        "BEGIN TRY UPDATE dbo.k SET n = -1;"
        " END TRY BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(), ERROR_PROCEDURE() END CATCH"
    )
    assert caught.rows == [(51000, 0, "no")]


def test_an_instead_of_trigger_replaces_the_change(sa: User) -> None:
    """INSTEAD OF: nothing is written, the row count is as if it were."""
    sa.ok(
        "CREATE TRIGGER dbo.instead ON dbo.k INSTEAD OF DELETE AS UPDATE k SET n = NULL FROM dbo.k k JOIN"
        " deleted d ON d.id = k.id"
    )
    assert sa.ok("DELETE dbo.k WHERE id < 3").counts[-1] == 2
    assert k(sa) == [(1, None), (2, None), (3, 30)]
