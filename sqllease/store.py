"""``LeaseStore``: one lease table in one database, its few connections, and what an operator may look at and end.

Knows how to ask the table a question with retries. Knows nothing of tenures: the rules of a lease are in ``base``.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tenacity import Retrying

from . import schema
from .answers import LeaseInfo, Row, read_info
from .base import SweepTimer
from .clock import SYSTEM_CLOCK, Clock
from .connection import Connect, Connector
from .errors import LeaseError, LeaseValueError
from .faults import Fault, Retry, retry_policy
from .names import TableName, check_lease_name, check_owner_id
from .options import LeaseOptions, Seconds, seconds, whole_seconds
from .pool import Pool
from .statements import Statement, Statements

if TYPE_CHECKING:
    from .lease import SqlLease

T = TypeVar("T")
Rows = Sequence[Row]

_PATIENCE = LeaseOptions()
"""Time-outs of the inspecting calls, which belong to no lease: those of a lease of 30 seconds."""
_PURGE_BATCH = 500


class LeaseStore:
    """One lease table in one database.

    connection: an ODBC connection string, or a callable without arguments that returns a new pyodbc connection.
    schema, table: where the table is; any text is a name, quotes and brackets included. max_connections: how many
    connections at most, opened when first needed and shared by all leases of the store. login_timeout: whole seconds;
    default a sixth of the calling lease's duration.

    Safe for threads. A forked child may go on using the store: it opens connections of its own.
    Raises LeaseValueError for arguments that cannot work; opens nothing yet.
    """

    def __init__(
        self,
        connection: str | Connect,
        *,
        schema: str = "lease",
        table: str = "Leases",
        max_connections: int = 4,
        login_timeout: Seconds | None = None,
    ) -> None:
        if type(max_connections) is not int or max_connections < 1:
            raise LeaseValueError(f"max_connections must be a whole number of at least 1, not {max_connections!r}")
        self._table = TableName(schema, table)
        self._login_timeout = None if login_timeout is None else whole_seconds("login_timeout", login_timeout)
        self._pool = Pool(Connector(connection), max_connections)
        self._statements = Statements(self._table)
        self._sweep = SweepTimer()

    def __repr__(self) -> str:
        return f"<LeaseStore {self._table}>"

    def lease(
        self,
        name: str,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
    ) -> SqlLease:
        """A lease of this table; the same as ``SqlLease(name, store, ...)``."""
        from .lease import SqlLease

        return SqlLease(
            name, self, owner_id=owner_id, metadata=metadata, options=options or LeaseOptions(), clock=clock
        )

    def get(self, name: str) -> LeaseInfo | None:
        """The row of a lease, held, resting or expired; None when there is none. Advisory: an unlocked read proves
        nothing.
        """
        rows = self._inspect(self._statements.get(check_lease_name(name)))
        return next((info for info in map(read_info, rows) if info.name == name), None)

    def list(self) -> list[LeaseInfo]:
        """All rows in the order of their names. Advisory, like ``get``."""
        return [read_info(row) for row in self._inspect(self._statements.list())]

    def break_lease(self, name: str, owner_id: str) -> LeaseInfo | None:
        """Takes a lease away from the owner that you saw, and from nobody else. Returns the row that went, None when
        it was not that owner's.

        **Not safe by itself**: the holder learns of it at its next renew and may work until then, at most until the
        row's ``expires_at``. That overlap is your decision.
        """
        check_lease_name(name)
        check_owner_id(owner_id)
        rows = self._inspect(self._statements.break_lease(name, owner_id, _PATIENCE.lock_timeout))
        return read_info(rows[0]) if rows else None

    def purge(self, older_than: Seconds = 3600.0, *, progress: Callable[[int], object] | None = None) -> int:
        """Deletes the rows that have been expired for at least ``older_than`` seconds, in small batches that wait for
        nobody; returns how many.

        progress: called after each batch with the number so far. A row that somebody has locked is left for the next
        time.
        """
        age = seconds("older_than", older_than)
        total = 0
        while True:
            ((answer,),) = self._inspect(self._statements.purge(age, _PURGE_BATCH, _PATIENCE.lock_timeout))
            deleted = int(answer)
            total += deleted
            if progress is not None and deleted:
                progress(total)
            if deleted == 0:
                return total

    def ensure_created(self) -> None:
        """Creates the schema and the table where they are missing: see ``sqllease.schema.ensure_created``."""
        self._obey(schema.ensure_created_in, self._table)

    def verify(self) -> builtins.list[schema.Check]:
        """Compares the table with what the library needs: see ``sqllease.schema.verify``."""
        return self._obey(schema.verify_in, self._table)

    def close(self) -> None:
        """Closes the idle connections. Releases no lease. The store can be used again."""
        self._pool.close()

    def ask(
        self,
        prepare: Callable[[], Statement],
        settle: Callable[[Rows], T],
        *,
        command_timeout: int,
        login_timeout: int,
        patience: float,
    ) -> T:
        """One question on one connection. ``prepare`` runs right before the send. Raises Retry with the fault."""
        with self._pool.take(self._login_timeout or login_timeout, patience) as connection:
            return settle(connection.ask(prepare(), command_timeout))

    def _inspect(self, statement: Statement) -> Rows:
        return self._obey(lambda connection: connection.ask(statement, _PATIENCE.command_timeout))

    def _obey(self, job: Callable[..., T], *args: Any) -> T:
        fault: Fault
        try:
            for attempt in Retrying(**retry_policy(SYSTEM_CLOCK, lambda: _PATIENCE.retry_budget), sleep=time.sleep):
                with (
                    attempt,
                    self._pool.take(
                        self._login_timeout or _PATIENCE.login_timeout, _PATIENCE.login_timeout
                    ) as connection,
                ):
                    return job(connection, *args)
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        error: LeaseError = fault.error()
        raise error
