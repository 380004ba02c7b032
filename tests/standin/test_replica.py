"""The second node: a readable secondary that follows the primary's log, and read-only routing to it.

Right values: Microsoft's "Offload read-only workload to secondary replica of an Always On availability group" (snapshot
isolation, hints ignored), "DATABASEPROPERTYEX", error 3906, "Configure read-only routing for an Always On availability
group", MS-TDS 2.2.7.9 (ENVCHANGE 20), and "rowversion". The lag counts on the primary's clock, which stands still here.
"""

from __future__ import annotations

import struct
import threading
from collections.abc import Iterator

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.endpoint import Endpoint
from sqllease.testing.server.sqltypes import SqlError
from tests.drivers import Driver
from tests.standin.rawclient import LOGIN, PLAIN_PRELOGIN, PRELOGIN, RawClient, login7

TABLE = """
    CREATE TABLE dbo.t (id int NOT NULL PRIMARY KEY, n int NOT NULL, v rowversion);
    INSERT dbo.t VALUES (1, 10, DEFAULT)
"""
PROPERTY = """
    EXEC sp_addextendedproperty @name = N'p', @value = N'1', @level0type = N'SCHEMA', @level0name = N'dbo',
        @level1type = N'TABLE', @level1name = N't'
"""
ROLE = "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(20))"
ROWS = "SELECT id, n FROM dbo.t ORDER BY id"
READ_ONLY_INTENT = 0x20


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    """Without TLS: FreeTDS 1.3.17, once routed, speaks to the new server through the TLS session of the old one."""
    with LocalSqlServer(tls=False, replica=True) as started:
        started.clock.freeze()
        started.execute(TABLE)
        yield started


def connect(endpoint: Endpoint, driver: Driver, *, autocommit: bool = True, **keywords: str) -> pyodbc.Connection:
    return pyodbc.connect(endpoint.connection_string(driver.odbc, **keywords), autocommit=autocommit, timeout=5)


def role(connection: pyodbc.Connection) -> object:
    return connection.execute(ROLE).fetchval()


def rows(connection: pyodbc.Connection) -> list[tuple[int, int]]:
    return [tuple(row) for row in connection.execute(ROWS)]


def number_of(endpoint: Endpoint, sql: str) -> int:
    with pytest.raises(SqlError) as caught:
        endpoint.execute(sql)
    return caught.value.number


# --- a readable secondary ----------------------------------------------------------------------------


def test_the_replica_is_read_only_on_a_port_of_its_own(server: LocalSqlServer, driver: Driver) -> None:
    assert server.replica.port != server.port
    connection = connect(server.replica, driver)
    assert role(connection) == "READ_ONLY"
    assert rows(connection) == [(1, 10)]
    with pytest.raises(pyodbc.Error, match=r'Failed to update database "app" because the database is read-only.*3906'):
        connection.execute("UPDATE dbo.t SET n = 11 WHERE id = 1")
    assert (server.replica.log.errors, server.log.requests) == ([3906], [])
    connection.close()


def test_the_option_is_read_only_of_the_primary_not_of_the_role(server: LocalSqlServer) -> None:
    """sys.databases shows on a secondary what is set on the primary."""
    assert server.replica.execute("SELECT is_read_only FROM sys.databases WHERE name = N'app'") == [(False,)]
    server.execute("ALTER DATABASE app SET ALLOW_SNAPSHOT_ISOLATION ON")
    seen = server.replica.execute("SELECT snapshot_isolation_state FROM sys.databases WHERE name = N'app'")
    assert seen == [(1,)]


def test_the_nodes_have_names_of_their_own(server: LocalSqlServer) -> None:
    names = {node.execute("SELECT @@SERVERNAME")[0][0] for node in (server, server.replica)}
    assert len(names) == 2


@pytest.mark.parametrize(
    "sql",
    [
        "INSERT dbo.t VALUES (2, 20, DEFAULT)",
        "DELETE dbo.t",
        "MERGE dbo.t AS t USING (VALUES (1)) s (id) ON s.id = t.id WHEN MATCHED THEN DELETE;",
        "CREATE TABLE dbo.u (a int)",
        "TRUNCATE TABLE dbo.t",
        "CREATE USER somebody WITHOUT LOGIN",
        PROPERTY,
    ],
)
def test_whatever_writes_is_refused(server: LocalSqlServer, sql: str) -> None:
    assert number_of(server.replica, sql) == 3906
    assert server.replica.execute(ROWS) == [(1, 10)]


def test_the_secondary_does_not_change_its_own_options(server: LocalSqlServer) -> None:
    assert number_of(server.replica, "ALTER DATABASE app SET READ_COMMITTED_SNAPSHOT ON") == 40517


def test_temporary_tables_and_table_variables_can_be_written_there(server: LocalSqlServer) -> None:
    """They live in tempdb."""
    script = """
        CREATE TABLE #t (a int); INSERT #t SELECT n FROM dbo.t; UPDATE #t SET a += 1;
        DECLARE @v TABLE (a int); INSERT @v SELECT a FROM #t; SELECT a FROM @v
    """
    assert server.replica.execute(script) == [(11,)]


def test_row_versions_are_the_same_bytes(server: LocalSqlServer) -> None:
    server.execute("UPDATE dbo.t SET n = 11; INSERT dbo.t VALUES (2, 20, DEFAULT)")
    versions = server.execute("SELECT id, v FROM dbo.t")
    assert server.replica.execute("SELECT id, v FROM dbo.t") == versions
    assert [int.from_bytes(v) for _, v in versions if isinstance(v, bytes)] == [2002, 2003]


def test_definitions_users_and_rights_arrive_too(server: LocalSqlServer, driver: Driver) -> None:
    server.execute(
        "CREATE LOGIN ann WITH PASSWORD = N'pw-1'; CREATE USER ann FOR LOGIN ann; GRANT SELECT ON dbo.t TO ann"
    )
    connection = connect(server.replica, driver, UID="ann", PWD="pw-1")
    same_text = "SELECT * FROM dbo.t WHERE n = 10"
    assert len(connection.execute(same_text).fetchone()) == 3
    server.execute("ALTER TABLE dbo.t ADD more int NOT NULL DEFAULT 7; CREATE INDEX ix ON dbo.t (n)")
    assert connection.execute(same_text).fetchone()[3] == 7
    server.execute("DROP TABLE dbo.t")
    with pytest.raises(pyodbc.Error, match="208"):
        connection.execute(same_text)
    connection.close()


# --- every query is a snapshot ------------------------------------------------------------------------


def test_autocommitted_polls_see_the_row_come_and_a_transaction_keeps_its_first_picture(
    server: LocalSqlServer, driver: Driver
) -> None:
    """Snapshot isolation: a transaction reads as of its first access, whatever level the session has set."""
    polling, open_ended = connect(server.replica, driver), connect(server.replica, driver, autocommit=False)
    open_ended.execute("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
    assert rows(open_ended) == rows(polling) == [(1, 10)]
    server.execute("INSERT dbo.t VALUES (2, 20, DEFAULT)")
    assert rows(polling) == [(1, 10), (2, 20)]
    assert rows(open_ended) == [(1, 10)]
    open_ended.commit()
    assert rows(open_ended) == [(1, 10), (2, 20)]
    polling.close()
    open_ended.close()


@pytest.mark.parametrize(
    "read",
    [
        "SELECT n FROM dbo.t WITH (UPDLOCK, HOLDLOCK, ROWLOCK) WHERE id = 1",
        "SELECT n FROM dbo.t WITH (NOLOCK) WHERE id = 1",
        "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE; SELECT n FROM dbo.t WITH (READPAST) WHERE id = 1",
        "SET TRANSACTION ISOLATION LEVEL SNAPSHOT; SELECT n FROM dbo.t WHERE id = 1",
    ],
)
def test_hints_and_levels_are_ignored(server: LocalSqlServer, read: str) -> None:
    script = f"""
        SET TRANSACTION ISOLATION LEVEL READ COMMITTED; BEGIN TRAN; {read};
        SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_session_id = @@SPID AND resource_type = N'KEY'; COMMIT
    """
    assert server.replica.execute(script) == [(10,), (0,)]


def test_a_reader_and_the_log_do_not_wait_for_each_other(server: LocalSqlServer, driver: Driver) -> None:
    reader = connect(server.replica, driver, autocommit=False)
    reader.execute("SELECT * FROM dbo.t WITH (XLOCK, HOLDLOCK)").fetchall()
    server.execute("UPDATE dbo.t SET n = 11")
    assert server.replica.caught_up
    assert server.replica.execute(ROWS) == [(1, 11)]
    reader.close()


def test_a_transaction_becomes_visible_as_a_whole(server: LocalSqlServer, driver: Driver) -> None:
    writer = connect(server, driver, autocommit=False)
    writer.execute("UPDATE dbo.t SET n = 0 WHERE id = 1")
    writer.execute("INSERT dbo.t VALUES (2, 10, DEFAULT)")
    assert server.replica.execute(ROWS) == [(1, 10)]
    writer.commit()
    assert server.replica.execute(ROWS) == [(1, 0), (2, 10)]
    writer.execute("DELETE dbo.t")
    writer.rollback()
    assert server.replica.execute(ROWS) == [(1, 0), (2, 10)]
    writer.close()


# --- lag, pause, cut -----------------------------------------------------------------------------------


def test_without_lag_a_commit_is_visible_when_it_is_answered(server: LocalSqlServer, driver: Driver) -> None:
    writer, reader = connect(server, driver), connect(server.replica, driver)
    for n in range(20):
        writer.execute("UPDATE dbo.t SET n = ? WHERE id = 1", n)
        assert reader.execute("SELECT n FROM dbo.t").fetchval() == n
    writer.close()
    reader.close()


def test_a_commit_arrives_when_its_lag_has_passed_on_the_clock(server: LocalSqlServer) -> None:
    server.replica.lag = 5
    server.execute("UPDATE dbo.t SET n = 11")
    server.clock.advance(3)
    server.execute("UPDATE dbo.t SET n = 12")
    server.clock.advance(1.9)
    assert (server.replica.execute(ROWS), server.replica.caught_up) == ([(1, 10)], False)
    server.clock.advance(0.1)
    assert (server.replica.execute(ROWS), server.replica.caught_up) == ([(1, 11)], False)
    server.clock.advance(3)
    server.replica.wait_caught_up()
    assert server.replica.execute(ROWS) == [(1, 12)]


def test_a_lag_passes_in_real_time_too(server: LocalSqlServer) -> None:
    server.clock.thaw()
    server.replica.lag = 0.05
    server.execute("UPDATE dbo.t SET n = 11")
    server.replica.wait_caught_up()
    assert server.replica.execute(ROWS) == [(1, 11)]


def test_a_shorter_lag_counts_for_what_is_on_its_way_and_keeps_the_order(server: LocalSqlServer) -> None:
    server.replica.lag = 100
    for n in range(20):
        server.execute(f"UPDATE dbo.t SET n = {n}")
    server.replica.lag = 0
    assert server.replica.caught_up
    assert server.replica.execute("SELECT n, v FROM dbo.t") == server.execute("SELECT n, v FROM dbo.t")
    with pytest.raises(ValueError, match="lag"):
        server.replica.lag = -1


@pytest.mark.parametrize("stop", ["pause", "cut"])
def test_paused_or_cut_nothing_arrives_until_it_is_resumed(server: LocalSqlServer, stop: str) -> None:
    getattr(server.replica, stop)()
    server.execute("UPDATE dbo.t SET n = 11")
    server.clock.advance(1000)
    assert (server.replica.execute(ROWS), server.replica.caught_up) == ([(1, 10)], False)
    with pytest.raises(TimeoutError):
        server.replica.wait_caught_up(0.01)
    waiting = threading.Thread(target=server.replica.wait_caught_up)
    waiting.start()
    server.replica.resume()
    waiting.join(10)
    assert not waiting.is_alive()
    assert server.replica.execute(ROWS) == [(1, 11)]


def test_resumed_what_is_not_due_still_waits(server: LocalSqlServer) -> None:
    server.replica.lag = 5
    server.replica.pause()
    server.execute("UPDATE dbo.t SET n = 11")
    server.clock.advance(3)
    server.replica.resume()
    assert server.replica.execute(ROWS) == [(1, 10)]
    server.clock.advance(2)
    assert server.replica.execute(ROWS) == [(1, 11)]


# --- read-only routing -----------------------------------------------------------------------------------


def test_read_intent_is_sent_on_to_the_replica(server: LocalSqlServer, driver: Driver) -> None:
    connection = connect(server, driver, ApplicationIntent="ReadOnly")
    assert role(connection) == "READ_ONLY"
    assert (server.log.logins, server.replica.log.logins, server.replica.connections) == (1, 1, 1)
    server.log.wait_for(lambda request: request.kind == "close")
    assert server.connections == 0
    connection.close()


def test_read_intent_is_sent_on_under_tls_as_well(ms_driver: Driver) -> None:
    with LocalSqlServer(replica=True) as server:
        connection = connect(server, ms_driver, ApplicationIntent="ReadOnly")
        assert role(connection) == "READ_ONLY"
        connection.close()


def test_other_logins_and_other_databases_are_not_routed(server: LocalSqlServer, driver: Driver) -> None:
    """Routing needs read intent and a database of the group."""
    for intent, database in (("ReadWrite", "app"), ("ReadOnly", "master")):
        connection = connect(server, driver, ApplicationIntent=intent, DATABASE=database)
        connection.execute("USE app")
        assert role(connection) == "READ_WRITE"
        connection.close()
    assert server.replica.log.logins == 0


def test_without_routing_the_primary_serves_read_intent_itself(server: LocalSqlServer, driver: Driver) -> None:
    server.read_only_routing = False
    connection = connect(server, driver, ApplicationIntent="ReadOnly")
    assert role(connection) == "READ_WRITE"
    connection.close()


def test_the_routing_token_is_as_specified(server: LocalSqlServer) -> None:
    """New value: length, protocol 0 (TCP), port, server as US_VARCHAR; old value 00 00."""
    with RawClient(server) as client:
        client.ask(PRELOGIN, PLAIN_PRELOGIN)
        login = login7(server.user, server.password, server.database, type_flags=READ_ONLY_INTENT)
        answer = client.ask(LOGIN, login)
    host = "127.0.0.1"
    value = struct.pack("<BHH", 0, server.replica.port, len(host)) + host.encode("utf-16-le")
    token = struct.pack("<BHBH", 0xE3, 5 + len(value), 20, len(value)) + value + bytes(2)
    assert token in answer


# --- the two nodes ---------------------------------------------------------------------------------------


def test_log_and_faults_belong_to_their_port(server: LocalSqlServer, driver: Driver) -> None:
    server.replica.faults.error(1205, matching="dbo.t")
    primary, secondary = connect(server, driver), connect(server.replica, driver)
    assert rows(primary) == [(1, 10)]
    with pytest.raises(pyodbc.Error, match="1205"):
        secondary.execute(ROWS)
    server.replica.drop_links()
    assert (server.connections, server.replica.connections) == (1, 0)
    primary.close()


def test_time_passes_on_both_and_the_replicas_clock_alone_is_a_skew(server: LocalSqlServer) -> None:
    def times() -> list[object]:
        return [node.execute("SELECT SYSUTCDATETIME()")[0][0] for node in (server, server.replica)]

    first = times()
    assert first[0] == first[1]
    server.clock.advance(60)
    assert times()[0] == times()[1] != first[0]
    server.replica.clock.advance(7)
    assert server.replica.clock.ticks() - server.clock.ticks() == 7 * 10**7


def test_stopped_and_started_both_nodes_are_as_before() -> None:
    server = LocalSqlServer(tls=False, replica=True)
    server.replica.lag = 3600
    with server:
        ports = server.port, server.replica.port
        server.execute(TABLE)
        assert number_of(server.replica, ROWS) == 208
    with server:
        assert (server.port, server.replica.port) == ports
        assert server.execute(ROWS) == [(1, 10)]
        server.replica.lag = 0
        assert server.replica.execute(ROWS) == [(1, 10)]


def test_a_server_alone_keeps_no_log_and_has_no_replica() -> None:
    server = LocalSqlServer(tls=False)
    assert server.engine.default.on_commit is None
    with pytest.raises(RuntimeError, match="replica=True"):
        _ = server.replica
