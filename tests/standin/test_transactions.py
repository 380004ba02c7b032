"""Transactions: counting, savepoints, implicit ones, isolation levels, lock time-outs, and who waits for whom.

Right values are from Microsoft's documentation; "Guide" is the "Transaction locking and row versioning guide".
"""

from __future__ import annotations

import pytest

from sqllease.testing.server.session import Cancelled
from sqllease.testing.server.sqltypes import RpcParameter, nvarchar
from tests.standin.desk import Answer, Desk, User


@pytest.fixture
def desk() -> Desk:
    desk = Desk()
    desk.sa.ok(
        "CREATE TABLE dbo.k (id int NOT NULL PRIMARY KEY, n int NULL); INSERT dbo.k VALUES (1, 10), (2, 20), (3, 30)"
    )
    return desk


@pytest.fixture
def sa(desk: Desk) -> User:
    return desk.sa


@pytest.fixture
def other(desk: Desk) -> User:
    return desk.login()


def n(user: User, id: int = 1) -> object:
    return user.ok(f"SELECT n FROM dbo.k WITH (READUNCOMMITTED) WHERE id = {id}").value


# --- counting ----------------------------------------------------------------------------------------


def test_transactions_nest_by_counting(sa: User) -> None:
    """@@TRANCOUNT: BEGIN adds one, COMMIT takes one, ROLLBACK takes all."""
    answer = sa.ok(
        "BEGIN TRAN; BEGIN TRAN; SELECT @@TRANCOUNT; COMMIT; SELECT @@TRANCOUNT; UPDATE dbo.k SET n = 0;"
        " ROLLBACK; SELECT @@TRANCOUNT"
    )
    assert answer.results == [[(2,)], [(1,)], [(0,)]]
    assert answer.transactions == ["begun", "rolled back"]
    assert n(sa) == 10


def test_a_transaction_has_an_id(sa: User, other: User) -> None:
    """CURRENT_TRANSACTION_ID: of the current transaction in the current session."""
    ask = "SELECT CURRENT_TRANSACTION_ID()"
    first = sa.ok(f"BEGIN TRAN; {ask}").value
    assert sa.ok(ask).value == first
    assert len({first, sa.ok(f"COMMIT; BEGIN TRAN; {ask}").value, other.ok(ask).value, other.ok(ask).value}) == 4


def test_commit_and_rollback_need_a_transaction(sa: User) -> None:
    """Errors 3902 and 3903; the batch goes on."""
    answer = sa.run("COMMIT; ROLLBACK; SELECT 1")
    assert answer.numbers == [3902, 3903]
    assert answer.value == 1


def test_a_transaction_outlives_its_batch(sa: User) -> None:
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert sa.session.transaction_descriptor != 0
    sa.ok("COMMIT")
    assert sa.session.transaction_descriptor == 0
    assert n(sa) == 0


def test_savepoints(sa: User) -> None:
    """SAVE TRANSACTION; 628 without a transaction, 6401 for an unknown name."""
    answer = sa.run(
        """
        BEGIN TRAN; UPDATE dbo.k SET n = 1 WHERE id = 1; SAVE TRAN here; UPDATE dbo.k SET n = 2 WHERE id = 2;
        ROLLBACK TRAN here; SELECT @@TRANCOUNT; COMMIT
        """
    )
    assert answer.value == 1
    assert (n(sa, 1), n(sa, 2)) == (1, 20)
    assert sa.run("SAVE TRAN here").numbers == [628]
    assert sa.run("BEGIN TRAN; ROLLBACK TRAN nowhere; ROLLBACK").numbers == [6401]


def test_a_transaction_is_rolled_back_by_its_name(sa: User) -> None:
    """ROLLBACK TRANSACTION transaction_name: the outermost name."""
    assert sa.ok("BEGIN TRAN work; BEGIN TRAN; ROLLBACK TRAN work; SELECT @@TRANCOUNT").value == 0
    named = (
        "DECLARE @name nvarchar(32) = N'work'; BEGIN TRAN @name; BEGIN TRAN; ROLLBACK TRAN @name; SELECT @@TRANCOUNT"
    )
    assert sa.ok(named).value == 0


def test_implicit_transactions_begin_with_the_first_statement(sa: User) -> None:
    """SET IMPLICIT_TRANSACTIONS: a SELECT from a table begins one, another does not; BEGIN TRAN then counts 2."""
    answer = sa.ok(
        """
        SET IMPLICIT_TRANSACTIONS ON;
        SELECT 1; SELECT @@TRANCOUNT; SELECT COUNT(*) FROM dbo.k; SELECT @@TRANCOUNT, @@OPTIONS & 2; COMMIT;
        BEGIN TRAN; SELECT @@TRANCOUNT; ROLLBACK; UPDATE dbo.k SET n = 5; ROLLBACK; SET IMPLICIT_TRANSACTIONS OFF;
            SELECT @@TRANCOUNT
        """
    )
    assert [result[0] for result in answer.results] == [(1,), (0,), (3,), (1, 2), (2,), (0,)]
    assert n(sa) == 10


def test_the_wire_begins_commits_and_chains(sa: User) -> None:
    """MS-TDS: transaction manager requests; a commit may begin the next transaction at once."""
    from tests.standin.desk import Answer

    answer = Answer()
    sa.session.begin(0, answer)
    sa.ok("UPDATE dbo.k SET n = 0 WHERE id = 1")
    sa.session.commit(True, answer)
    assert sa.ok("SELECT @@TRANCOUNT").value == 1
    sa.session.rollback(False, answer)
    sa.session.commit(False, answer)
    assert answer.transactions == ["begun", "committed", "begun", "rolled back"]
    assert answer.numbers == [3902]
    assert n(sa) == 0


# --- rolling back ---------------------------------------------------------------------------------------


def test_an_error_undoes_its_statement_only(sa: User) -> None:
    """SET XACT_ABORT OFF: only the statement that raised the error is rolled back; the batch goes on."""
    answer = sa.run(
        "BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1; INSERT dbo.k VALUES (8, 8), (1, 1);"
        " SELECT @@TRANCOUNT, @@ERROR; COMMIT"
    )
    assert answer.numbers == [2627]
    assert answer.rows == [(1, 2627)]
    assert n(sa) == 0
    assert sa.ok("SELECT COUNT(*) FROM dbo.k").value == 3


def test_xact_abort_rolls_back_and_ends_the_batch(sa: User) -> None:
    """SET XACT_ABORT ON."""
    answer = sa.run(
        "SET XACT_ABORT ON; BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1; INSERT dbo.k VALUES (1, 1); SELECT 1"
    )
    assert (answer.numbers, answer.results) == ([2627], [])
    assert answer.transactions == ["begun", "rolled back"]
    assert n(sa) == 10


def test_a_doomed_transaction_can_only_be_rolled_back(sa: User) -> None:
    """XACT_STATE: -1; error 3930 for a write or a COMMIT; reads go on; 3931 for a savepoint."""
    answer = sa.run(
        """
        SET XACT_ABORT ON;
        BEGIN TRAN; SAVE TRAN s;
        BEGIN TRY INSERT dbo.k VALUES (1, 1) END TRY
        BEGIN CATCH
            SELECT XACT_STATE(), @@TRANCOUNT, (SELECT COUNT(*) FROM dbo.k);
            BEGIN TRY UPDATE dbo.k SET n = 0 END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH;
            BEGIN TRY COMMIT END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH;
            BEGIN TRY ROLLBACK TRAN s END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH;
            ROLLBACK;
            SELECT XACT_STATE(), @@TRANCOUNT;
        END CATCH
        """
    )
    assert answer.results == [[(-1, 1, 3)], [(3930,)], [(3930,)], [(3931,)], [(0, 0)]]


def test_a_batch_must_not_leave_a_doomed_transaction(sa: User) -> None:
    """Error 3998."""
    answer = sa.run(
        "SET XACT_ABORT ON; BEGIN TRAN; BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT XACT_STATE() END CATCH"
    )
    assert answer.numbers == [3998]
    assert sa.session.transaction_descriptor == 0


def test_a_read_only_database_refuses_changes(sa: User) -> None:
    """Error 3906; reading goes on."""
    sa.ok("ALTER DATABASE CURRENT SET READ_ONLY WITH NO_WAIT")
    assert sa.run("UPDATE dbo.k SET n = 0").numbers == [3906]
    assert sa.run("UPDATE dbo.k SET n = 0 WHERE 1 = 0").numbers == [3906]
    assert sa.run("CREATE TABLE dbo.new (a int)").numbers == [3906]
    assert sa.ok("DECLARE @t TABLE (a int); INSERT @t VALUES (1); SELECT COUNT(*) FROM dbo.k CROSS JOIN @t").value == 3
    assert sa.ok("SELECT DATABASEPROPERTYEX(DB_NAME(), N'Updateability')").value == "READ_ONLY"
    sa.ok("ALTER DATABASE CURRENT SET READ_WRITE; UPDATE dbo.k SET n = 0")


# --- waiting --------------------------------------------------------------------------------------------


def test_a_reader_waits_for_a_writer_and_sees_what_it_left(desk: Desk, sa: User, other: User) -> None:
    """Guide: READ COMMITTED takes S locks."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    task, answer = other.start("SELECT n FROM dbo.k WHERE id = 1")
    assert not task.done
    sa.ok("ROLLBACK")
    desk.settle(task)
    assert answer.value == 10


def test_read_uncommitted_does_not_wait(sa: User, other: User) -> None:
    """READUNCOMMITTED reads dirty rows."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.ok("SELECT n FROM dbo.k WITH (NOLOCK) WHERE id = 1").value == 0
    assert other.ok("SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED; SELECT n FROM dbo.k WHERE id = 1").value == 0


def test_readcommitted_reads_as_that_level_does_whatever_the_sessions(sa: User, other: User) -> None:
    """Table hints: READCOMMITTED uses locks, or versions where READ_COMMITTED_SNAPSHOT is ON; no lock is kept."""
    read = "SELECT n FROM dbo.k WITH (READCOMMITTED) WHERE id = 1"
    other.ok("SET LOCK_TIMEOUT 0; SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED")
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.run(read).numbers == [1222]
    sa.ok("ROLLBACK")
    other.ok(f"SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRAN; {read}")
    sa.ok("SET LOCK_TIMEOUT 0; UPDATE dbo.k SET n = 1 WHERE id = 1")
    other.ok("COMMIT")
    sa.ok("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON; BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.ok(read).value == 1


def test_read_committed_snapshot_reads_the_last_commit(sa: User, other: User) -> None:
    """Guide: READ_COMMITTED_SNAPSHOT; READCOMMITTEDLOCK takes locks all the same."""
    sa.ok("ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT ON; BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.ok("SELECT n FROM dbo.k WHERE id = 1").value == 10
    assert other.run("SET LOCK_TIMEOUT 0; SELECT n FROM dbo.k WITH (READCOMMITTEDLOCK) WHERE id = 1").numbers == [1222]


def test_snapshot_isolation_sees_its_beginning_and_refuses_late_writes(sa: User, other: User) -> None:
    """Guide: SNAPSHOT; error 3960 ends and rolls back; 3952 where the database does not allow it."""
    assert other.run("SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT n FROM dbo.k").numbers == [3952]
    sa.ok("ALTER DATABASE CURRENT SET ALLOW_SNAPSHOT_ISOLATION ON")
    other.ok("BEGIN TRAN; SELECT COUNT(*) FROM dbo.k")
    sa.ok("UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.ok("SELECT n FROM dbo.k WHERE id = 1").value == 10
    answer = other.run("UPDATE dbo.k SET n = 5 WHERE id = 1; SELECT 1")
    assert (answer.numbers, answer.results) == ([3960], [])
    assert other.session.transaction_descriptor == 0


def test_repeatable_read_keeps_its_locks_and_serializable_its_range(sa: User, other: User) -> None:
    """Guide: REPEATABLE READ blocks changes of what was read, SERIALIZABLE also new rows among it."""
    other.ok("SET LOCK_TIMEOUT 0")
    sa.ok("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ; BEGIN TRAN; SELECT n FROM dbo.k WHERE id <= 2")
    assert other.run("UPDATE dbo.k SET n = 0 WHERE id = 1").numbers == [1222]
    assert other.run("INSERT dbo.k VALUES (0, 0)").numbers == []
    sa.ok("COMMIT; SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; BEGIN TRAN; SELECT n FROM dbo.k WHERE id <= 2")
    assert other.run("INSERT dbo.k VALUES (-1, 0)").numbers == [1222]
    assert other.run("INSERT dbo.k VALUES (9, 0)").numbers == []
    sa.ok("COMMIT")
    assert other.run("UPDATE dbo.k SET n = 0 WHERE id = 1").numbers == []


def test_updlock_lets_readers_pass_and_stops_other_updaters(sa: User, other: User) -> None:
    """Guide: U is compatible with S, not with U."""
    sa.ok("BEGIN TRAN; SELECT n FROM dbo.k WITH (UPDLOCK) WHERE id = 1")
    assert other.ok("SET LOCK_TIMEOUT 0; SELECT n FROM dbo.k WHERE id = 1").value == 10
    assert other.run("SELECT n FROM dbo.k WITH (UPDLOCK) WHERE id = 1").numbers == [1222]
    assert other.run("UPDATE dbo.k SET n = 0 WHERE id = 2").numbers == []


def test_a_row_read_repeatably_cannot_change_and_its_neighbours_can(sa: User, other: User) -> None:
    """Guide: S to the end of the transaction stops X, is compatible with U and RangeS-U, and not tested by RangeI-N."""
    sa.ok("BEGIN TRAN; SELECT n FROM dbo.k WITH (REPEATABLEREAD) WHERE id = 2")
    other.ok("SET LOCK_TIMEOUT 0; DELETE dbo.k WHERE id = 1")
    upsert = """
    MERGE dbo.k WITH (UPDLOCK, HOLDLOCK) AS t USING (VALUES ({})) s (id) ON t.id = s.id
    WHEN MATCHED THEN UPDATE SET n = 0 WHEN NOT MATCHED THEN INSERT (id) VALUES (s.id);
    """
    assert other.run(upsert.format(1)).numbers == []
    assert other.run(upsert.format(2)).numbers == [1222]
    assert other.run("SELECT n FROM dbo.k WITH (UPDLOCK) WHERE id = 2").numbers == []


def test_a_row_held_for_update_stops_new_neighbours_under_holdlock(sa: User, other: User) -> None:
    """Guide: RangeS-U on the next key waits for U; a plain INSERT there does not."""
    sa.ok("DELETE dbo.k WHERE id = 1; BEGIN TRAN; SELECT n FROM dbo.k WITH (UPDLOCK) WHERE id = 2")
    other.ok("SET LOCK_TIMEOUT 0")
    assert other.run("SELECT n FROM dbo.k WITH (UPDLOCK, HOLDLOCK) WHERE id = 1").numbers == [1222]
    assert other.run("INSERT dbo.k VALUES (1, 1)").numbers == []


def test_rows_that_do_not_qualify_are_not_kept_locked(sa: User, other: User) -> None:
    """Guide: an UPDATE's U lock on a row that it does not change goes at once."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = n WHERE n = 30")
    assert other.run("SET LOCK_TIMEOUT 0; UPDATE dbo.k SET n = 0 WHERE id = 1").numbers == []


def test_readpast_skips_locked_rows(sa: User, other: User) -> None:
    """Table hints: READPAST."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    assert other.ok("SELECT id FROM dbo.k WITH (READPAST)").rows == [(2,), (3,)]
    assert other.ok("DELETE TOP (1) FROM dbo.k WITH (READPAST, ROWLOCK) OUTPUT deleted.id").rows == [(2,)]


def test_a_lock_timeout_ends_the_statement_only(desk: Desk, sa: User, other: User) -> None:
    """Error 1222: the transaction stays open (SET LOCK_TIMEOUT)."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    task, answer = other.start(
        "BEGIN TRAN; UPDATE dbo.k SET n = 1 WHERE id = 3; SET LOCK_TIMEOUT 500;"
        " SELECT n FROM dbo.k WHERE id = 1; SELECT @@TRANCOUNT"
    )
    assert not task.done
    desk.advance(0.4)
    assert not task.done
    desk.advance(0.1)
    desk.settle(task)
    assert answer.numbers == [1222]
    assert answer.results[-1] == [(1,)]
    assert other.ok("SELECT @@LOCK_TIMEOUT").value == 500


def test_a_deadlock_has_one_victim(desk: Desk, sa: User, other: User) -> None:
    """Error 1205: severity 13, the transaction is rolled back, the batch is over; the other one goes on."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 1 WHERE id = 1")
    other.ok("SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE dbo.k SET n = 2 WHERE id = 2")
    task, winner = sa.start("UPDATE dbo.k SET n = 1 WHERE id = 2; SELECT @@TRANCOUNT")
    loser = other.run("UPDATE dbo.k SET n = 2 WHERE id = 1; SELECT 1")
    desk.settle(task)
    assert [(error.number, error.severity) for error in loser.errors] == [(1205, 13)]
    assert (loser.results, loser.transactions) == ([], ["rolled back"])
    assert winner.value == 1
    assert other.ok("SELECT @@TRANCOUNT").value == 0


def test_a_deadlock_can_be_caught_and_its_transaction_only_rolled_back(desk: Desk, sa: User, other: User) -> None:
    """TRY...CATCH: 1205 can be caught; the transaction is uncommittable then."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 1 WHERE id = 1")
    other.ok("SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; UPDATE dbo.k SET n = 2 WHERE id = 2")
    task, winner = sa.start("UPDATE dbo.k SET n = 1 WHERE id = 2; COMMIT")
    loser = other.run(
        """
        BEGIN TRY UPDATE dbo.k SET n = 2 WHERE id = 1 END TRY
        BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(); ROLLBACK; SELECT @@TRANCOUNT END CATCH
        """
    )
    desk.settle(task)
    assert loser.results == [[(1205, -1)], [(0,)]]
    assert winner.errors == []
    assert other.session.raised == [1205]
    assert (n(sa, 1), n(sa, 2)) == (1, 1)


@pytest.mark.parametrize("way", ["batch", "sp_executesql"])
@pytest.mark.parametrize("last", ["the victim", "the other"])
def test_a_victim_of_a_deadlock_loses_its_transaction_also_while_its_batch_is_compiled(
    desk: Desk, other: User, way: str, last: str
) -> None:
    """Guide: compiling waits for Sch-S while another changes the table; 1205 rolls the victim's transaction back."""
    victim = desk.login()
    other.ok("SET DEADLOCK_PRIORITY HIGH; BEGIN TRAN; CREATE TABLE dbo.new (a int)")
    victim.ok("BEGIN TRAN; INSERT dbo.k VALUES (4, 40)")
    text, loser = "SELECT * FROM dbo.new", Answer()

    def compile() -> None:
        if way == "batch":
            victim.session.run_batch(text, loser)
        else:
            victim.session.run_rpc(way, [RpcParameter("", nvarchar(), text)], loser)

    first = desk.engine.scheduler.spawn(compile) if last == "the other" else None
    desk.engine.scheduler.run()
    task, winner = other.start("DROP TABLE dbo.k; COMMIT")
    desk.settle(task, first or desk.engine.scheduler.spawn(compile))
    assert (loser.numbers, loser.results, loser.transactions) == ([1205], [], ["rolled back"])
    assert winner.errors == []
    assert victim.ok("SELECT @@TRANCOUNT, XACT_STATE(), OBJECT_ID(N'dbo.k')").rows == [(0, 0, None)]


def test_who_is_spared_while_its_batch_is_compiled_goes_on(desk: Desk, other: User) -> None:
    """The same deadlock with the other side as its victim: what it made is gone, the batch does not find it."""
    reader = desk.login()
    other.ok("SET DEADLOCK_PRIORITY LOW; BEGIN TRAN; CREATE TABLE dbo.new (a int)")
    reader.ok("BEGIN TRAN; INSERT dbo.k VALUES (4, 40)")
    task, spared = reader.start("SELECT * FROM dbo.new")
    loser = other.run("DROP TABLE dbo.k")
    desk.settle(task)
    assert (loser.numbers, loser.transactions) == ([1205], ["rolled back"])
    assert (spared.numbers, spared.transactions) == ([208], [])
    assert reader.ok("SELECT @@TRANCOUNT; COMMIT").value == 1
    assert n(other, 4) == 40


def test_a_deadlock_while_a_text_is_compiled_can_be_caught_outside_it(desk: Desk, other: User) -> None:
    """TRY...CATCH: compile errors are caught by the level above; the transaction is uncommittable then."""
    victim = desk.login()
    other.ok("SET DEADLOCK_PRIORITY HIGH; BEGIN TRAN; CREATE TABLE dbo.new (a int)")
    victim.ok("BEGIN TRAN; INSERT dbo.k VALUES (4, 40)")
    task, winner = other.start("DROP TABLE dbo.k; COMMIT")
    loser = victim.run(
        """
        BEGIN TRY EXEC (N'SELECT * FROM dbo.new') END TRY
        BEGIN CATCH SELECT ERROR_NUMBER(), XACT_STATE(); ROLLBACK; SELECT @@TRANCOUNT END CATCH
        """
    )
    desk.settle(task)
    assert (loser.results, loser.errors, winner.errors) == ([[(1205, -1)], [(0,)]], [], [])


def test_a_table_that_changes_while_another_is_waited_for_is_read_as_it_is_then(
    desk: Desk, sa: User, other: User
) -> None:
    """Guide: a statement is compiled under Sch-S locks; it never runs with columns that are gone."""
    sa.ok("BEGIN TRAN; CREATE TABLE dbo.new (a int); INSERT dbo.new VALUES (7)")
    task, answer = other.start("SELECT * FROM dbo.k CROSS JOIN dbo.new WHERE id = 1")
    desk.login().ok("ALTER TABLE dbo.k DROP COLUMN n; ALTER TABLE dbo.k ADD late bit NULL")
    sa.ok("COMMIT")
    desk.settle(task)
    assert [column.name for column in answer.columns_of[0]] == ["id", "late", "a"]
    assert answer.rows == [(1, None, 7)]


def test_a_second_creator_waits_and_finds_the_table(desk: Desk, sa: User, other: User) -> None:
    """DDL locks: the second CREATE waits for the first one's end, then fails with 2714."""
    sa.ok("BEGIN TRAN; CREATE TABLE dbo.new (a int)")
    task, answer = other.start("CREATE TABLE dbo.new (a int)")
    reader, seen = desk.login().start("SELECT OBJECT_ID(N'dbo.new')")
    assert not task.done
    assert not reader.done
    sa.ok("COMMIT")
    desk.settle(task, reader)
    assert answer.numbers == [2714]
    assert seen.value is not None


def test_definitions_roll_back(desk: Desk, sa: User, other: User) -> None:
    """CREATE, ALTER and DROP are transactional; who waited for a table that was never committed does not find it."""
    sa.ok(
        "BEGIN TRAN; CREATE TABLE dbo.new (a int); ALTER TABLE dbo.k ADD x int NULL; DROP TABLE dbo.new;"
        " CREATE TABLE dbo.new (b int)"
    )
    task, answer = other.start("SELECT * FROM dbo.new")
    sa.ok("ROLLBACK")
    desk.settle(task)
    assert answer.numbers == [208]
    assert len(sa.ok("SELECT * FROM dbo.k").columns_of[0]) == 2


# --- attention, reset ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("xact_abort", "left"), [("OFF", 1), ("ON", 0)])
def test_an_attention_undoes_the_statement_or_the_transaction(
    sa: User, other: User, xact_abort: str, left: int
) -> None:
    """An attention rolls the statement back, under XACT_ABORT ON the whole transaction; no CATCH runs."""
    sa.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    other.ok(f"SET XACT_ABORT {xact_abort}; BEGIN TRAN; UPDATE dbo.k SET n = 5 WHERE id = 3")
    task, answer = other.start(
        "BEGIN TRY UPDATE dbo.k SET n = 6 WHERE id IN (1, 2) END TRY BEGIN CATCH SELECT 1 END CATCH"
    )
    task.interrupt(Cancelled())
    other.desk.engine.scheduler.run()
    assert task.done
    assert isinstance(task.error, Cancelled)
    assert answer.results == []
    assert other.ok("SELECT @@TRANCOUNT").value == left
    assert n(sa, 2) == 20
    assert n(sa, 3) == (5 if left else 30)


def test_an_endless_loop_can_be_interrupted(sa: User) -> None:
    task, _ = sa.start("WHILE 1 = 1 SET ROWCOUNT 0")
    assert not task.done
    task.interrupt(Cancelled())
    sa.desk.engine.scheduler.run()
    assert task.done


def test_a_reset_leaves_nothing_but_the_isolation_level(sa: User, other: User) -> None:
    """sp_reset_connection: transaction, options, temporary tables and session locks go; the isolation level stays."""
    sa.ok(
        """
        SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SET LOCK_TIMEOUT 7; SET NOCOUNT ON; SET ROWCOUNT 1; CREATE
            TABLE #t (a int);
        EXEC sp_getapplock @Resource = N'r', @LockMode = 'Exclusive', @LockOwner = 'Session'; USE master;
        """
    )
    sa.ok("USE app; BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1; USE master")
    sa.session.reset()
    assert sa.ok("SELECT @@TRANCOUNT, @@LOCK_TIMEOUT, @@OPTIONS & 512, DB_NAME()").rows == [(0, -1, 0, "app")]
    assert sa.run("SELECT * FROM #t").numbers == [208]
    level = "SELECT transaction_isolation_level FROM sys.dm_exec_sessions WHERE session_id = @@SPID"
    assert sa.ok(level).value == 4
    assert n(other) == 10
    assert other.ok("DECLARE @r int; EXEC @r = sp_getapplock N'r', 'Exclusive', 'Session', 0; SELECT @r").value == 0


def test_a_closed_link_gives_everything_back(desk: Desk, other: User) -> None:
    other.ok("BEGIN TRAN; UPDATE dbo.k SET n = 0 WHERE id = 1")
    other.session.close()
    assert desk.sa.ok("SELECT n FROM dbo.k WHERE id = 1").value == 10
    assert other.session.id not in desk.engine.sessions
