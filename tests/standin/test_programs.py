"""Whole programs that any client could run, under contention, with an order of events that a seed decides."""

from __future__ import annotations

import pytest

from tests.standin.desk import Desk

SEEDS = range(12)


def test_transfers_between_accounts_keep_the_sum() -> None:
    """Two updates in one transaction, many sessions, victims try again: no money is lost."""
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.account (id int NOT NULL PRIMARY KEY, amount int NOT NULL CHECK (amount >= 0))")
        desk.sa.ok("INSERT dbo.account VALUES (1, 100), (2, 100), (3, 100)")
        program = """
        SET NOCOUNT ON;
        DECLARE @tries int = 0;
        WHILE @tries < 50
        BEGIN
            BEGIN TRY
                BEGIN TRAN;
                UPDATE dbo.account SET amount -= 10 WHERE id = {0};
                UPDATE dbo.account SET amount += 10 WHERE id = {1};
                COMMIT;
                BREAK;
            END TRY
            BEGIN CATCH
                IF XACT_STATE() <> 0 ROLLBACK;
                IF ERROR_NUMBER() <> 1205 THROW;
                SET @tries += 1;
            END CATCH
        END;
        SELECT @tries;
        """
        pairs = [(1, 2), (2, 1), (2, 3), (3, 2), (3, 1), (1, 3)]
        answers = desk.together(*[(desk.login(), program.format(*pair)) for pair in pairs])
        assert [answer.numbers for answer in answers] == [[]] * 6
        assert desk.sa.ok("SELECT amount FROM dbo.account ORDER BY id").rows == [(100,), (100,), (100,)]


def test_transfers_in_opposite_order_do_deadlock_somewhere() -> None:
    deadlocks = 0
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.a (id int NOT NULL PRIMARY KEY, n int); INSERT dbo.a VALUES (1, 0), (2, 0)")
        text = "BEGIN TRAN; UPDATE dbo.a SET n += 1 WHERE id = {}; UPDATE dbo.a SET n += 1 WHERE id = {}; COMMIT"
        answers = desk.together((desk.login(), text.format(1, 2)), (desk.login(), text.format(2, 1)))
        numbers = [number for answer in answers for number in answer.numbers]
        assert numbers in ([], [1205])
        deadlocks += len(numbers)
        assert desk.sa.ok("SELECT SUM(n) FROM dbo.a").value == (2 if numbers else 4)
    assert 0 < deadlocks < len(SEEDS)


def test_a_queue_hands_out_each_item_once() -> None:
    """A table as a queue: READPAST, UPDLOCK, ROWLOCK; the consumers do not wait for each other."""
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok(
            "CREATE TABLE dbo.queue (id int NOT NULL PRIMARY KEY, body nvarchar(20));"
            " CREATE TABLE dbo.done (id int NOT NULL)"
        )
        desk.sa.ok("INSERT dbo.queue VALUES (1, N'a'), (2, N'b'), (3, N'c'), (4, N'd'), (5, N'e')")
        program = """
        DECLARE @i int = 0;
        WHILE @i < 8
        BEGIN
            BEGIN TRAN;
            WITH next AS (SELECT TOP (1) id, body FROM dbo.queue WITH (ROWLOCK, UPDLOCK, READPAST) ORDER BY id)
            DELETE FROM next OUTPUT deleted.id INTO dbo.done;
            COMMIT;
            SET @i += 1;
        END
        """
        answers = desk.together(*[(desk.login(), program) for _ in range(3)])
        assert [answer.numbers for answer in answers] == [[]] * 3
        assert desk.sa.ok("SELECT id FROM dbo.done ORDER BY id").rows == [(1,), (2,), (3,), (4,), (5,)]


UPSERT = """
MERGE dbo.counter {} AS t USING (VALUES (N'hits')) AS s (name) ON t.name = s.name
WHEN MATCHED THEN UPDATE SET n = t.n + 1
WHEN NOT MATCHED THEN INSERT (name, n) VALUES (s.name, 1);
"""


def errors_of_upserts(hints: str, *, present: bool = False) -> set[int]:
    seen: set[int] = set()
    for seed in range(25):
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.counter (name nvarchar(20) NOT NULL PRIMARY KEY, n int NOT NULL)")
        if present:
            desk.sa.ok("INSERT dbo.counter VALUES (N'hits', 0)")
        answers = desk.together(*[(desk.login(), UPSERT.format(hints)) for _ in range(4)])
        failed = [number for answer in answers for number in answer.numbers]
        assert desk.sa.ok("SELECT n FROM dbo.counter").value == 4 - len(failed)
        seen.update(failed)
    return seen


def test_a_merge_without_holdlock_meets_duplicate_keys() -> None:
    """MERGE: "specifying the HOLDLOCK will prevent against unique key violations"."""
    assert errors_of_upserts("") == {2627}


@pytest.mark.parametrize("present", [False, True])
def test_a_merge_with_holdlock_alone_meets_deadlocks(present: bool) -> None:
    """Shared (range) locks of two sessions that both want to write: a conversion deadlock."""
    assert errors_of_upserts("WITH (HOLDLOCK)", present=present) == {1205}


@pytest.mark.parametrize("present", [False, True])
def test_a_merge_with_updlock_and_holdlock_meets_neither(present: bool) -> None:
    assert errors_of_upserts("WITH (UPDLOCK, HOLDLOCK, ROWLOCK, FORCESEEK)", present=present) == set()


def deadlocks_of_a_sweep(sweep: str) -> int:
    """A sweep of old rows against updates of the same rows by their primary key; counts the deadlocks."""
    found = 0
    for seed in range(20):
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.job (id int NOT NULL PRIMARY KEY, due int NOT NULL, INDEX ix_due (due))")
        desk.sa.ok("INSERT dbo.job VALUES (1, 5), (2, 6)")
        touch = "UPDATE dbo.job SET due += 10 WHERE id = {}"
        scripts = [(desk.login(), text) for text in (sweep, touch.format(1), touch.format(2))]
        for answer in desk.together(*scripts):
            assert set(answer.numbers) <= {1205}
            found += len(answer.numbers)
    return found


def test_a_sweep_through_another_index_than_the_updates_deadlocks() -> None:
    """Index entry then row against row then index entry: the opposite order on the same row."""
    assert deadlocks_of_a_sweep("DELETE dbo.job WHERE due <= 9") > 0


def test_a_sweep_by_key_that_never_waits_does_not() -> None:
    """Candidates read without locks, rows deleted by their key, READPAST and LOCK_TIMEOUT 0."""
    sweep = """
    BEGIN TRY
        SET LOCK_TIMEOUT 0;
        DELETE t FROM dbo.job AS t WITH (ROWLOCK, READPAST, READCOMMITTEDLOCK)
        WHERE t.due <= 9 AND t.id IN (SELECT TOP (10) x.id FROM dbo.job AS x WITH (READUNCOMMITTED) WHERE x.due <= 9
                                      ORDER BY x.due)
    END TRY
    BEGIN CATCH
        IF ERROR_NUMBER() <> 1222 THROW;
    END CATCH
    """
    assert deadlocks_of_a_sweep(sweep) == 0


def test_an_upsert_in_two_statements_with_both_hints_is_safe_too() -> None:
    """UPDATE WITH (UPDLOCK, SERIALIZABLE), then INSERT when no row was there."""
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.counter (name nvarchar(20) NOT NULL PRIMARY KEY, n int NOT NULL)")
        program = """
        SET XACT_ABORT ON;
        BEGIN TRAN;
        UPDATE dbo.counter WITH (UPDLOCK, SERIALIZABLE) SET n += 1 WHERE name = N'hits';
        IF @@ROWCOUNT = 0 INSERT dbo.counter VALUES (N'hits', 1);
        COMMIT
        """
        answers = desk.together(*[(desk.login(), program) for _ in range(4)])
        assert [answer.numbers for answer in answers] == [[]] * 4
        assert desk.sa.ok("SELECT n FROM dbo.counter").value == 4


def test_an_application_lock_makes_a_critical_section() -> None:
    """sp_getapplock around a read and a write that are not safe by themselves."""
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.n (n int NOT NULL); INSERT dbo.n VALUES (0)")
        program = """
        DECLARE @i int = 0, @rc int, @n int;
        WHILE @i < 3
        BEGIN
            BEGIN TRAN;
            EXEC @rc = sp_getapplock @Resource = N'n', @LockMode = N'Exclusive';
            IF @rc < 0 THROW 51000, N'no lock', 1;
            SELECT @n = n FROM dbo.n WITH (READUNCOMMITTED);
            UPDATE dbo.n SET n = @n + 1;
            COMMIT;
            SET @i += 1;
        END
        """
        answers = desk.together(*[(desk.login(), program) for _ in range(3)])
        assert [answer.numbers for answer in answers] == [[]] * 3
        assert desk.sa.ok("SELECT n FROM dbo.n").value == 9


def test_reading_and_writing_without_a_lock_loses_updates() -> None:
    """The same without the lock: the stand-in shows the race."""
    lost = 0
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        desk.sa.ok("CREATE TABLE dbo.n (n int NOT NULL); INSERT dbo.n VALUES (0)")
        program = "DECLARE @n int; SELECT @n = n FROM dbo.n; UPDATE dbo.n SET n = @n + 1"
        desk.together(*[(desk.login(), program) for _ in range(3)])
        lost += desk.sa.ok("SELECT n FROM dbo.n").value != 3
    assert lost > 0


def test_installers_that_race_make_one_table() -> None:
    """An application lock around CREATE SCHEMA and CREATE TABLE; all sessions succeed."""
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        program = """
        SET XACT_ABORT ON;
        IF OBJECT_ID(N'[jobs].[job]', N'U') IS NULL
        BEGIN TRY
            BEGIN TRAN;
            DECLARE @rc int;
            EXEC @rc = sys.sp_getapplock @Resource = N'install', @LockMode = 'Exclusive', @LockTimeout = 15000;
            IF @rc < 0 THROW 51003, N'no lock', 1;
            IF SCHEMA_ID(N'jobs') IS NULL EXEC (N'CREATE SCHEMA [jobs]');
            IF OBJECT_ID(N'[jobs].[job]', N'U') IS NULL
            BEGIN
                CREATE TABLE [jobs].[job] (id int NOT NULL PRIMARY KEY, due datetime2 NOT NULL, INDEX ix_due (due));
                EXEC sys.sp_addextendedproperty @name = N'version', @value = N'1', @level0type = N'SCHEMA',
                @level0name = N'jobs',
                     @level1type = N'TABLE', @level1name = N'job';
            END;
            COMMIT;
        END TRY
        BEGIN CATCH
            IF XACT_STATE() <> 0 ROLLBACK;
            THROW;
        END CATCH;
        INSERT jobs.job SELECT COUNT(*), SYSUTCDATETIME() FROM jobs.job WITH (UPDLOCK, HOLDLOCK);
        """
        answers = desk.together(*[(desk.login(), program) for _ in range(4)])
        assert [answer.numbers for answer in answers] == [[]] * 4
        assert desk.sa.ok("SELECT COUNT(*) FROM jobs.job").value == 4


def test_installers_without_a_lock_collide() -> None:
    collisions: set[int] = set()
    for seed in SEEDS:
        desk = Desk(seed, switch_probability=0.5)
        program = "IF SCHEMA_ID(N'jobs') IS NULL EXEC (N'CREATE SCHEMA [jobs]')"
        answers = desk.together(*[(desk.login(), program) for _ in range(4)])
        collisions.update(number for answer in answers for number in answer.numbers)
    assert collisions == {2714}


def test_a_trigger_keeps_an_audit_of_what_was_done() -> None:
    desk = Desk()
    desk.sa.ok("CREATE TABLE dbo.stock (item nvarchar(10) NOT NULL PRIMARY KEY, n int NOT NULL)")
    desk.sa.ok(
        "CREATE TABLE dbo.audit (id int IDENTITY(1, 1) PRIMARY KEY, item nvarchar(10), was int, is_now int,"
        " by_whom nvarchar(128))"
    )
    desk.sa.ok(
        """
        CREATE TRIGGER dbo.audit_stock ON dbo.stock AFTER INSERT, UPDATE, DELETE AS
        SET NOCOUNT ON;
        INSERT dbo.audit (item, was, is_now, by_whom)
        SELECT COALESCE(i.item, d.item), d.n, i.n, SUSER_SNAME()
        FROM inserted i LEFT JOIN deleted d ON d.item = i.item
        UNION ALL
        SELECT d.item, d.n, NULL, SUSER_SNAME() FROM deleted d WHERE NOT EXISTS (SELECT 1 FROM inserted i WHERE
            i.item = d.item)
        """
    )
    desk.sa.ok("INSERT dbo.stock VALUES (N'nut', 5); UPDATE dbo.stock SET n -= 1; DELETE dbo.stock")
    found = desk.sa.ok("SELECT item, was, is_now, by_whom FROM dbo.audit ORDER BY id").rows
    assert found == [("nut", None, 5, "sa"), ("nut", 5, 4, "sa"), ("nut", 4, None, "sa")]


def test_a_sweep_in_portions_with_rowcount() -> None:
    """WHILE with DELETE TOP until nothing is left."""
    desk = Desk()
    desk.sa.ok("CREATE TABLE dbo.old (id int NOT NULL PRIMARY KEY)")
    desk.sa.ok("DECLARE @i int = 0; WHILE @i < 25 BEGIN INSERT dbo.old VALUES (@i); SET @i += 1 END")
    answer = desk.sa.ok(
        "DECLARE @n int = 1, @rounds int = 0; WHILE @n > 0 BEGIN DELETE TOP (10) dbo.old;"
        " SET @n = @@ROWCOUNT; SET @rounds += 1 END; SELECT @rounds"
    )
    assert answer.value == 4
