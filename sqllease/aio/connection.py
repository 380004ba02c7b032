"""One connection for asyncio: opened by aioodbc on a thread that the connection owns, asked through the same ``ask``
as sync.

aioodbc hands over the raw connection and is out of the game: cancelling a task inside its cursor crashes the
interpreter, and its connections are bound to a loop. Here each request is one job on the connection's own thread; a
cancelled job is followed to its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

from sqllease.connection import Connection, Connector, load_pyodbc
from sqllease.errors import LeaseConfigurationError
from sqllease.faults import Retry, read_fault
from sqllease.statements import Statement

from .worker import Worker

if TYPE_CHECKING:
    import pyodbc

T = TypeVar("T")
Rows: TypeAlias = list[Sequence[Any]]
TooLate: TypeAlias = Callable[[Rows | None, Callable[[Statement], Rows]], None]

CANCEL_PATIENCE_S = 1.0
"""How long a cancelled caller waits for the driver to let go; the rest happens behind its back."""
MERCY_S = 0.1
"""How long a statement may go on after its caller was cancelled. Most end meanwhile, and their answer tells what has to
be undone; and FreeTDS has no guard around a cancel in the moment when a statement begins or ends: it crashes.
"""


class AsyncConnection:
    """An open connection and its thread. Given to one task at a time by its store; bound to no loop."""

    def __init__(self, connection: Connection, worker: Worker, connector: Connector, login_timeout: int) -> None:
        self._inner = connection
        self._worker = worker
        self._connector, self._login_timeout = connector, login_timeout
        self._abandoned = False

    @classmethod
    async def open(cls, connector: Connector, login_timeout: int) -> AsyncConnection:
        """A new connection on a new thread. Raises Retry with the fault. A cancelled open is closed as soon as it is
        there.
        """
        worker = Worker()
        opening = asyncio.get_running_loop().create_task(_open(connector, login_timeout, worker))
        try:
            return cls(await asyncio.shield(opening), worker, connector, login_timeout)
        except asyncio.CancelledError:
            opening.add_done_callback(lambda done: _forget(done, worker))
            raise
        except BaseException:
            worker.end()
            raise

    async def ask(self, prepare: Callable[[], Statement], command_timeout: int, too_late: TooLate) -> Rows:
        """One question on the connection's thread; ``prepare`` runs there, right before the send. Raises Retry with
        the fault.

        When the task is cancelled the statement is too, both are followed to their end, and the connection is dropped.
        too_late: undoes what nobody waits for any more. It gets the answer, or None where the cancel has swallowed it
        (the statement may well have been executed), and a way to ask.
        """
        job = self._worker.submit(lambda: self._inner.ask(prepare(), command_timeout))
        try:
            return await asyncio.wrap_future(job)  # a job that runs is not touched when the task is cancelled
        except asyncio.CancelledError:
            self._abandoned = True
            follower = behind(lambda: self._follow(job, command_timeout, too_late))
            await wait_a_moment(follower)
            raise

    async def do(self, job: Callable[[Connection], T]) -> T:
        """Any other piece of sync work on the connection's thread; it is not stopped in the middle."""
        return await asyncio.wrap_future(self._worker.submit(job, self._inner))

    @property
    def usable(self) -> bool:
        """False once the connection was dropped, or left to whoever follows a cancelled statement to its end."""
        return not self._abandoned and self._inner.usable

    @property
    def broken(self) -> bool:
        """As ``Connection.broken``."""
        return self._inner.broken

    def drop(self) -> None:
        """Closes the connection on its thread, behind what is running there; never waits, never raises."""
        if not self._abandoned:
            self._abandoned = True
            self._close()

    def _close(self) -> None:
        self._worker.submit(self._inner.drop)
        self._worker.end()

    def _follow(self, job: Future[Rows], command_timeout: int, too_late: TooLate) -> None:
        rows = None
        try:
            if job.cancel():
                return
            with contextlib.suppress(Retry):  # whatever the driver says after a cancel: the outcome is unknown
                try:
                    rows = job.result(MERCY_S)
                except TimeoutError:
                    self._inner.cancel()
                    rows = job.result()
        finally:
            self._close()
        too_late(rows, lambda statement: ask_once(self._connector, self._login_timeout, statement, command_timeout))


def ask_once(connector: Connector, login_timeout: int, statement: Statement, command_timeout: int) -> Rows:
    """One question on a connection of its own; blocks, so call it from ``behind``."""
    connection = Connection(connector.open(login_timeout), connector.hidden)
    try:
        return connection.ask(statement, command_timeout)
    finally:
        connection.drop()


def behind(job: Callable[[], object]) -> Future[None]:
    """Runs the job on a thread of its own, behind the back of every loop; its errors are nobody's."""
    ended: Future[None] = Future()
    ended.set_running_or_notify_cancel()  # who waits for it may leave, and it goes on

    def run() -> None:
        try:
            with contextlib.suppress(Exception):
                job()
        finally:
            ended.set_result(None)

    threading.Thread(target=run, name="sqllease-behind", daemon=True).start()
    return ended


async def wait_a_moment(job: Future[None]) -> None:
    """Waits for what runs behind, at most a second: a cancelled caller should not wait longer."""
    with contextlib.suppress(TimeoutError):
        await asyncio.wait_for(asyncio.wrap_future(job), CANCEL_PATIENCE_S)


async def _open(connector: Connector, login_timeout: int, worker: Worker) -> Connection:
    if connector.string is None:
        raw = await asyncio.wrap_future(worker.submit(connector.open, login_timeout))
        return Connection(raw, connector.hidden)
    try:
        import aioodbc
    except ImportError:
        aioodbc = None
    if aioodbc is None:
        raise LeaseConfigurationError("asyncio needs aioodbc: pip install 'sqllease[aio]'")
    taken: list[pyodbc.Connection] = []

    async def take(raw: pyodbc.Connection) -> None:
        taken.append(raw)

    error = load_pyodbc().Error
    try:
        keeper = await aioodbc.connect(
            dsn=connector.string, autocommit=True, timeout=login_timeout, executor=worker, after_created=take
        )
    except error as trouble:
        fault = read_fault(trouble, connector.hidden, sent=False)
    else:
        keeper._conn = None  # else it would close the connection when it is collected, from whatever thread
        return Connection(taken[0], connector.hidden)
    raise Retry(fault)


def _forget(opening: asyncio.Task[Connection], worker: Worker) -> None:
    if not opening.cancelled() and opening.exception() is None:
        worker.submit(opening.result().drop)
    worker.end()
