"""A port on 127.0.0.1 with its log and faults, and the engine that answers there.

It is what tests hold: connection strings, log, faults, clock. Knows nothing of other ports.
"""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Callable, Sequence
from concurrent.futures import Future

from .clock import ServerClock
from .engine import Engine
from .faults import Faults
from .protocol import Link, cut_socket
from .requestlog import RequestLog
from .runtime import LoopThread
from .scheduler import Task
from .session import Cancelled, Session
from .sqltypes import LoginRequest, ResultColumn, SqlError, SqlType, Value

HOST = "127.0.0.1"
_SPECIAL = frozenset("[]{}(),;?*=!@")


class Endpoint:
    """``engine`` answers; another one may take its place while no link is open."""

    def __init__(
        self,
        thread: LoopThread,
        engine: Engine,
        *,
        database: str,
        user: str,
        password: str,
        tls_context: ssl.SSLContext | None,
    ) -> None:
        self.engine = engine
        self.database, self.user, self.password = database, user, password
        self.log = RequestLog()
        self.faults = Faults(database=database, user=user)
        self.links: set[Link] = set()
        self.port = 0
        self.tls_context = tls_context
        self.router: Callable[[Session], tuple[str, int] | None] | None = None
        self._loop_thread = thread
        self._server: asyncio.Server | None = None
        self._tasks: set[Task] = set()  # of ``execute``

    @property
    def clock(self) -> ServerClock:
        """The clock of the server that answers here; ``advance(seconds)`` moves it."""
        return self.engine.clock

    @property
    def connections(self) -> int:
        """Number of links that are open now."""
        return sum(link.is_open for link in list(self.links))

    @property
    def loop(self) -> asyncio.AbstractEventLoop:
        return self._loop_thread.loop

    def drop_links(self) -> None:
        """Cuts all links now."""

        def cut() -> None:
            for link in list(self.links):
                link.cut()

        self._loop_thread.call(cut)

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
            self._tasks.add(task)

            def done() -> None:
                self._tasks.discard(task)
                if isinstance(task.error, Cancelled):
                    ended.set_exception(ConnectionAbortedError("the server went down"))
                else:
                    ended.set_exception(task.error) if task.error else ended.set_result(None)

            task.on_done = done

        self._loop_thread.call(spawn)
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
            parts |= {"SERVER": HOST, "PORT": self.port, "TDS_Version": "7.4"}
            parts |= {"Encryption": "require" if encrypted else "off"}
        else:
            parts |= {"SERVER": f"{HOST},{self.port}", "Encrypt": "yes" if encrypted else "no"}
            parts |= {"TrustServerCertificate": "yes"} if encrypted else {}
        parts |= {"DATABASE": self.database, "UID": self.user if user is None else user}
        parts |= {"PWD": self.password if password is None else password}
        names = {name.lower(): name for name in parts}
        for name, value in keywords.items():
            parts[names.get(name.lower(), name)] = value
        double = not free_tds
        return "".join(f"{name}={_quoted(str(value), double=double)};" for name, value in parts.items())

    # in the loop's thread

    def route(self, session: Session) -> tuple[str, int] | None:
        return self.router(session) if self.router is not None else None

    async def open(self) -> None:
        """Listens; on the same port as before, if there was one."""
        if self._server is None:
            self._server = await self.loop.create_server(lambda: Link(self), HOST, self.port, backlog=256)
            self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        """Refuses connections from now on, and hangs up."""
        server, self._server = self._server, None
        if server is not None:
            for listener in server.sockets:
                self.loop.remove_reader(listener)
                cut_socket(listener)  # closing alone would leave the port open where a forked child has the descriptor
            # What was accepted in this very moment becomes a link, in a few steps of the loop; asyncio would lose it
            # where its server was closed before.
            for _ in range(4):
                await asyncio.sleep(0)
            server.close()
        await hang_up(self)


async def hang_up(*endpoints: Endpoint) -> None:
    """Cuts all links and ends whatever runs. When this returns, nothing is open and no transaction is in flight."""
    while any(endpoint.links or endpoint._tasks for endpoint in endpoints):
        for endpoint in endpoints:
            for link in list(endpoint.links):
                link.stop()
            for task in endpoint._tasks:
                task.interrupt(Cancelled())
        await asyncio.sleep(0)  # lets interrupted requests end, and their sessions with them


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
