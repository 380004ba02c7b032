"""The wire as drivers see it: result sets, errors, transactions, time-outs.

Right values: MS-TDS (section numbers below), and what both drivers were measured to do.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver


@pytest.fixture
def connection(server: LocalSqlServer, driver: Driver) -> Iterator[pyodbc.Connection]:
    connection = pyodbc.connect(server.connection_string(driver.odbc), autocommit=True, timeout=5)
    yield connection
    connection.close()


def rows_of(cursor: pyodbc.Cursor) -> list[list[tuple[Any, ...]] | int]:
    """All results of an execute: the rows of each row set, the count of each other statement."""
    results: list[list[tuple[Any, ...]] | int] = []
    while True:
        results.append([tuple(row) for row in cursor.fetchall()] if cursor.description else cursor.rowcount)
        if not cursor.nextset():
            return results


def many_rows(server: LocalSqlServer) -> None:
    server.execute("CREATE TABLE dbo.Many (n int NOT NULL PRIMARY KEY, text nvarchar(100) NOT NULL)")
    rows = ", ".join(f"({n}, N'{'x' * (n % 100)}')" for n in range(1000))
    server.execute(f"INSERT dbo.Many (n, text) VALUES {rows}")


def test_an_answer_of_many_packets_arrives_whole(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    many_rows(server)
    rows = connection.execute("SELECT n, text FROM dbo.Many ORDER BY n").fetchall()
    assert [tuple(row) for row in rows] == [(n, "x" * (n % 100)) for n in range(1000)]


def test_results_come_in_the_order_of_their_statements(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    """2.2.7.6: a DONE with a count for each statement, and a row set that may be empty."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    cursor = connection.execute(
        "INSERT dbo.T VALUES (1), (2); SELECT n FROM dbo.T ORDER BY n; "
        "DELETE dbo.T; SELECT n FROM dbo.T; SELECT N'z' AS z"
    )
    assert rows_of(cursor) == [2, [(1,), (2,)], 2, [], [("z",)]]


@pytest.mark.parametrize("parameters", [(), (1,)], ids=["batch", "procedure call"])
def test_under_nocount_the_first_result_is_the_row_set(
    server: LocalSqlServer, connection: pyodbc.Connection, parameters: tuple[int, ...]
) -> None:
    """Microsoft, "SET NOCOUNT": the counts of statements are not sent."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    values = "(?)" if parameters else "(1)"
    cursor = connection.execute(
        f"SET NOCOUNT ON; INSERT dbo.T VALUES {values}; DELETE dbo.T; SELECT @@ROWCOUNT AS n", *parameters
    )
    assert rows_of(cursor) == [[(1,)]]


def test_a_count_is_the_number_of_rows_changed(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    assert connection.execute("INSERT dbo.T VALUES (?), (2)", 1).rowcount == 2
    assert connection.execute("DELETE dbo.T WHERE n = ?", 7).rowcount == 0


def test_print_arrives_as_a_message(connection: pyodbc.Connection) -> None:
    cursor = connection.execute("PRINT N'hello'")
    assert [text.rpartition("]")[2] for _, text in cursor.messages] == ["hello"]


SQLSTATES = {
    # number: (severity, class and SQLSTATE with Microsoft's driver, the same with FreeTDS)
    1205: (13, pyodbc.Error, "40001", pyodbc.ProgrammingError, "42000"),
    1222: (16, pyodbc.ProgrammingError, "42000", pyodbc.ProgrammingError, "42000"),
    229: (14, pyodbc.ProgrammingError, "42000", pyodbc.ProgrammingError, "42000"),
    208: (16, pyodbc.ProgrammingError, "42S02", pyodbc.ProgrammingError, "42S02"),
    2714: (16, pyodbc.ProgrammingError, "42S01", pyodbc.ProgrammingError, "42S01"),
    3906: (16, pyodbc.ProgrammingError, "25000", pyodbc.ProgrammingError, "25000"),
    2627: (14, pyodbc.IntegrityError, "23000", pyodbc.IntegrityError, "23000"),
    2601: (14, pyodbc.IntegrityError, "23000", pyodbc.IntegrityError, "23000"),
    8152: (16, pyodbc.DataError, "22001", pyodbc.DataError, "22001"),
    50000: (16, pyodbc.ProgrammingError, "42000", pyodbc.ProgrammingError, "42000"),
}


@pytest.mark.parametrize("number", SQLSTATES)
@pytest.mark.parametrize("parameters", [(), (1,)], ids=["batch", "procedure call"])
def test_an_error_has_its_number_and_the_sqlstate_that_the_driver_gives_it(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver, number: int, parameters: tuple[int, ...]
) -> None:
    severity, *expected = SQLSTATES[number]
    server.faults.error(number, "No.", severity=severity)
    with pytest.raises(pyodbc.Error) as caught:
        connection.execute("SELECT ?" if parameters else "SELECT 1", *parameters)
    kind, state = expected[:2] if driver.id == "ms" else expected[2:]
    assert (type(caught.value), caught.value.args[0]) == (kind, state)
    assert f"({number})" in caught.value.args[1]
    assert connection.execute("SELECT 1").fetchval() == 1


def test_the_engine_s_own_errors_arrive_with_text_and_number(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    with pytest.raises(pyodbc.ProgrammingError, match=r"Invalid object name 'dbo.Missing'\. \(208\)"):
        connection.execute("SELECT n FROM dbo.Missing")
    assert server.log.errors == [208]


def test_an_error_behind_a_row_set_comes_when_the_client_asks_for_more(connection: pyodbc.Connection) -> None:
    cursor = connection.execute("SELECT 1 AS n; THROW 51000, 'Too late.', 1")
    assert cursor.fetchall()[0][0] == 1
    with pytest.raises(pyodbc.ProgrammingError, match=r"Too late\. \(51000\)"):
        cursor.nextset()


def test_an_error_that_t_sql_caught_is_in_the_log_and_not_on_the_wire(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    cursor = connection.execute(
        "BEGIN TRY THROW 51000, 'Caught.', 1 END TRY BEGIN CATCH SELECT ERROR_NUMBER() AS n END CATCH"
    )
    assert cursor.fetchval() == 51000
    assert server.log.requests[-1].errors == [51000]


def test_an_error_of_severity_20_ends_the_link(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    """Microsoft, "Database Engine error severities"."""
    server.faults.error(596, "Cannot continue the execution because the session is in the kill state.", severity=21)
    with pytest.raises(pyodbc.Error, match=r"\(596\)"):
        connection.execute("SELECT 1")
    server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    with pytest.raises(pyodbc.Error):
        connection.execute("SELECT 1")


def test_a_statement_with_parameters_is_one_round_trip(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver
) -> None:
    """FreeTDS gives the earlier handle back first, in a round trip of its own."""
    cursor = connection.cursor()
    cursor.execute("SELECT ?", 1).fetchall()
    server.log.clear()
    cursor.execute("SELECT ?", 2).fetchall()
    calls = [request.procedure for request in server.log.requests]
    assert calls == (["sp_prepexec"] if driver.id == "ms" else ["sp_unprepare", "sp_prepexec"])
    assert server.log.round_trips == len(calls)


def test_a_manual_commit_connection_always_has_a_transaction(server: LocalSqlServer, driver: Driver) -> None:
    """2.2.6.9: the driver begins one at connect, and has each commit and rollback begin the next one."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    connection = pyodbc.connect(server.connection_string(driver.odbc), timeout=5)
    server.log.clear()
    connection.execute("INSERT dbo.T VALUES (1)")
    connection.commit()
    assert connection.execute("SELECT @@TRANCOUNT").fetchval() == 1
    connection.execute("INSERT dbo.T VALUES (2)")
    connection.rollback()
    assert connection.execute("SELECT @@TRANCOUNT").fetchval() == 1
    connection.execute("INSERT dbo.T VALUES (3)")
    connection.close()
    server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    kinds = [request.kind for request in server.log.requests if request.kind not in ("batch", "attention", "prelogin")]
    assert kinds == ["commit", "rollback", "rollback", "close"]
    assert server.execute("SELECT n FROM dbo.T") == [(1,)]


def test_a_transaction_of_t_sql_is_known_to_the_driver(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    """2.2.7.9: ENVCHANGE 8, 9 and 10 tell the client of it; it sends the descriptor with every request."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    connection.execute("BEGIN TRANSACTION; INSERT dbo.T VALUES (1)")
    connection.execute("INSERT dbo.T VALUES (?)", 2)
    assert connection.execute("SELECT @@TRANCOUNT").fetchval() == 1
    connection.execute("ROLLBACK")
    assert connection.execute("SELECT COUNT(*) FROM dbo.T").fetchval() == 0


def test_a_link_that_ends_rolls_back_and_frees_its_locks(server: LocalSqlServer, driver: Driver) -> None:
    connection = pyodbc.connect(server.connection_string(driver.odbc), autocommit=True, timeout=5)
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    connection.execute("BEGIN TRANSACTION; INSERT dbo.T VALUES (1)")
    connection.close()
    server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    assert server.execute("SELECT COUNT(*) FROM dbo.T") == [(0,)]
    assert server.connections == 0


@pytest.mark.parametrize("parameters", [(), (1,)], ids=["batch", "procedure call"])
def test_a_query_timeout_is_an_attention_and_leaves_the_connection_usable(
    server: LocalSqlServer, connection: pyodbc.Connection, parameters: tuple[int, ...]
) -> None:
    """2.2.1.7: the server answers an attention with DONE and the attention bit."""
    connection.timeout = 1
    cursor = connection.cursor()
    select = "SELECT ?" if parameters else "SELECT 1"
    with pytest.raises(pyodbc.OperationalError) as caught:
        cursor.execute(f"WAITFOR DELAY '01:00:00'; {select}", *parameters)
    assert caught.value.args[0] == "HYT00"
    assert "attention" in [request.kind for request in server.log.requests]
    assert cursor.execute("SELECT 5").fetchval() == 5


def test_a_statement_cut_short_by_a_timeout_changes_nothing(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver
) -> None:
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    connection.execute("BEGIN TRANSACTION; INSERT dbo.T VALUES (1)")
    other = pyodbc.connect(server.connection_string(driver.odbc), autocommit=True, timeout=5)
    other.timeout = 1
    with pytest.raises(pyodbc.OperationalError):
        other.execute("INSERT dbo.T VALUES (0), (1)")
    connection.execute("ROLLBACK")
    assert other.execute("SELECT COUNT(*) FROM dbo.T").fetchval() == 0
    other.close()


def test_rows_left_unread_do_not_disturb_the_next_statement(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    """An attention that comes after the whole answer is acknowledged all the same (3.3.5.9)."""
    many_rows(server)
    cursor = connection.execute("SELECT n, text FROM dbo.Many ORDER BY n")
    assert cursor.fetchone()[0] == 0
    assert cursor.execute("SELECT 5").fetchval() == 5


CANCEL = """
import sys, threading
import pyodbc
cursor = pyodbc.connect(sys.argv[1], autocommit=True, timeout=5).cursor()
canceller = threading.Timer(0.3, cursor.cancel)
canceller.start()
try:
    cursor.execute("WAITFOR DELAY '01:00:00'")
    outcome = "returned"
except pyodbc.Error as error:
    outcome = error.args[0]
canceller.join()  # the statement may end before the cancel has returned, and the driver manager bears no call beside it
print(outcome, cursor.execute("SELECT 5").fetchval())
"""


def test_a_cancel_from_another_thread_ends_the_statement(server: LocalSqlServer, driver: Driver) -> None:
    """In a process of its own: drivers have been seen to crash here. Microsoft's driver returns as if nothing was."""
    command = [sys.executable, "-c", CANCEL, server.connection_string(driver.odbc)]
    child = subprocess.run(command, capture_output=True, text=True, timeout=30, check=True)
    assert child.stdout.split() == ["returned" if driver.id == "ms" else "HY008", "5"]
    assert "attention" in [request.kind for request in server.log.requests]
