"""What becomes of a connection: after a time-out, an interrupt or a restart, and when it arrives in a bad state."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NoReturn

import pyodbc
import pytest

from sqllease import LeaseConfigurationError, LeaseInfo, LeaseStore
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, FOR_EVER, HASTY, RENEW, Bench
from .support import PATIENCE_S, in_background


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


class Tapped:
    """A pyodbc connection that tells ``listen`` of each statement: (None) before, (the error or None) after."""

    def __init__(self, raw: pyodbc.Connection, after: Callable[[Exception | None], None]) -> None:
        self.__dict__.update(raw=raw, after=after)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.raw, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.raw, name, value)

    def cursor(self) -> Any:
        cursor, after = self.raw.cursor(), self.after

        class Cursor:
            def __getattr__(self, name: str) -> Any:
                return getattr(cursor, name)

            def execute(self, *arguments: Any) -> None:
                error = None
                try:
                    cursor.execute(*arguments)
                except pyodbc.Error as raised:
                    error = raised
                after(error)
                if error is not None:
                    raise error

        return Cursor()


class Connections:
    """Callable that opens connections and counts them, and what happened on them."""

    def __init__(self, bench: Bench, prepare: str = "", *, autocommit: bool = True) -> None:
        self.bench, self.prepare, self.autocommit = bench, prepare, autocommit
        self.opened = 0
        self.failures = 0
        self.interrupt: BaseException | None = None

    def __call__(self) -> Any:
        self.opened += 1
        raw = pyodbc.connect(self.bench.dsn(), autocommit=self.autocommit, timeout=1)
        if self.prepare:
            raw.execute(self.prepare)
        return Tapped(raw, self.after)

    def after(self, error: Exception | None) -> None:
        self.failures += error is not None
        interrupt, self.interrupt = self.interrupt, None
        if interrupt is not None:
            raise interrupt


# --- after a time-out ---


def test_a_connection_that_saw_a_time_out_is_never_used_again(bench: Bench) -> None:
    store = bench.store(max_connections=1)
    lease = bench.lease("one", store, options=HASTY)
    other = bench.lease("two", store, owner_id="other")
    lease.try_acquire()
    bench.server.faults.delay(60, "after", matching=RENEW)
    assert lease.try_renew() is True
    assert other.try_acquire() is True
    assert sorted(row.owner for row in bench.rows()) == sorted([lease.owner_id, "other"])
    late = bench.sent(RENEW)[0]
    since = bench.server.log.requests[bench.server.log.requests.index(late) + 1 :]
    kinds = {request.kind for request in since if request.session == late.session and not request.housekeeping}
    assert kinds == {"attention", "close"}


def test_no_call_leaves_a_transaction_open_on_the_server(bench: Bench) -> None:
    lease = bench.lease(options=HASTY)
    lease.try_acquire()
    bench.server.faults.delay(60, "after", matching=RENEW)
    assert lease.try_renew() is True
    assert lease.try_release() is True
    assert all(session.trancount == 0 for session in bench.server.engine.sessions.values())


# --- interrupts ---


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit, asyncio.CancelledError, GeneratorExit])
def test_an_interrupt_within_a_call_passes_at_once_and_the_connection_is_not_used_again(
    bench: Bench, interrupt: type[BaseException]
) -> None:
    connections = Connections(bench)
    lease = bench.lease(connection=connections)
    lease.try_acquire()
    for verb in (lease.try_renew, lease.try_acquire, lease.try_release):
        opened, failures = connections.opened, connections.failures
        connections.interrupt = interrupt()
        with pytest.raises(interrupt):
            verb()
        assert (connections.opened, connections.failures) == (opened, failures)
        assert lease.try_acquire() is True
        assert connections.opened == opened + 1
        assert bench.row().owner == lease.owner_id


def test_an_interrupt_between_two_attempts_passes_at_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(_seconds: float) -> NoReturn:
        raise KeyboardInterrupt

    lease = bench.lease()
    bench.server.faults.drop("before", times=FOR_EVER)
    monkeypatch.setattr(time, "sleep", interrupted)
    with pytest.raises(KeyboardInterrupt):
        lease.try_acquire()
    assert len(bench.sent(ACQUIRE)) == 1


def test_ctrl_c_during_an_acquire_ends_the_program_by_keyboard_interrupt_and_the_next_call_works(bench: Bench) -> None:
    program = textwrap.dedent(
        """
        import sys
        from sqllease import LeaseOptions, SqlLease

        lease = SqlLease("job", sys.argv[1], options=LeaseOptions(duration=60, command_timeout=5))
        try:
            lease.try_acquire()
        except KeyboardInterrupt:
            print("interrupted", lease.held, lease.try_acquire(), lease.try_renew(), lease.try_release(), flush=True)
        """
    )
    with bench.kept_back(ACQUIRE, "after") as hold:
        child = subprocess.Popen([sys.executable, "-c", program, bench.dsn()], stdout=subprocess.PIPE, text=True)
        try:
            assert hold.held.wait(PATIENCE_S)
            os.kill(child.pid, signal.SIGINT)
            hold.release()
            told, _ = child.communicate(timeout=PATIENCE_S)
        finally:
            child.kill()
            child.wait()
    assert told.split() == ["interrupted", "False", "True", "True", "True"]


# --- a restart, and connections that were idle meanwhile ---


def test_after_a_restart_at_most_one_idle_connection_fails_somebody(bench: Bench) -> None:
    connections = Connections(bench)
    store = bench.store(connections, max_connections=5)
    leases = [bench.lease(f"job {number}", store) for number in range(5)]
    holds = [bench.server.faults.hold(matching=ACQUIRE) for _ in leases]
    calls = [in_background(lease.try_acquire) for lease in leases]
    assert all(hold.held.wait(PATIENCE_S) for hold in holds)  # five at once, so five connections
    for hold in holds:
        hold.release()
    assert [call.result(PATIENCE_S) for call in calls] == [True] * 5
    assert connections.opened == 5
    bench.server.stop()
    bench.server.start()
    assert [lease.try_renew() for lease in leases] == [True] * 5
    assert leases[0].try_renew() is True
    assert connections.failures <= 1
    assert connections.opened == 6


def test_closing_a_store_whose_links_are_dead_raises_nothing_and_it_can_be_used_again(bench: Bench) -> None:
    store = bench.store()
    lease = bench.lease(connection=store)
    lease.try_acquire()
    bench.server.drop_links()
    store.close()
    store.close()
    assert lease.try_renew() is True


# --- an error that comes behind other results of the batch ---


def test_an_error_behind_the_answer_does_not_undo_the_win_and_the_next_call_gets_its_own_answer(bench: Bench) -> None:
    bench.lease("old").try_acquire()
    bench.server.clock.advance(7200)
    bench.server.execute(
        "CREATE TRIGGER [lease].[no_sweep] ON [lease].[Leases] AFTER DELETE AS THROW 50001, N'never delete', 1"
    )
    lease = bench.lease()
    assert lease.try_acquire() is True
    assert bench.server.log.errors != []
    assert [row.name for row in bench.rows()] == ["job", "old"]
    assert lease.try_renew() is True


def test_an_error_of_the_locking_statement_is_raised_and_not_read_as_not_acquired(bench: Bench) -> None:
    bench.server.execute(
        "CREATE TRIGGER [lease].[no_insert] ON [lease].[Leases] AFTER INSERT AS THROW 50001, N'no more leases', 1"
    )
    lease = bench.lease()
    with pytest.raises(LeaseConfigurationError, match="no more leases"):
        lease.try_acquire()
    assert bench.rows() == []
    bench.server.execute("DROP TRIGGER [lease].[no_insert]")
    assert lease.try_acquire() is True


# --- connections that arrive in a bad state ---

LEFT_OVERS = {
    "NOCOUNT": "SET NOCOUNT ON",
    "ROWCOUNT": "SET ROWCOUNT 1",
    "serializable": "SET TRANSACTION ISOLATION LEVEL SERIALIZABLE",
    "read uncommitted": "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
    "implicit transactions": "SET IMPLICIT_TRANSACTIONS ON",
    "no XACT_ABORT": "SET XACT_ABORT OFF",
    "waits for ever": "SET LOCK_TIMEOUT -1",
    "low deadlock priority": "SET DEADLOCK_PRIORITY LOW",
}


@pytest.mark.parametrize("left_over", LEFT_OVERS)
def test_settings_that_a_connection_brings_along_change_no_answer(bench: Bench, left_over: str) -> None:
    connections = Connections(bench, LEFT_OVERS[left_over])
    for name in ("old 1", "old 2", "old 3"):
        bench.lease(name).try_acquire()
    bench.server.clock.advance(7200)
    lease, other = bench.lease(connection=connections), bench.lease(connection=connections)
    assert lease.try_acquire() is True
    assert [row.name for row in bench.rows()] == ["job"]  # and it has swept all three
    assert other.try_acquire() is False
    assert lease.try_renew() is True
    bench.server.clock.advance(lease.options.duration)
    assert lease.try_renew() is False
    assert other.try_acquire() is True
    assert lease.try_release() is False
    assert other.try_release() is True
    assert bench.rows() == []
    assert all(session.trancount == 0 for session in bench.server.engine.sessions.values())


def test_a_connection_that_arrives_with_an_open_transaction_is_replaced_once(bench: Bench) -> None:
    connections = Connections(bench, "BEGIN TRANSACTION")

    def first_is_dirty() -> Any:
        connection = connections()
        connections.prepare = ""
        return connection

    lease = bench.lease(connection=first_is_dirty)
    assert lease.try_acquire() is True
    assert connections.opened == 2
    assert bench.row().owner == lease.owner_id
    assert bench.lease().try_acquire() is False
    assert lease.try_release() is True
    assert connections.opened == 2


STORE_VERBS: dict[str, Callable[[LeaseStore], object]] = {
    "list": lambda store: [info.name for info in store.list()],
    "get": lambda store: store.get("two"),
    "purge": lambda store: store.purge(),
    "verify": lambda store: [check.status for check in store.verify()],
    "ensure_created": lambda store: store.ensure_created(),
}


@pytest.mark.parametrize("left_over", [*LEFT_OVERS, "an open transaction"])
@pytest.mark.parametrize("verb", STORE_VERBS)
def test_what_a_connection_brings_along_changes_no_answer_of_a_store(bench: Bench, verb: str, left_over: str) -> None:
    for name in ("one", "two", "three"):
        bench.lease(name).try_acquire()
    expected = STORE_VERBS[verb](bench.store())
    connections = Connections(bench, LEFT_OVERS.get(left_over, "BEGIN TRANSACTION"))

    def only_the_first() -> Any:
        connection = connections()
        connections.prepare = ""
        return connection

    store = LeaseStore(only_the_first)
    answer = STORE_VERBS[verb](store)
    store.close()
    assert strip_remaining(answer) == strip_remaining(expected)


def strip_remaining(answer: object) -> object:
    return replace(answer, remaining=0.0) if isinstance(answer, LeaseInfo) else answer


def test_a_table_that_is_created_is_there_for_others_though_the_connection_had_a_transaction_open(
    server: LocalSqlServer, driver: Driver
) -> None:
    dsn = server.connection_string(driver.odbc)
    made: list[pyodbc.Connection] = []

    def first_is_dirty() -> pyodbc.Connection:
        made.append(pyodbc.connect(dsn, autocommit=True))
        if len(made) == 1:
            made[0].execute("BEGIN TRANSACTION")
        return made[-1]

    store = LeaseStore(first_is_dirty)
    store.ensure_created()
    other = LeaseStore(dsn)
    assert other.list() == []
    other.close()
    store.close()
    assert len(made) == 2


def test_when_each_connection_arrives_with_an_open_transaction_the_error_says_where_to_look(bench: Bench) -> None:
    lease = bench.lease(connection=Connections(bench, "BEGIN TRANSACTION"))
    bench.slow(1.5)
    with pytest.raises(LeaseConfigurationError, match="transaction open: look at the callable or pool"):
        lease.try_acquire()
    assert bench.rows() == []


def test_connections_without_autocommit_are_set_to_it_and_work(bench: Bench) -> None:
    connections = Connections(bench, autocommit=False)
    lease = bench.lease(connection=connections)
    assert lease.try_acquire() is True
    assert bench.lease().try_acquire() is False  # committed: others see it
    assert lease.try_renew() is True
    assert lease.try_release() is True
    assert bench.lease().try_acquire() is True
    assert connections.opened == 1


def test_what_a_callable_raises_of_its_own_comes_through_unchanged(bench: Bench) -> None:
    def broken() -> Any:
        raise LookupError("no such secret in the vault")

    with pytest.raises(LookupError, match="no such secret"):
        bench.lease(connection=broken).try_acquire()
