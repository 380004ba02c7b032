"""One cell of the fault matrix: a verb, of one colour and driver, that meets one fault, and what came of it.

Knows how to make each fault happen on the wire. Knows nothing of what should come of it.
"""

from __future__ import annotations

import asyncio
import inspect
import threading
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import pyodbc

from sqllease import AsyncLeaseStore, LeaseError, LeaseOptions, LeaseStore, LeaseStoreError, ReplicaOptions, schema
from sqllease.testing import LocalSqlServer, ManualClock
from sqllease.testing.drivers import find_driver
from sqllease.testing.server.faults import Faults, Hold
from sqllease.testing.server.requestlog import Request

from . import quiet
from .proxy import Proxy

FAULTS = (
    "link dead, then login refused",
    "request cut",
    "cut before execution",
    "cut after commit",
    "answer cut in the middle",
    "answer after the deadline",
    "link fallen silent",
    "delivered late",
    "delivered after the next call",
)
VERBS = ("acquire won", "acquire lost", "renew", "release", "confirm", "fence")
HALVES = ("sync ms", "sync freetds", "async ms")

OPTIONS = LeaseOptions(duration=18, command_timeout=1)
"""No attempt later than 6 s after the call began; belief for 16.2 s after the send."""
PATIENT = OPTIONS.but(command_timeout=4)
"""For faults that no time-out ends, so that a slow machine does not make one."""
SILENT = FAULTS[6:]
SPENT_S, PAST_DEADLINE_S = 6.5, 17.0
"""More than a call may take, and less than the belief; more than the belief, and less than the row."""
TEXT = {
    "acquire won": "MERGE INTO",
    "acquire lost": "MERGE INTO",
    "renew": "Move the expiry",
    "release": "Give one tenure back",
    "confirm": "Updateability",
    "fence": "FencedVersion",
}
"""Part of the text of the request that the fault strikes."""
FOR_EVER = 10**6
NAME = "job"


class Case(NamedTuple):
    """lasting: the fault comes with the end of the time that the call has, so that it cannot ask again."""

    fault: str
    verb: str
    lasting: bool


class Seen(NamedTuple):
    """What came of a cell.

    told: True, False, unknown (LeaseStoreError), passes (a fence). row: see ``_Cell.row``. held: what the object
    believes once everything has arrived. following: what the next call is told, True when it works.
    """

    told: str
    row: str
    held: bool
    following: str


class _Cell:
    def __init__(self, half: str, case: Case, stack: ExitStack) -> None:
        self.case = case
        self.colour, kind = half.split()
        driver = find_driver(kind)
        assert driver is not None, f"the ODBC driver {kind!r} is not installed"
        self.driver = driver
        self.server = stack.enter_context(LocalSqlServer(replica=True))
        self.server.execute(schema.create_script())
        self.server.execute("CREATE TABLE dbo.Work (Written int NOT NULL)")
        self.server.replica.wait_caught_up()
        self.clock = ManualClock()
        self.proxy = stack.enter_context(Proxy(self.server.port))
        self.replica_proxy = stack.enter_context(Proxy(self.server.replica.port))
        self.runner = stack.enter_context(asyncio.Runner())
        confirmed = case.verb == "confirm"
        self.struck: Faults = self.server.replica.faults if confirmed else self.server.faults
        self.struck_proxy = self.replica_proxy if confirmed else self.proxy
        replica = ReplicaOptions(self._dsn(self.replica_proxy), timeout=5, poll_interval=0.1) if confirmed else None
        make: Any = LeaseStore if self.colour == "sync" else AsyncLeaseStore
        self.store = make(self._dsn(self.proxy), replica=replica)
        stack.callback(lambda: self.do(self.store.close() if self.colour == "sync" else self.store.aclose()))
        self.options = OPTIONS if case.fault in SILENT else PATIENT
        self.lease = self.store.lease(NAME, options=self.options, clock=self.clock)
        self.other = LeaseStore(self.server.connection_string(driver=driver)).lease(
            NAME, options=PATIENT, clock=self.clock
        )
        stack.callback(lambda: self.other._store.close())
        self.stack = stack
        self.hold: Hold | None = None

    def run(self) -> Seen:
        self._prepare()
        before = self._rows()
        self._strike()
        told = self._tell(self._verb)
        self.server.faults.clear()
        self.server.replica.faults.clear()
        late = self.case.fault == "delivered after the next call"
        following = ""
        if late:
            following = self._follow(told)
        if self.hold is not None and self.case.fault.startswith("delivered"):
            self._deliver(self.hold)
        row, held = self.row(before), bool(self.lease.held)
        return Seen(told, row, held, following or self._follow(told))

    # --- before -------------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        """Open connections on every link, so that the fault meets the verb and not a login."""
        warm = self.store.lease("warm", options=PATIENT, clock=self.clock)
        assert self.do(warm.try_acquire())
        self.do(warm.try_release())
        match self.case.verb:
            case "acquire lost":
                assert self.other.try_acquire()
            case "renew" | "release" | "fence":
                assert self.do(self.lease.try_acquire())
        if self.case.verb == "fence":
            self.mine = self._connect()
            self._write()

    def _strike(self) -> None:
        case, faults, text = self.case, self.struck, TEXT[self.case.verb]
        spent: Callable[[], None] = (lambda: self.clock.advance(SPENT_S)) if case.lasting else (lambda: None)

        def spend(request: Request) -> None:
            if not request.housekeeping and (text in request.text or request.kind == "login"):
                spent()

        if case.fault == "link dead, then login refused":
            (self.server.replica if case.verb == "confirm" else self.server).drop_links()
            faults.drop("login", times=FOR_EVER, matching=spend)
            faults.refuse_login(40613)
            return
        if case.fault == "request cut":
            self.struck_proxy.cut_next_request(spent)
            return
        faults.drop("before", times=FOR_EVER, matching=spend)
        match case.fault:
            case "cut before execution":
                faults.drop("before", matching=text)
            case "cut after commit":
                faults.drop("after", matching=text)
            case "answer cut in the middle":
                faults.drop("middle", matching=text)
            case "link fallen silent":
                faults.silence("after", matching=text)
            case "answer after the deadline":
                self.hold = hold = faults.hold("after", matching=text)
                threading.Thread(target=self._answer_late, args=(hold,), daemon=True).start()
            case _:
                self.hold = faults.hold("before", matching=text)

    def _answer_late(self, hold: Hold) -> None:
        hold.held.wait(20)
        self.clock.advance(PAST_DEADLINE_S)
        self.server.clock.advance(PAST_DEADLINE_S)
        hold.release()

    # --- the calls ----------------------------------------------------------------------------------------------

    def _verb(self) -> object:
        match self.case.verb:
            case "renew":
                return self.do(self.lease.try_renew())
            case "release":
                return self.do(self.lease.try_release())
            case "fence":
                return self._fence()
            case _:
                return self.do(self.lease.try_acquire())

    def _follow(self, told: str) -> str:
        """The call that comes next in a program that was told this."""
        verb = self.case.verb
        if verb == "fence":
            self.mine = self._connect()
            self._write()
            passed = self._tell(self._fence)
            assert (self._written() > 0) is (passed == "passes")
            return str(passed == "passes" and self.do(self.lease.try_renew()))
        if verb == "acquire lost":
            self.other.try_release()
        if verb == "renew" or (verb in ("acquire won", "confirm") and told == "True"):
            return self._tell(lambda: self.do(self.lease.try_renew()))
        return self._tell(lambda: self.do(self.lease.try_acquire()))

    def _tell(self, call: Callable[[], object]) -> str:
        try:
            return str(call())
        except LeaseStoreError:
            return "unknown"
        except LeaseError as error:
            return type(error).__name__

    def do(self, answer: Any) -> Any:
        """The answer, awaited where the lease is an async one."""
        return self.runner.run(answer) if inspect.iscoroutine(answer) else answer

    def _deliver(self, hold: Hold) -> None:
        server = self.server.replica if self.case.verb == "confirm" else self.server
        text = TEXT[self.case.verb]
        hold.release()
        late = server.log.wait_for(lambda request: text in request.text and not request.housekeeping)
        server.log.wait_for(lambda request: late.finished)

    # --- the caller's own transaction ---------------------------------------------------------------------------

    def _connect(self) -> Any:
        dsn = self._dsn(self.proxy)
        if self.colour == "sync":
            raw = pyodbc.connect(dsn, autocommit=False, timeout=5)
            raw.timeout = self.options.command_timeout
            return raw
        import aioodbc

        async def patient(raw: pyodbc.Connection) -> None:
            raw.timeout = self.options.command_timeout

        async def connect() -> Any:
            return await aioodbc.connect(dsn=dsn, autocommit=False, timeout=5, after_created=patient)

        return self.runner.run(connect())

    def _write(self) -> None:
        async def execute() -> None:
            cursor = await self.mine.cursor()
            await cursor.execute("INSERT INTO dbo.Work VALUES (1)")
            await cursor.close()

        if self.colour == "sync":
            self.mine.execute("INSERT INTO dbo.Work VALUES (1)").close()
        else:
            self.runner.run(execute())

    def _fence(self) -> str:
        try:
            self.do(self.lease.fence(self.mine))
            self._end(self.mine.commit)
        except LeaseError:
            if not self.mine.closed:  # aioodbc closes what it finds dead
                with suppress(pyodbc.Error):
                    self._end(self.mine.rollback)
            raise
        finally:
            with suppress(pyodbc.Error):
                self._end(self.mine.close)
        return "passes"

    def _end(self, step: Callable[[], Any]) -> None:
        async def wait() -> None:
            await step()

        if self.colour == "sync":
            step()
        else:
            self.runner.run(wait())

    def _written(self) -> int:
        return len(self.server.execute("SELECT Written FROM dbo.Work WITH (READPAST, READCOMMITTEDLOCK)"))

    # --- after --------------------------------------------------------------------------------------------------

    def row(self, before: list[Any]) -> str:
        """none; other's; ours (the tenure that the object knows, or knew before the call), with "moved" when its expiry
        is later than before; stray (our owner, a tenure that the object was not told of).
        """
        rows = self._rows()
        if not rows:
            return "none"
        ((owner, began, expires),) = rows
        if owner != self.lease.owner_id:
            return "other's"
        told = {self.lease.tenure, *(row[1] for row in before)}
        if began not in told:
            return "stray"
        moved = any(row[1] == began and row[2] < expires for row in before)
        written = f", {self._written()} written" if self.case.verb == "fence" else ""
        return f"ours{', moved' if moved else ''}{written}"

    def _rows(self) -> list[Any]:
        return self.server.execute(
            "SELECT OwnerInstanceId, CONVERT(nvarchar(34), AcquiredAtUtc, 126),"
            " CONVERT(nvarchar(34), ExpiresAtUtc, 126)"
            f" FROM [lease].[Leases] WITH (READUNCOMMITTED) WHERE LeaseName = N'{NAME}'"
        )

    def _dsn(self, proxy: Proxy) -> str:
        if "tdsodbc" in self.driver.lower() or self.driver == "FreeTDS":
            return self.server.connection_string(driver=self.driver, PORT=proxy.port)
        return self.server.connection_string(driver=self.driver, SERVER=f"127.0.0.1,{proxy.port}")


def run_cell(half: str, case: Case) -> Seen:
    """Runs one cell on a server of its own."""
    with quiet(), ExitStack() as stack:
        return _Cell(half, case, stack).run()
