"""A session: one login's state, its requests, and the doors through which statements reach the rest of the engine.

Knows which request runs what. What a transaction is stands in unitofwork.py, what a statement does in its own room.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from . import batch, intrinsics, procedures, security, syntax
from .errortexts import sql_error
from .options import Options
from .scopes import describe
from .sqltypes import LoginRequest, Moment, RpcParameter, Sink, SqlError, Value, Work, unsupported
from .storage import Database, Table
from .unitofwork import Transactions

if TYPE_CHECKING:
    from .changes import Trigger
    from .contexts import Context
    from .engine import Engine

_LEVELS = {1: "READ UNCOMMITTED", 2: "READ COMMITTED", 3: "REPEATABLE READ", 4: "SERIALIZABLE", 5: "SNAPSHOT"}


class Cancelled(BaseException):
    """Raised into a running request by an attention."""


class Session(Transactions):
    utc_offset_minutes = 0

    def __init__(self, engine: Engine, id: int, login: str, database: Database, request: LoginRequest) -> None:
        super().__init__(engine)
        self.id = id
        self.login = login
        self.database: Database = database
        self.requested = request
        self.work = Work()
        self.raised: list[int] = []
        self.prepared: dict[int, tuple[str, str]] = {}
        self.temporary: dict[str, Table] = {}
        self.context: Context | None = None
        self.tries: list[Context] = []
        self.caught: list[SqlError] = []
        self.triggers: list[Trigger] = []
        self.nesting: int = 0
        self.error: int = 0
        self.rowcount: int = 0
        self.identity: int | None = None
        self._handle = 0
        self._turns = 0

    # --- requests --------------------------------------------------------------------------------

    def run_batch(self, text: str, sink: Sink) -> None:
        self._request(lambda: batch.run_batch(self, text, sink), sink)

    def run_rpc(self, procedure: str | int, parameters: Sequence[RpcParameter], sink: Sink) -> None:
        self._request(lambda: procedures.call_remote(self, procedure, parameters, sink), sink)

    def begin(self, isolation: int, sink: Sink) -> None:
        def run() -> None:
            if isolation and isolation not in _LEVELS:
                raise unsupported(f"isolation level {isolation}")
            if isolation:
                self.set_isolation(_LEVELS[isolation])
            self.begin_transaction(sink)

        self._request(run, sink)

    def commit(self, begin_next: bool, sink: Sink) -> None:
        self._end(begin_next, sink, committed=True)

    def rollback(self, begin_next: bool, sink: Sink) -> None:
        self._end(begin_next, sink, committed=False)

    def _end(self, begin_next: bool, sink: Sink, *, committed: bool) -> None:
        def run() -> None:
            if committed:
                self.commit_transaction(sink)
            else:
                self.rollback_transaction(sink)
            if begin_next:
                self.begin_transaction(sink)

        self._request(run, sink)

    def _request(self, run: Any, sink: Sink) -> None:
        """A request of the client: fresh counters, its errors to the sink, nothing left over."""
        self.work, self.raised, self.sink = Work(), [], sink
        self.tries, self.caught, self.triggers, self.nesting = [], [], [], 0
        try:
            run()
        except batch.Abort:
            pass
        except SqlError as error:
            if error.number in batch.ENDS_TRANSACTION:  # compiling waits for locks too
                self.rollback_all(sink)
            self.report(error, sink)
        except RecursionError:
            self.report(sql_error(191), sink)
        except BaseException:
            if self.options.xact_abort and self.tx is not None:
                self.rollback_all(sink)
            raise
        finally:
            self.undo_statement(None, 0)
        if self.tx is not None and self.tx.doomed:
            self.rollback_all(sink)
            self.report(sql_error(3998), sink)

    def report(self, error: SqlError, sink: Sink) -> None:
        """An error that nothing catches and that ends nothing more than has ended already."""
        self.raised.append(error.number)
        self.error = error.number
        sink.error(error)

    def reset(self) -> None:
        """RESETCONNECTION: as after login, except for the isolation level, which stays as it is."""
        self.rollback_all(None)
        self._give_back()
        self.options = Options(isolation=self.options.isolation)
        self.database = self.engine.first_database(self)
        self.prepared.clear()
        self.error = self.rowcount = 0
        self.identity = None

    def close(self) -> None:
        self.undo_statement(None, 0)
        self.rollback_all(None)
        self._give_back()
        self.engine.sessions.pop(self.id, None)

    def _give_back(self) -> None:
        self.engine.instance.locks.release_all(self.owner)
        self.applocks.clear()
        self.temporary.clear()

    @property
    def scope_identity(self) -> int | None:
        return self.context.identity if self.context is not None else None

    def next_handle(self) -> int:
        self._handle += 1
        return self._handle

    # --- the outside -----------------------------------------------------------------------------

    def now(self) -> Moment:
        return self.engine.clock.now()

    def pause(self) -> None:
        """A point where another session may run."""
        self.engine.scheduler.pause()

    def breathe(self) -> None:
        """Now and then in a loop: lets the owner of the thread look for attentions and other sessions' requests."""
        self._turns += 1
        if self._turns % 500 == 0 and self.engine.scheduler.current is not None:
            self.engine.scheduler.block(0)

    def sleep(self, delay: str) -> None:
        match = re.fullmatch(r"\s*([01]?\d|2[0-3]):([0-5]?\d)(?::([0-5]?\d)(?:\.(\d{1,3}))?)?\s*", delay, re.ASCII)
        if match is None:
            raise sql_error(148, delay)
        hours, minutes, seconds = (int(part or 0) for part in match.group(1, 2, 3))
        thousandths = int((match[4] or "0").ljust(3, "0"))
        self.engine.scheduler.block(((hours * 60 + minutes) * 60 + seconds) * 1000 + thousandths)

    def use(self, name: str, sink: Sink) -> None:
        database, old = security.enter(self, name), self.database
        self.database = database
        sink.database(database.name, old.name)

    def database_named(self, name: str | None) -> Database:
        return self.database if name is None else security.enter(self, name)

    def find_table(self, name: syntax.ObjectName) -> Table:
        """The table of that name; 208 where there is none."""
        if name.name.startswith("#"):
            table = self.temporary.get(name.name.lower())
        else:
            database = self.database_named(name.database)
            table = self.settled(lambda: database.table(name.schema or "dbo", name.name))
        if table is None:
            raise sql_error(208, describe(name))
        return table

    def settled(self, find: Callable[[], Table | None]) -> Table | None:
        """A table as others leave it: waits while its definition is being made or changed."""
        while (table := find()) is not None:
            if all(owner.session is self for owner in self.engine.instance.locks.owners(table.resource)):
                return table
            table.lock(self.current(), "Sch-S", keep=False)
            if find() is table:
                return table
        return None

    def check_rights(self, rights: Sequence[tuple[Any, str]]) -> None:
        for table, right in rights:
            security.require(self, right, table)

    def fire(self, *args: Any) -> None:
        batch.fire(self, *args)

    def call(self, node: syntax.Execute, context: Context) -> None:
        procedures.call(node, context)

    def intrinsic(self, name: str, args: tuple[Value, ...]) -> Value:
        return intrinsics.value(self, name, args)
