"""LocalSqlServer: an engine behind a TDS port on 127.0.0.1, run by an event loop in a daemon thread.

Ties the engine's clock and scheduler to the loop, and is what tests hold: connection strings, log, faults, clock.
"""

from __future__ import annotations

import asyncio
import os
import ssl
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from types import TracebackType
from typing import Self, TypeVar

from .clock import ServerClock
from .engine import Engine
from .faults import Faults
from .protocol import Link, cut_socket
from .requestlog import RequestLog
from .sqltypes import LoginRequest, ResultColumn, SqlError, SqlType, Value
from .tls import make_certificate

_T = TypeVar("_T")
_SPECIAL = frozenset("[]{}(),;?*=!@")


class LocalSqlServer:
    """A stand-in for SQL Server: real TDS, real locks and transactions, a subset of T-SQL over rows in memory.

    It is not SQL Server: what it does not understand it refuses with error 40517. All data is gone when it stops.
    """

    def __init__(
        self,
        *,
        database: str = "app",
        tls: bool = True,
        seed: int = 0,
        user: str = "sa",
        password: str = "Stand-in-1",
    ) -> None:
        self.database, self.user, self.password = database, user, password
        self.engine = Engine(database=database, seed=seed, user=user, password=password)
        self.log = RequestLog()
        self.faults = Faults(database=database, user=user)
        self.links: set[Link] = set()
        self.loop: asyncio.AbstractEventLoop
        self.port = 0
        self.tls_context: ssl.SSLContext | None = None
        self.certificate: str | None = None
        """The server's own certificate as PEM, for clients that are to verify it; None without TLS."""
        if tls:
            self.tls_context, self.certificate = make_certificate()
        self._server: asyncio.Server | None = None
        self._thread: threading.Thread | None = None
        self._process = 0
        self._timer: asyncio.TimerHandle | None = None

    # life

    def start(self) -> Self:
        """Opens a port that the system chooses and serves it. Data and log of an earlier start are still there."""
        if self._thread is not None:
            return self
        self._process = os.getpid()
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="LocalSqlServer", daemon=True)
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._open(), self.loop).result()
        return self

    def stop(self) -> None:
        """Cuts all links and closes the port. Does nothing when it has stopped, or in a forked child."""
        thread = self._thread
        if thread is None or self._process != os.getpid():
            return
        self._thread = None
        try:
            asyncio.run_coroutine_threadsafe(self._close(), self.loop).result()
        finally:
            self.loop.call_soon_threadsafe(self.loop.stop)
            thread.join()
            self.loop.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    # for tests

    @property
    def clock(self) -> ServerClock:
        """The server's clock; ``advance(seconds)`` moves it."""
        return self.engine.clock

    @property
    def connections(self) -> int:
        """Number of links that are open now."""
        return sum(link.is_open for link in list(self.links))

    def drop_links(self) -> None:
        """Cuts all links now."""

        def cut() -> None:
            for link in list(self.links):
                link.cut()

        self._call(cut)

    def execute(self, sql: str) -> list[tuple[Value, ...]]:
        """Runs a batch as an administrator, in a session of its own and without the wire: not in the log, no faults.

        Returns the rows of all its result sets. Raises SqlError. A transaction that it leaves open is rolled back.
        """
        rows = _Rows()
        ended: Future[None] = Future()

        def run() -> None:
            session = self.engine.login(LoginRequest(self.user, self.password, self.database))
            try:
                session.run_batch(sql, rows)
            finally:
                session.close()

        def spawn() -> None:
            task = self.engine.scheduler.spawn(run)
            task.on_done = lambda: ended.set_exception(task.error) if task.error else ended.set_result(None)

        self._call(spawn)
        ended.result()
        if rows.errors:
            raise rows.errors[0]
        return rows.rows

    def connection_string(
        self, driver: str = "FreeTDS", user: str | None = None, password: str | None = None, **keywords: object
    ) -> str:
        """An ODBC connection string for this server.

        driver: a name from odbcinst.ini or the path of a driver's shared object; FreeTDS is known by its name, all
        others are spoken to as Microsoft's. Further keywords are added, or replace those of the same name.
        """
        free_tds = any(name in os.path.basename(driver).lower() for name in ("freetds", "tdsodbc"))
        encrypted = self.tls_context is not None
        parts: dict[str, object] = {"DRIVER": driver}
        if free_tds:
            parts |= {"SERVER": "127.0.0.1", "PORT": self.port, "TDS_Version": "7.4"}
            parts |= {"Encryption": "require" if encrypted else "off"}
        else:
            parts |= {"SERVER": f"127.0.0.1,{self.port}", "Encrypt": "yes" if encrypted else "no"}
            parts |= {"TrustServerCertificate": "yes"} if encrypted else {}
        parts |= {"DATABASE": self.database, "UID": self.user if user is None else user}
        parts |= {"PWD": self.password if password is None else password}
        names = {name.lower(): name for name in parts}
        for name, value in keywords.items():
            parts[names.get(name.lower(), name)] = value
        double = not free_tds
        return "".join(f"{name}={_quoted(str(value), double=double)};" for name, value in parts.items())

    # the server's thread

    def _call(self, function: Callable[[], _T]) -> _T:
        """Runs a function in the server's thread and waits for its result."""

        async def run() -> _T:
            return function()

        if self._thread is None:
            raise RuntimeError("the server is not running")
        return asyncio.run_coroutine_threadsafe(run(), self.loop).result()

    async def _open(self) -> None:
        scheduler = self.engine.scheduler

        def run_soon() -> None:
            self.loop.call_soon(scheduler.run)

        def look_soon() -> None:
            self.loop.call_soon_threadsafe(self._look_at_timers)

        scheduler.on_ready, self.clock.on_change = run_soon, look_soon
        self._look_at_timers()
        self._server = await self.loop.create_server(lambda: Link(self), "127.0.0.1", self.port, backlog=256)
        self.port = self._server.sockets[0].getsockname()[1]

    def _look_at_timers(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self.clock.run_due()
        due = self.clock.next_due()
        self._timer = None if due is None else self.loop.call_later(due, self._look_at_timers)

    async def _close(self) -> None:
        assert self._server is not None
        for listener in self._server.sockets:
            cut_socket(listener)  # closing alone would leave the port open where a forked child has the descriptor
        self._server.close()
        while self.links:
            for link in list(self.links):
                link.stop()
            await asyncio.sleep(0)  # lets interrupted requests end, and their sessions with them
        self.clock.on_change = self.engine.scheduler.on_ready = None
        if self._timer is not None:
            self._timer.cancel()


class _Rows:
    """A Sink that keeps the rows and errors, for ``execute``."""

    def __init__(self) -> None:
        self.rows: list[tuple[Value, ...]] = []
        self.errors: list[SqlError] = []

    def row(self, values: Sequence[Value]) -> None:
        self.rows.append(tuple(values))

    def error(self, error: SqlError) -> None:
        self.errors.append(error)

    def columns(self, columns: Sequence[ResultColumn]) -> None: ...

    def done(self, count: int | None, *, is_select: bool = False) -> None: ...

    def info(self, number: int, message: str, *, severity: int = 0, state: int = 1, line: int = 1) -> None: ...

    def database(self, new: str, old: str) -> None: ...

    def transaction_begun(self, descriptor: int) -> None: ...

    def transaction_ended(self, descriptor: int, *, committed: bool) -> None: ...

    def return_status(self, status: int) -> None: ...

    def return_value(self, name: str, sql_type: SqlType, value: Value) -> None: ...


def _quoted(value: str, *, double: bool) -> str:
    """A value by the grammar of ODBC connection strings (SQLDriverConnect): in braces where it needs them, a closing
    brace inside doubled. Not for FreeTDS, which reads up to the next ``};`` and leaves doubled braces as they are.
    """
    if value and value == value.strip() and _SPECIAL.isdisjoint(value):
        return value
    if not double and "};" in value:
        raise ValueError("FreeTDS cannot read a value with '};' in it")
    return "{" + (value.replace("}", "}}") if double else value) + "}"
