"""A failover: who answers where, what is lost, how row versions go on, which clock counts, and the way back.

Right values: Microsoft's "Failover and failover modes (Always On availability groups)" (forced failover loses what was
not sent; connections end; open transactions are rolled back), "Availability group listeners", "Read-only routing" (with
no readable secondary the primary serves), "rowversion", and for the reservation of row versions (some 4,000 ahead, in
the log) M. Smith, dba.stackexchange.com/questions/51026. The clocks stand still.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.endpoint import Endpoint
from sqllease.testing.server.storage import RESERVATION
from sqllease.testing.server.tables import Table
from tests.drivers import Driver
from tests.standin.test_replica import ROWS, TABLE, connect, number_of, role, rows


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    with LocalSqlServer(tls=False, replica=True) as started:
        started.clock.freeze()
        started.execute(TABLE)
        yield started


def roles(server: LocalSqlServer, driver: Driver) -> list[object]:
    """Of the server's port and the replica's."""
    found = []
    for endpoint in (server, server.replica):
        connection = connect(endpoint, driver)
        found.append(role(connection))
        connection.close()
    return found


def refuses(endpoint: Endpoint) -> bool:
    """Asked without a driver: Microsoft's tries again until its login timeout."""
    try:
        socket.create_connection(("127.0.0.1", endpoint.port), timeout=5).close()
    except ConnectionRefusedError:
        return True
    return False


def versions(server: LocalSqlServer) -> dict[object, int]:
    return {id: int.from_bytes(v) for id, v in server.execute("SELECT id, v FROM dbo.t") if isinstance(v, bytes)}


def insert(server: LocalSqlServer, id: int) -> int:
    """The row's version."""
    server.execute(f"INSERT dbo.t VALUES ({id}, 0, DEFAULT)")
    return versions(server)[id]


# --- who answers where -------------------------------------------------------------------------------


def test_all_links_are_cut_and_the_same_port_reaches_the_new_primary(server: LocalSqlServer, driver: Driver) -> None:
    name = server.execute("SELECT @@SERVERNAME")
    primary, secondary = connect(server, driver), connect(server.replica, driver)
    server.failover()
    assert (server.connections, server.replica.connections) == (0, 0)
    for connection in (primary, secondary):
        with pytest.raises(pyodbc.Error):
            connection.execute("SELECT 1")
        with pytest.raises(pyodbc.Error):
            connection.execute("SELECT 1")
        connection.close()
    assert roles(server, driver) == ["READ_WRITE", "READ_ONLY"]
    assert server.execute("SELECT @@SERVERNAME") != name == server.replica.execute("SELECT @@SERVERNAME")
    again = connect(server, driver)
    again.execute("UPDATE dbo.t SET n = 11")
    assert rows(again) == [(1, 11)]
    again.close()


def test_read_intent_is_routed_after_it_as_before(server: LocalSqlServer, driver: Driver) -> None:
    server.failover()
    connection = connect(server, driver, ApplicationIntent="ReadOnly")
    assert role(connection) == "READ_ONLY"
    assert server.replica.connections == 1
    connection.close()


def test_without_a_listener_the_nodes_keep_their_ports(server: LocalSqlServer, driver: Driver) -> None:
    """So a connection string that named the replica gets a writable answer after the swap, and read intent there is
    sent to the old primary."""
    before = connect(server.replica, driver)
    assert role(before) == "READ_ONLY"
    before.close()
    server.failover(listener=False)
    assert roles(server, driver) == ["READ_ONLY", "READ_WRITE"]
    connection = connect(server.replica, driver, ApplicationIntent="ReadOnly")
    assert role(connection) == "READ_ONLY"
    assert server.connections == 1
    connection.close()
    server.replica.execute("UPDATE dbo.t SET n = 11")
    assert server.execute(ROWS) == [(1, 11)]
    server.failover(listener=False)
    assert roles(server, driver) == ["READ_WRITE", "READ_ONLY"]


@pytest.mark.parametrize("listener", [True, False])
def test_a_primary_that_does_not_come_back_leaves_a_port_that_refuses(
    server: LocalSqlServer, driver: Driver, listener: bool
) -> None:
    server.failover(listener=listener, rejoin=False)
    alive, dead = (server, server.replica) if listener else (server.replica, server)
    assert refuses(dead)
    connection = connect(alive, driver, ApplicationIntent="ReadOnly")
    assert role(connection) == "READ_WRITE"  # nobody else is there to serve it
    connection.close()
    with pytest.raises(RuntimeError, match="no secondary"):
        server.failover()
    alive.execute("UPDATE dbo.t SET n = 11")
    server.rejoin()
    connection = connect(dead, driver)
    assert (role(connection), rows(connection)) == ("READ_ONLY", [(1, 11)])
    alive.execute("UPDATE dbo.t SET n = 12")
    assert rows(connection) == [(1, 12)]
    connection.close()


def test_a_secondary_that_goes_away_costs_the_primary_nothing(server: LocalSqlServer, driver: Driver) -> None:
    kept = connect(server, driver)
    server.stop_secondary()
    assert server.engine.default.on_commit is None
    kept.execute("UPDATE dbo.t SET n = 11")
    kept.execute("CREATE USER ann WITHOUT LOGIN")
    kept.execute("CREATE SCHEMA shop AUTHORIZATION ann")
    assert refuses(server.replica)
    server.rejoin()
    assert server.replica.execute(ROWS) == [(1, 11)]
    assert server.replica.execute("SELECT SCHEMA_NAME(SCHEMA_ID(N'shop'))") == [("shop",)]
    kept.close()


def test_who_comes_back_gets_what_is_committed_and_then_the_rest(server: LocalSqlServer, driver: Driver) -> None:
    server.stop_secondary()
    writer = connect(server, driver, autocommit=False)
    writer.execute("UPDATE dbo.t SET n = 11 WHERE id = 1")
    writer.execute("INSERT dbo.t VALUES (2, 20, DEFAULT)")
    server.rejoin()
    assert server.replica.execute(ROWS) == [(1, 10)]
    writer.commit()
    assert server.replica.execute(ROWS) == [(1, 11), (2, 20)]
    writer.close()


# --- what is lost ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lose_tail", [True, False])
def test_the_tail_that_has_not_been_applied_is_lost_or_not(server: LocalSqlServer, lose_tail: bool) -> None:
    server.replica.lag = 5
    server.execute("INSERT dbo.t VALUES (2, 20, DEFAULT)")
    server.clock.advance(5)
    server.execute("INSERT dbo.t VALUES (3, 30, DEFAULT); UPDATE dbo.t SET n = 11 WHERE id = 1")
    server.failover(lose_tail=lose_tail)
    left = [(1, 10), (2, 20)] if lose_tail else [(1, 11), (2, 20), (3, 30)]
    assert server.execute(ROWS) == left
    assert server.replica.execute(ROWS) == left  # what the old primary had of its own is gone there too
    assert server.replica.caught_up


def test_once_cut_off_only_a_failover_that_loses_the_tail_is_possible(server: LocalSqlServer, driver: Driver) -> None:
    server.replica.cut()
    server.execute("UPDATE dbo.t SET n = 11")
    kept = connect(server, driver)
    with pytest.raises(RuntimeError, match="cut off"):
        server.failover()
    assert rows(kept) == [(1, 11)]  # refused, it has cut nothing
    server.failover(lose_tail=True)
    assert server.execute(ROWS) == [(1, 10)]
    kept.close()


def test_the_old_primary_follows_with_the_lag_of_before_and_without_the_pause(server: LocalSqlServer) -> None:
    server.replica.lag = 5
    server.replica.pause()
    server.failover()
    server.execute("UPDATE dbo.t SET n = 11")
    assert server.replica.execute(ROWS) == [(1, 10)]
    server.clock.advance(5)
    assert server.replica.execute(ROWS) == [(1, 11)]


def test_transactions_in_flight_are_rolled_back(server: LocalSqlServer, driver: Driver) -> None:
    """One that is open, one that is late, and one that waits for a lock of the first."""
    opened = connect(server, driver, autocommit=False)
    opened.execute("UPDATE dbo.t SET n = 11")
    late, waiting = connect(server, driver), connect(server, driver)
    hold = server.faults.hold(matching="n = 12")
    server.faults.delay(3600, "after", matching="n = 14")
    delayed = connect(server, driver, autocommit=False)
    threads = [
        threading.Thread(target=_fails, args=(late, "UPDATE dbo.t SET n = 12")),
        threading.Thread(target=_fails, args=(waiting, "UPDATE dbo.t SET n = 13")),
        threading.Thread(
            target=_fails, args=(delayed, "IF 1 = 0 UPDATE dbo.t SET n = 14; INSERT dbo.t VALUES (4, 0, 0)")
        ),
    ]
    for thread in threads:
        thread.start()
    assert hold.held.wait(10)
    server.log.wait_for(lambda request: "n = 13" in request.text)
    server.log.wait_for(lambda request: "n = 14" in request.text)
    server.failover()
    hold.release()
    for thread in threads:
        thread.join(10)
        assert not thread.is_alive()
    assert server.execute(ROWS) == [(1, 10)]
    server.execute("UPDATE dbo.t SET n = 15")  # no lock is left
    assert server.execute("SELECT COUNT(*) FROM sys.dm_tran_locks") == [(0,)]
    for connection in (opened, late, waiting, delayed):
        connection.close()


def _fails(connection: pyodbc.Connection, sql: str) -> None:
    with pytest.raises(pyodbc.Error):
        connection.execute(sql)


def test_an_administrators_batch_ends_too(server: LocalSqlServer) -> None:
    ended: list[BaseException] = []
    began = threading.Event()

    def wait() -> None:
        try:
            began.set()
            server.execute("BEGIN TRAN; UPDATE dbo.t SET n = 11; WAITFOR DELAY '01:00:00'; COMMIT")
        except ConnectionAbortedError as error:
            ended.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    assert began.wait(10)
    while server.execute("SELECT COUNT(*) FROM sys.dm_tran_locks WHERE request_mode = N'X'") == [(0,)]:
        pass
    server.failover()
    thread.join(10)
    assert len(ended) == 1
    assert server.execute(ROWS) == [(1, 10)]


# --- row versions and other counters ---------------------------------------------------------------------


@pytest.mark.parametrize("lose_tail", [True, False])
def test_row_versions_jump_forward_to_the_reservation(server: LocalSqlServer, lose_tail: bool) -> None:
    server.replica.pause()
    lost = insert(server, 2)
    server.failover(lose_tail=lose_tail)
    assert insert(server, 3) == 2000 + RESERVATION + 1 > lost
    server.failover()
    assert insert(server, 4) == 2000 + RESERVATION + RESERVATION + 1


def test_values_are_handed_out_again_where_the_lost_tail_held_a_new_reservation(server: LocalSqlServer) -> None:
    server.replica.pause()
    server.engine.default.rowversion = server.engine.default.reserved
    lost = insert(server, 2)
    server.failover(lose_tail=True)
    assert insert(server, 3) == lost


def test_no_value_is_handed_out_again_where_the_reservation_had_arrived(server: LocalSqlServer) -> None:
    server.engine.default.rowversion = server.engine.default.reserved
    insert(server, 2)
    server.replica.pause()
    lost = insert(server, 3)
    server.failover(lose_tail=True)
    assert insert(server, 4) > lost


def test_a_test_can_have_the_lost_values_handed_out_again(server: LocalSqlServer) -> None:
    server.replica.pause()
    lost = insert(server, 2)
    with pytest.raises(ValueError, match="tail"):
        server.failover(reissue=True)
    server.failover(lose_tail=True, reissue=True)
    assert insert(server, 3) == lost


def test_identities_row_numbers_and_object_ids_go_on(server: LocalSqlServer) -> None:
    server.execute("CREATE TABLE dbo.heap (id int IDENTITY(1, 1), n int)")
    server.execute("INSERT dbo.heap (n) VALUES (1), (2), (2)")
    server.failover()
    server.failover()
    server.failover()
    server.execute("INSERT dbo.heap (n) VALUES (2)")
    assert server.execute("SELECT id, n FROM dbo.heap ORDER BY id") == [(1, 1), (2, 2), (3, 2), (4, 2)]
    many = "; ".join(f"CREATE TABLE dbo.later{number} (a int)" for number in range(50))
    server.execute(f"BEGIN TRAN; {many}; COMMIT")
    assert server.execute("SELECT COUNT(DISTINCT object_id) FROM sys.tables") == [(52,)]
    server.execute("TRUNCATE TABLE dbo.heap")
    server.failover()
    server.execute("INSERT dbo.heap (n) VALUES (5)")
    assert server.execute("SELECT id, n FROM dbo.heap") == [(1, 5)]


def test_unique_keys_and_indexes_still_count(server: LocalSqlServer) -> None:
    server.execute("CREATE UNIQUE INDEX ux ON dbo.t (n)")
    server.failover()
    assert number_of(server, "INSERT dbo.t VALUES (2, 10, DEFAULT)") == 2601
    assert number_of(server, "INSERT dbo.t VALUES (1, 20, DEFAULT)") == 2627
    assert server.execute("SELECT id FROM dbo.t WHERE n = 10") == [(1,)]


def test_a_commit_is_copied_once_not_kept(server: LocalSqlServer) -> None:
    """The log holds what is on its way and nothing else."""
    server.replica.pause()
    for _ in range(10):
        server.execute("UPDATE dbo.t SET n += 1")
    assert server.replica.cluster.replication.pending == 10
    server.replica.resume()
    assert server.replica.cluster.replication.pending == 0
    table = server.replica.engine.default.table("dbo", "t")
    assert isinstance(table, Table)
    assert table.versioned == {}


# --- clocks ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("skew", [7, -7])
def test_the_new_primarys_clock_may_be_ahead_or_behind(server: LocalSqlServer, skew: int) -> None:
    before = server.clock.ticks()
    server.failover(clock_skew=skew)
    assert server.clock.ticks() == before + skew * 10**7
    assert server.replica.clock.ticks() == before
    server.clock.advance(10)  # time passes on both
    assert server.replica.clock.ticks() == before + 10 * 10**7


def test_with_a_skew_a_row_expires_early(server: LocalSqlServer) -> None:
    """What the server's time decides is decided by another clock from then on."""
    server.execute(
        "CREATE TABLE dbo.due (at datetime2(7)); INSERT dbo.due VALUES (DATEADD(second, 10, SYSUTCDATETIME()))"
    )
    late = "SELECT COUNT(*) FROM dbo.due WHERE at <= SYSUTCDATETIME()"
    server.clock.advance(4)
    assert server.execute(late) == [(0,)]
    server.failover(clock_skew=7)
    assert server.execute(late) == [(1,)]
