"""Faults on demand, as drivers meet them. The SQLSTATEs are what each driver was measured to make of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.faults import Faults
from sqllease.testing.server.requestlog import Request
from tests.drivers import Driver

INSERT = "INSERT dbo.T VALUES (1)"
BROKEN = {"ms": "08S01", "freetds": "01000"}


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    with LocalSqlServer(tls=False) as server:
        server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
        yield server


@pytest.fixture
def connection(server: LocalSqlServer, driver: Driver) -> Iterator[pyodbc.Connection]:
    connection = connect(server, driver)
    yield connection
    connection.close()


def connect(server: LocalSqlServer, driver: Driver) -> pyodbc.Connection:
    return pyodbc.connect(server.connection_string(driver.odbc), autocommit=True, timeout=5)


def count(server: LocalSqlServer) -> object:
    return server.execute("SELECT COUNT(*) FROM dbo.T WITH (READUNCOMMITTED)")[0][0]


@pytest.mark.parametrize(("when", "inserted"), [("before", 0), ("after", 1), ("middle", 1)])
def test_a_dropped_link_has_executed_or_not(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver, when: str, inserted: int
) -> None:
    server.faults.drop(when)
    with pytest.raises(pyodbc.Error) as caught:
        connection.execute(f"{INSERT}; SELECT n FROM dbo.T").nextset()
    assert caught.value.args[0] == BROKEN[driver.id]
    with pytest.raises(pyodbc.Error) as caught:
        connection.execute("SELECT 1")
    assert caught.value.args[0] == "08S01"
    assert (count(server), server.connections) == (inserted, 0)


def test_a_link_dropped_after_execution_does_not_commit_an_open_transaction(
    server: LocalSqlServer, driver: Driver
) -> None:
    connection = pyodbc.connect(server.connection_string(driver.odbc), timeout=5)
    server.faults.drop("after", matching="INSERT")
    with pytest.raises(pyodbc.Error):
        connection.execute(INSERT)
    server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    assert count(server) == 0
    connection.close()


def test_a_commit_may_be_done_though_its_answer_is_lost(server: LocalSqlServer, driver: Driver) -> None:
    connection = pyodbc.connect(server.connection_string(driver.odbc), timeout=5)
    connection.execute(INSERT)
    server.faults.drop("after", matching=lambda request: request.kind == "commit")
    with pytest.raises(pyodbc.Error):
        connection.commit()
    assert count(server) == 1
    connection.close()


def test_a_link_dropped_in_login_is_an_error_of_the_link(server: LocalSqlServer, driver: Driver) -> None:
    server.faults.drop("login")
    with pytest.raises(pyodbc.OperationalError) as caught:
        connect(server, driver)
    assert caught.value.args[0] == {"ms": "08S01", "freetds": "08001"}[driver.id]
    connect(server, driver).close()


@pytest.mark.parametrize("number", [18456, 4060, 40613, 18487])
def test_logins_are_refused_as_often_as_asked(server: LocalSqlServer, driver: Driver, number: int) -> None:
    server.faults.refuse_login(number, times=2)
    shown = 18456 if (number, driver.id) == (4060, "freetds") else number  # it is followed by 18456
    for _ in range(2):
        with pytest.raises(pyodbc.Error, match=rf"\({shown}\)"):
            connect(server, driver)
    connect(server, driver).close()
    assert server.log.logins == 3
    assert server.log.errors == ([4060, 18456] if number == 4060 else [number]) * 2


def test_an_error_strikes_after_the_requests_skipped_and_as_often_as_asked(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    server.faults.error(1222, "Lock request time out period exceeded.", times=2, skip=1)
    struck = []
    for _ in range(4):
        try:
            connection.execute("SELECT 1").fetchall()
            struck.append(0)
        except pyodbc.Error as error:
            struck.append(1222 if "(1222)" in error.args[1] else -1)
    assert struck == [0, 1222, 1222, 0]
    assert server.log.errors == [1222, 1222]


def test_an_error_on_demand_is_instead_of_execution(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    server.faults.error(50001)
    with pytest.raises(pyodbc.ProgrammingError):
        connection.execute(INSERT)
    assert count(server) == 0


@pytest.mark.parametrize(("number", "trancount"), [(1205, 0), (1222, 1)])
def test_a_deadlock_on_demand_rolls_the_transaction_back_and_a_lock_timeout_does_not(
    server: LocalSqlServer, connection: pyodbc.Connection, number: int, trancount: int
) -> None:
    """Microsoft, "MSSQLSERVER_1205" and "SET LOCK_TIMEOUT"."""
    connection.execute(f"BEGIN TRANSACTION; {INSERT}")
    server.faults.error(number)
    with pytest.raises(pyodbc.Error):
        connection.execute("SELECT 1")
    assert connection.execute("SELECT @@TRANCOUNT").fetchval() == trancount
    assert count(server) == trancount


def test_a_fault_with_a_text_strikes_only_requests_with_it(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    server.faults.error(50001, matching="dbo.T")
    assert connection.execute("SELECT 1").fetchval() == 1
    with pytest.raises(pyodbc.ProgrammingError):
        connection.execute("SELECT n FROM dbo.T WHERE n = ?", 1)


def test_faults_pass_over_what_drivers_ask_for_themselves() -> None:
    """A driver asks for types once per process: a fault that struck there would hit another request in the next run."""
    faults = Faults()
    faults.error(50001)
    own = [
        Request("rpc", procedure="sp_datatype_info_100"),
        Request("rpc", procedure="sp_unprepare"),
        Request("rpc", procedure="sp_describe_undeclared_parameters", text="SELECT ?"),
        Request("batch", text="sp_datatype_info_100 12,3"),
    ]
    assert [faults.take("before", [request]) for request in own] == [None] * 4
    assert faults.take("before", [Request("batch", text="SELECT 1")]) is not None
    faults.error(50001, matching=lambda request: request.procedure == "sp_unprepare")
    assert faults.take("before", [own[1]]) is not None


def test_cleared_faults_do_not_strike(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    server.faults.error(50001)
    server.faults.clear()
    assert connection.execute("SELECT 1").fetchval() == 1


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delay_is_time_on_the_server_s_clock(
    server: LocalSqlServer, connection: pyodbc.Connection, when: str
) -> None:
    server.faults.delay(3600, when)
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(connection.execute(INSERT).rowcount))
    thread.start()
    server.log.wait_for(lambda request: request.text == INSERT and request.finished is (when == "after"))
    server.clock.advance(1800)
    assert count(server) == (1 if when == "after" else 0)
    assert answers == []
    server.clock.advance(1801)
    thread.join(10)
    assert (answers, count(server)) == ([1], 1)


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_delay_counts_from_what_the_log_shows(
    server: LocalSqlServer, connection: pyodbc.Connection, when: str
) -> None:
    """However late the delay begins: who saw the request in the log may have moved the clock meanwhile."""

    def moves_the_clock(request: Request) -> bool:
        server.clock.advance(3600)
        return request.text == INSERT

    server.faults.delay(3600, when, matching=moves_the_clock)
    connection.timeout = 10
    assert connection.execute(INSERT).rowcount == 1


@pytest.mark.parametrize(("when", "inserted"), [("before", 0), ("after", 1)])
def test_a_timeout_ends_a_delay_and_the_request_has_executed_or_not(
    server: LocalSqlServer, connection: pyodbc.Connection, when: str, inserted: int
) -> None:
    connection.timeout = 1
    server.faults.delay(3600, when)
    with pytest.raises(pyodbc.OperationalError) as caught:
        connection.execute(INSERT)
    assert caught.value.args[0] == "HYT00"
    assert connection.execute("SELECT 1").fetchval() == 1
    assert count(server) == inserted


@pytest.mark.parametrize(("when", "inserted"), [("before", 0), ("after", 1)])
def test_a_silent_link_stays_open_and_answers_nothing(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver, when: str, inserted: int
) -> None:
    """Not even the attention: the drivers give up after two or three times their timeout, FreeTDS hangs up as well."""
    connection.timeout = 1
    server.faults.silence(when)
    with pytest.raises(pyodbc.OperationalError) as caught:
        connection.execute(INSERT)
    assert caught.value.args[0] == "HYT00"
    if driver.id == "freetds":
        server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    assert (count(server), server.connections) == (inserted, 1 if driver.id == "ms" else 0)


def test_a_request_held_back_executes_when_released(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    hold = server.faults.hold(matching="INSERT")
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(connection.execute(INSERT).rowcount))
    thread.start()
    assert hold.held.wait(10)
    assert (count(server), answers) == (0, [])
    hold.release()
    thread.join(10)
    assert (count(server), answers) == (1, [1])


def test_a_request_held_back_executes_even_when_its_client_has_gone(server: LocalSqlServer, driver: Driver) -> None:
    """The delayed message of a process that died. In a process of its own, which is killed."""
    hold = server.faults.hold(matching="INSERT")
    child = f"import sys, pyodbc; pyodbc.connect(sys.argv[1], autocommit=True, timeout=5).execute({INSERT!r})"
    process = subprocess.Popen([sys.executable, "-c", child, server.connection_string(driver.odbc)])
    assert hold.held.wait(20)
    process.kill()
    process.wait()
    server.log.wait_for(lambda request: request.kind == "close")
    assert (count(server), server.connections) == (0, 0)
    hold.release()
    server.log.wait_for(lambda request: request.text == INSERT and request.finished)
    assert count(server) == 1


def test_a_held_request_that_is_cancelled_is_never_executed(
    server: LocalSqlServer, connection: pyodbc.Connection, driver: Driver
) -> None:
    hold = server.faults.hold(matching="INSERT")

    def cancel() -> None:
        assert hold.held.wait(10)
        hold.cancel()

    threading.Thread(target=cancel).start()
    with pytest.raises(pyodbc.Error) as caught:
        connection.execute(INSERT)
    assert caught.value.args[0] == BROKEN[driver.id]
    assert count(server) == 0


def test_an_answer_held_back_has_been_executed(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    hold = server.faults.hold("after", matching="INSERT")
    answers: list[object] = []
    thread = threading.Thread(target=lambda: answers.append(connection.execute(INSERT).rowcount))
    thread.start()
    assert hold.held.wait(10)
    assert (count(server), answers) == (1, [])
    hold.release()
    thread.join(10)
    assert answers == [1]


def test_a_hold_released_early_holds_nothing_back(server: LocalSqlServer, connection: pyodbc.Connection) -> None:
    server.faults.hold().release()
    assert connection.execute("SELECT 1").fetchval() == 1


def test_all_links_can_be_dropped_at_once(server: LocalSqlServer, driver: Driver) -> None:
    connections = [connect(server, driver) for _ in range(3)]
    connections[0].execute(f"BEGIN TRANSACTION; {INSERT}")
    server.drop_links()
    assert (server.connections, count(server)) == (0, 0)
    for connection in connections:
        with pytest.raises(pyodbc.Error):
            connection.execute("SELECT 1")
        connection.close()


def test_a_server_that_stops_lets_go_of_what_is_held_or_waits(driver: Driver) -> None:
    failed: list[str] = []

    def run(connection: pyodbc.Connection, text: str) -> None:
        try:
            connection.execute(text)
        except pyodbc.Error as error:
            failed.append(error.args[0])

    with LocalSqlServer(tls=False) as server:
        hold = server.faults.hold(matching="SELECT 7")
        connections = [connect(server, driver), connect(server, driver)]
        texts = ["SELECT 7", "WAITFOR DELAY '01:00:00'"]
        threads = [threading.Thread(target=run, args=pair) for pair in zip(connections, texts, strict=True)]
        for thread in threads:
            thread.start()
        assert hold.held.wait(10)
        server.log.wait_for(lambda request: request.text.startswith("WAITFOR"))
    for thread in threads:
        thread.join(10)
    assert failed == [BROKEN[driver.id]] * 2


def test_a_point_where_a_fault_cannot_strike_is_refused() -> None:
    with pytest.raises(ValueError, match="'during'"):
        Faults().drop("during")


FORK = """
import os, signal, socket
from sqllease.testing import LocalSqlServer
server = LocalSqlServer().start()
link = socket.create_connection(("127.0.0.1", server.port), timeout=10)
link.sendall(bytes.fromhex("12 01 000f 0000 01 00 01 0006 0001 ff 00"))
answer = link.recv(1000)
child = os.fork()
if child == 0:
    signal.pause()
try:
    server.drop_links()
    print(len(answer), len(link.recv(1000)))
    server.stop()
    socket.create_connection(("127.0.0.1", server.port), timeout=10)
except ConnectionRefusedError:
    print("closed")
finally:
    os.kill(child, signal.SIGKILL)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_links_and_port_close_even_where_a_forked_child_has_inherited_them() -> None:
    child = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORK], capture_output=True, text=True, timeout=30, check=True
    )
    assert child.stdout.split() == ["26", "0", "closed"]


def test_the_log_waits_for_what_comes_and_says_when_it_does_not(
    server: LocalSqlServer, connection: pyodbc.Connection
) -> None:
    server.log.clear()
    threading.Timer(0.1, lambda: connection.execute("SELECT 7")).start()
    assert server.log.wait_for(lambda request: request.finished).text == "SELECT 7"
    with pytest.raises(TimeoutError, match=r"0\.05 s"):
        server.log.wait_for(lambda request: request.text == "SELECT 8", timeout=0.05)
