"""Errors: which end a statement, a scope or a batch, which reach a CATCH, and what the functions then tell.

Right values are from Microsoft's documentation (TRY...CATCH, THROW, RAISERROR, SET XACT_ABORT, @@ERROR, @@ROWCOUNT).
"""

from __future__ import annotations

import pytest

from sqllease.testing.server.tokens import Answer as WireAnswer
from tests.standin.desk import Desk, User


@pytest.fixture
def sa() -> User:
    user = Desk().sa
    user.ok("CREATE TABLE dbo.k (id int NOT NULL PRIMARY KEY, n int NULL); INSERT dbo.k VALUES (1, 10)")
    return user


# --- what goes on ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "INSERT dbo.k VALUES (1, 1)",
        "SELECT 1 / 0",
        "SELECT CAST(300 AS tinyint)",
        "UPDATE dbo.k SET id = NULL",
        "EXEC dbo.nowhere",
        "COMMIT",
        "RAISERROR(N'no', 16, 1)",
        "CREATE TABLE dbo.k (a int)",
    ],
)
def test_these_errors_end_their_statement_only(sa: User, text: str) -> None:
    """Without XACT_ABORT the batch goes on behind them."""
    answer = sa.run(f"{text}; SELECT N'after'")
    assert len(answer.errors) == 1
    assert answer.results[-1] == [("after",)]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT CAST(N'x' AS int)",
        "THROW 51000, N'no', 1",
        "SELECT * FROM dbo.nowhere",
        "SET XACT_ABORT ON; INSERT dbo.k VALUES (1, 1)",
        "SET XACT_ABORT ON; SELECT 1 / 0",
    ],
)
def test_these_errors_end_the_batch(sa: User, text: str) -> None:
    """Conversion errors, THROW, a missing table, and every run-time error under XACT_ABORT ON."""
    answer = sa.run(f"{text}; SELECT N'after'")
    assert len(answer.errors) == 1
    assert [("after",)] not in answer.results


def test_raiserror_does_not_honour_xact_abort_and_throw_does(sa: User) -> None:
    """THROW (Transact-SQL): differences between RAISERROR and THROW."""
    answer = sa.run("SET XACT_ABORT ON; BEGIN TRAN; RAISERROR(N'no', 16, 1); SELECT @@TRANCOUNT; THROW 50001, N'no', 1")
    assert answer.numbers == [50000, 50001]
    assert answer.value == 1
    assert answer.transactions == ["begun", "rolled back"]
    off = sa.run("SET XACT_ABORT OFF; BEGIN TRAN; THROW 50001, N'no', 1; SELECT 1")
    assert off.results == []
    assert sa.ok("SELECT @@TRANCOUNT; ROLLBACK").value == 1


@pytest.mark.parametrize("sum", ["1 / 0", "2147483647 + 1", "CAST(300 AS tinyint)", "CAST(1e300 AS int)"])
def test_without_ansi_warnings_an_error_of_arithmetic_ends_the_batch(sa: User, sum: str) -> None:
    """SET ARITHABORT: "ON and ANSI_WARNINGS OFF ... cause the batch to end", "the transaction is rolled back"."""
    on = sa.run(f"BEGIN TRAN; SELECT {sum}; SELECT @@TRANCOUNT; ROLLBACK")
    assert (len(on.errors), on.results[-1]) == (1, [(1,)])
    off = sa.run(f"SET ANSI_WARNINGS OFF; BEGIN TRAN; SELECT {sum}; SELECT N'after'")
    assert (off.numbers, off.transactions) == (on.numbers, ["begun", "rolled back"])
    assert [("after",)] not in off.results
    caught = sa.ok(f"BEGIN TRAN; BEGIN TRY SELECT {sum} END TRY BEGIN CATCH SELECT XACT_STATE(); ROLLBACK END CATCH")
    assert caught.results[-1] == [(-1,)]


def test_arithabort_is_on_and_stays_so(sa: User) -> None:
    """SET ARITHABORT OFF would give NULL without ANSI_WARNINGS; SET ANSI_DEFAULTS OFF takes ANSI_NULLS off too."""
    for text in ("SET ARITHABORT OFF", "SET ANSI_WARNINGS OFF; SET ARITHABORT OFF", "SET ANSI_DEFAULTS OFF"):
        assert sa.run(text).numbers == [40517]
    assert sa.ok("SET ARITHABORT ON; SELECT @@OPTIONS & 64").value == 64
    assert sa.ok("SET ANSI_DEFAULTS ON; SET IMPLICIT_TRANSACTIONS OFF; SELECT @@OPTIONS & 8").value == 8


def test_a_batch_with_a_compile_error_does_nothing_at_all(sa: User) -> None:
    """A batch is compiled as a whole; only missing tables are found out later (deferred name resolution)."""
    for text in (
        "SELEC 1",
        "SELECT nix FROM dbo.k",
        "SET @nix = 1",
        "DECLARE @a int, @A int",
        "SELECT 1 FROM dbo.k k, dbo.k k",
    ):
        answer = sa.run(f"UPDATE dbo.k SET n = 99; {text}")
        assert len(answer.errors) == 1
    assert sa.ok("SELECT n FROM dbo.k").value == 10
    late = sa.run("UPDATE dbo.k SET n = 99; SELECT * FROM dbo.nowhere; SELECT 1")
    assert (late.numbers, late.results) == ([208], [])
    assert sa.ok("SELECT n FROM dbo.k").value == 99


def test_a_table_made_in_the_batch_is_there_for_the_rest_of_it(sa: User) -> None:
    """Deferred name resolution."""
    assert sa.ok("CREATE TABLE dbo.new (a int); INSERT dbo.new VALUES (5); SELECT a FROM dbo.new").value == 5
    assert sa.ok("CREATE TABLE #t (a int); INSERT #t VALUES (6); SELECT a FROM #t").value == 6
    assert sa.ok("SELECT a + 1 FROM #t").value == 7


def test_errors_tell_their_line(sa: User) -> None:
    """ERROR_LINE is the line of the statement in the batch."""
    answer = sa.run(
        "SELECT 1;\n\nINSERT dbo.k\nVALUES (1, 1);\nBEGIN TRY\n  SELECT 1 / 0;\nEND TRY BEGIN CATCH SELECT"
        " ERROR_LINE() END CATCH"
    )
    assert [(error.number, error.line) for error in answer.errors] == [(2627, 3)]
    assert answer.results[-1] == [(6,)]


# --- TRY and CATCH -----------------------------------------------------------------------------------------


def test_catch_knows_the_error(sa: User) -> None:
    """ERROR_NUMBER and its kin, in the CATCH and in what it calls; NULL outside."""
    answer = sa.ok(
        """
        BEGIN TRY INSERT dbo.k VALUES (2, 2); SELECT 1 / 0; SELECT N'not reached' END TRY
        BEGIN CATCH
            SELECT ERROR_NUMBER(), ERROR_SEVERITY(), ERROR_STATE(), ERROR_MESSAGE(), ERROR_PROCEDURE();
            EXEC (N'SELECT ERROR_NUMBER()');
        END CATCH;
        SELECT ERROR_NUMBER();
        """
    )
    assert answer.results[-3:] == [[(8134, 16, 1, "Divide by zero error encountered.", None)], [(8134,)], [(None,)]]
    assert sa.session.raised == [8134]
    assert sa.ok("SELECT COUNT(*) FROM dbo.k").value == 2


def test_a_missing_table_is_caught_only_by_an_outer_level(sa: User) -> None:
    """TRY...CATCH: errors of statement-level recompilation are caught by the level above, not by their own."""
    answer = sa.run(
        "BEGIN TRY SELECT * FROM dbo.nowhere END TRY BEGIN CATCH SELECT N'caught' END CATCH; SELECT N'after'"
    )
    assert (answer.numbers, answer.results) == ([208], [])
    answer = sa.run("BEGIN TRY EXEC (N'SELECT * FROM dbo.nowhere') END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH")
    assert (answer.numbers, answer.value) == ([], 208)
    answer = sa.run("EXEC (N'SELECT * FROM dbo.nowhere; SELECT N''inside'''); SELECT N'after'")
    assert (answer.numbers, answer.results) == ([208], [[("after",)]])


def test_errors_nest(sa: User) -> None:
    """A CATCH may have a TRY of its own; behind it the outer error is the error again."""
    answer = sa.ok(
        """
        BEGIN TRY THROW 50001, N'outer', 7 END TRY
        BEGIN CATCH
            BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT ERROR_NUMBER() END CATCH;
            SELECT ERROR_NUMBER(), ERROR_STATE();
        END CATCH
        """
    )
    assert answer.results[-2:] == [[(8134,)], [(50001, 7)]]


def test_throw_raises_the_caught_error_again(sa: User) -> None:
    """THROW without arguments: number, severity, state, line and text as they were; outside a CATCH error 10704."""
    answer = sa.run("BEGIN TRY\nINSERT dbo.k VALUES (1, 1)\nEND TRY\nBEGIN CATCH\n  THROW;\nEND CATCH; SELECT 1")
    assert [(error.number, error.severity, error.line) for error in answer.errors] == [(2627, 14, 2)]
    assert answer.results == []
    assert sa.session.raised == [2627, 2627]
    assert sa.run("THROW").numbers == [10704]


def test_an_error_in_a_catch_leaves_it(sa: User) -> None:
    answer = sa.run(
        "BEGIN TRY BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH THROW 50001, N'x', 1 END CATCH END TRY BEGIN"
        " CATCH SELECT ERROR_NUMBER() END CATCH"
    )
    assert answer.results[-1] == [(50001,)]


def test_low_severities_are_messages(sa: User) -> None:
    """RAISERROR with severity 10 or less: no CATCH, no error; PRINT."""
    answer = sa.ok(
        "BEGIN TRY RAISERROR(N'%s is %d%%', 10, 1, N'load', 42); PRINT N'go on' END TRY BEGIN CATCH SELECT 1 END CATCH"
    )
    assert answer.infos == [(50000, "load is 42%"), (0, "go on")]


def test_throw_checks_its_number(sa: User) -> None:
    """Error 35100."""
    assert sa.run("THROW 49999, N'x', 1").numbers == [35100]


def test_conversion_errors_doom_a_transaction_also_without_xact_abort(sa: User) -> None:
    """Errors that end the batch make the transaction uncommittable when they are caught."""
    text = "BEGIN TRAN; BEGIN TRY {} END TRY BEGIN CATCH SELECT XACT_STATE(); ROLLBACK END CATCH"
    assert sa.ok(text.format("DECLARE @i int = CAST(N'x' AS int)")).value == -1
    assert sa.ok(text.format("INSERT dbo.k VALUES (1, 1)")).value == 1
    assert sa.ok("SET XACT_ABORT ON; " + text.format("INSERT dbo.k VALUES (1, 1)")).value == -1


# --- counters -----------------------------------------------------------------------------------------------


def test_error_number_of_the_last_statement(sa: User) -> None:
    """@@ERROR: cleared by every statement."""
    answer = sa.run("INSERT dbo.k VALUES (1, 1); SELECT @@ERROR; SELECT @@ERROR")
    assert answer.results == [[(2627,)], [(0,)]]
    assert sa.ok("BEGIN TRY SELECT 1 / 0 END TRY BEGIN CATCH SELECT @@ERROR END CATCH").results[-1] == [(8134,)]


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("SELECT 1 UNION SELECT 2", 2),
        ("UPDATE dbo.k SET n = 1 WHERE id = 9", 0),
        ("DECLARE @i int; SET @i = 5", 1),
        ("DECLARE @i int; SELECT @i = id FROM (VALUES (1), (2)) v (id)", 2),
        ("SELECT 1; SET NOCOUNT ON", 0),
        ("SELECT 1; PRINT N'x'", 0),
        ("SELECT 1; BEGIN TRAN; COMMIT", 0),
        ("SELECT 1; IF 1 = 1 PRINT N'x'", 0),
        ("EXEC (N'SELECT 1 UNION SELECT 2')", 2),
        ("DECLARE @t TABLE (a int); INSERT @t VALUES (1), (2), (3); EXEC sp_executesql N'DECLARE @x int'", 3),
    ],
)
def test_row_count_of_the_last_statement(sa: User, text: str, count: int) -> None:
    """@@ROWCOUNT: by statement; assignments are 1; EXECUTE keeps what was inside. ROWCOUNT_BIG: the same as bigint."""
    assert sa.ok(f"{text}; SELECT @@ROWCOUNT, ROWCOUNT_BIG()").results[-1] == [(count, count)]


def test_nocount_hides_counts_but_not_row_count(sa: User) -> None:
    """SET NOCOUNT ON."""
    answer = sa.ok("SET NOCOUNT ON; UPDATE dbo.k SET n = 1; SELECT @@ROWCOUNT")
    assert answer.counts == [None, 1]
    assert answer.value == 1


# --- control of flow -----------------------------------------------------------------------------------------


def test_while_break_continue_return(sa: User) -> None:
    answer = sa.ok(
        """
        DECLARE @i int = 0, @out nvarchar(20) = N'';
        WHILE @i < 10
        BEGIN
            SET @i += 1;
            IF @i = 2 CONTINUE;
            IF @i > 4 BREAK ELSE SET @out += CAST(@i AS nvarchar(2));
        END;
        SELECT @i, @out;
        RETURN;
        SELECT N'not reached';
        """
    )
    assert answer.results == [[(5, "134")]]


def test_an_unknown_condition_takes_the_else(sa: User) -> None:
    """IF...ELSE: NULL is not true."""
    assert sa.ok("IF NULL = NULL SELECT 1 ELSE SELECT 2").value == 2


def test_a_condition_that_fails_takes_no_branch(sa: User) -> None:
    answer = sa.run("IF 1 / 0 = 1 SELECT N'then' ELSE SELECT N'else'; WHILE 1 / 0 = 1 SELECT N'loop'; SELECT N'after'")
    assert answer.numbers == [8134, 8134]
    assert answer.results == [[("after",)]]


def test_a_declaration_holds_for_the_rest_of_the_batch_whatever_the_flow(sa: User) -> None:
    """DECLARE: scope is the batch; a variable is NULL before it is set."""
    assert sa.ok("IF 1 = 0 BEGIN DECLARE @x int = 5 END; SELECT @x").value is None
    assert sa.run("SELECT @x; DECLARE @x int").numbers == [137]


def test_waitfor_counts_on_the_servers_clock() -> None:
    """WAITFOR DELAY."""
    desk = Desk()
    task, answer = desk.sa.start("WAITFOR DELAY '00:00:02.500'; SELECT 1")
    desk.advance(2.4)
    assert not task.done
    desk.advance(0.1)
    desk.settle(task)
    assert answer.value == 1


def test_time_stands_still_in_a_statement_and_moves_between_them() -> None:
    """SYSUTCDATETIME is a run-time constant of its statement."""
    desk = Desk()
    desk.engine.clock.thaw()
    text = "SELECT COUNT(DISTINCT SYSUTCDATETIME()) FROM (VALUES (1), (2), (3)) v (a)"
    assert desk.sa.ok(text).value == 1
    first, second = desk.sa.ok("SELECT SYSUTCDATETIME(); WAITFOR DELAY '00:00:00.010'; SELECT SYSUTCDATETIME()").results
    assert first < second


@pytest.mark.parametrize(
    "text",
    [
        "BACKUP DATABASE app TO DISK = N'x'",
        "SELECT * INTO x FROM dbo.k",
        "SET STATISTICS IO ON",
        "SET FMTONLY ON",
        "SELECT @@NESTLEVEL",
    ],
)
def test_what_is_not_supported_is_refused_by_name(sa: User, text: str) -> None:
    assert sa.run(text).numbers == [40517]


# --- messages of a statement's own --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("N'%s %d.', 16, 1, N'number', 5", "number 5."),
        ("N'<<%7.3s>>', 16, 1, N'abcde'", "<<    abc>>"),
        ("N'<%-7s>', 16, 1, 'ab'", "<ab     >"),
        ("N'%i|%5d|%-5d|%05d|%.3d', 16, 1, 1, 2, 3, 4, 5", "1|    2|3    |00004|005"),
        ("N'%+d|% d', 16, 1, 1, 2", "+1| 2"),
        ("N'%u %x %X %o', 16, 1, -1, 255, 255, 8", "4294967295 ff FF 10"),
        ("N'%I64d', 16, 1, 5", "5"),
        ("N'%d%%', 16, 1, 42", "42%"),
        ("N'%s', 16, 1, NULL", "(null)"),
    ],
)
def test_raiserror_fills_in_its_arguments(sa: User, arguments: str, message: str) -> None:
    """RAISERROR (Transact-SQL): conversion specifications."""
    assert [str(error) for error in sa.run(f"RAISERROR({arguments})").errors] == [message]


def test_raiserror_shows_a_bigint(sa: User) -> None:
    """RAISERROR (Transact-SQL): specify %I64d."""
    answer = sa.run("DECLARE @n bigint = 9223372036854775807; RAISERROR(N'%I64d', 16, 1, @n)")
    assert [str(error) for error in answer.errors] == ["9223372036854775807"]


@pytest.mark.parametrize(
    ("arguments", "number"),
    [
        ("N'%d', 16, 1, 'a'", 2786),
        ("N'%s', 16, 1, 5", 2786),
        ("N'%d', 16, 1, @big", 2786),
        ("N'%s', 16, 1, @when", 2748),
        ("N'x'" + ", 1" * 23, 2747),
        *(
            (f"N'{text}', 16, 1, 5, 5, 5", 40517)
            for text in ("%*d", "%c", "%#x", "%hd", "%", "%99999d", "%.d", "%1.2.3d")
        ),
        ("N'%s', 16, 1, 0x41", 40517),
    ],
)
def test_raiserror_checks_its_arguments(sa: User, arguments: str, number: int) -> None:
    """RAISERROR (Transact-SQL), "argument"; sys.messages: 2747, 2748, 2786. The rest is refused by name."""
    answer = sa.run(f"DECLARE @big bigint = 5, @when date = '2024-01-01'; RAISERROR({arguments})")
    assert answer.numbers == [number]


def test_a_message_of_raiserror_is_cut(sa: User) -> None:
    """RAISERROR (Transact-SQL): of 2,048 characters or more only the first 2,044, and an ellipsis."""
    for severity in (10, 16):
        for length, shown in ((2047, "x" * 2047), (2048, "x" * 2044 + "..."), (100_000, "x" * 2044 + "...")):
            answer = sa.run(
                f"DECLARE @m nvarchar(max) = REPLICATE(CAST(N'x' AS nvarchar(max)), {length});"
                f" RAISERROR(@m, {severity}, 1)"
            )
            assert [str(error) for error in answer.errors] + [text for _, text in answer.infos] == [shown]


def test_raiserror_and_throw_check_their_state(sa: User) -> None:
    """RAISERROR: 0 to 255, negative values default to 1, larger ones should not be used. THROW: 0 to 255."""
    for state, shown in ((0, 0), (255, 255), (-1, 1), (-2147483648, 1)):
        assert [error.state for error in sa.run(f"RAISERROR(N'x', 16, {state})").errors] == [shown]
    assert sa.run("RAISERROR(N'x', 16, 256)").numbers == [40517]
    assert [error.state for error in sa.run("THROW 50000, N'x', 255").errors] == [255]
    for text in ("THROW 50000, N'x', 256", "THROW 50000, N'x', -1", "THROW 50000, N'x', NULL"):
        assert sa.run(text).numbers == [40517]


LONG = "DECLARE @m nvarchar(max) = REPLICATE(CAST(N'9' AS nvarchar(max)), 100000);"


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("RAISERROR(N'x', 16, -5)", [50000]),
        (f"{LONG} RAISERROR(@m, 16, 1)", [50000]),
        (f"{LONG} SELECT CAST(@m AS int)", [248]),
        (f"{LONG} SELECT CAST(@m + N'x' AS int)", [245]),
        (f"{LONG} SELECT CAST(@m AS bit)", []),
        (f"{LONG} SELECT CAST(@m AS float)", [8115]),
        ("'" + "x" * 100_000, [105]),
        ("SELECT " + "1 + " * 5000 + "1", [191]),
        ("SELECT 1 " + "UNION ALL SELECT 1 " * 3000, [191]),
        ("SELECT * FROM (VALUES (1, 2), (3)) v (a)", [10709]),
        ("SELECT * FROM (VALUES (1, 2)) v (a)", [8158]),
        ("SELECT * FROM (VALUES (1)) v (a, b)", [8159]),
        ("SELECT REPLICATE(CAST('x' AS varchar(max)), 2147483647)", [40517]),
        ("SELECT REPLICATE('x', 2147483647)", []),
        ("SELECT ROUND(1e308, -308), ABS(CAST(1 AS bit))", []),
        ("SELECT 1 ORDER BY 1 OFFSET 9223372036854775807 ROWS FETCH NEXT 9223372036854775807 ROWS ONLY", []),
        ("SET ROWCOUNT -1", [40517]),
        ("SET LOCK_TIMEOUT 2147483648", [40517]),
        ("SET LOCK_TIMEOUT -2", [40517]),
        ("WAITFOR DELAY '24:00'", [148]),
        ("BEGIN TRAN @nix", [137]),
        ("ROLLBACK TRAN @nix", [137]),
        ("SAVE TRAN @nix", [137]),
        ("EXEC sp_prepare", [201]),
        ("EXEC sp_execute", [201]),
        ("EXEC sp_prepexec", [201]),
        ("EXEC sp_unprepare", [201]),
    ],
)
def test_no_statement_makes_the_engine_fail(sa: User, text: str, numbers: list[int]) -> None:
    """Whatever a client sends, an error with a number answers it, and the wire can carry that."""
    assert sa.run(text).numbers == numbers
    answer = WireAnswer()
    answer.begin(procedure=False)
    sa.session.run_batch(text, answer)
    answer.end()
    assert not answer.fatal
