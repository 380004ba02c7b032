"""``LeaseStore``: one lease table in one database, its few connections, and what an operator may look at and end.

Knows how to wait for a connection and to ask again. What is asked stands in ``table`` and ``base``, for both colours.
"""

from __future__ import annotations

import builtins
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from tenacity import Retrying

from .answers import LeaseInfo, Row
from .clock import SYSTEM_CLOCK, Clock
from .connection import Connect
from .faults import Fault, Retry
from .options import LeaseOptions, ReplicaOptions, Seconds
from .pool import Pool
from .replica import Confirmation
from .statements import Statement
from .table import PATIENCE, Job, LeaseTable
from .verification import Check

if TYPE_CHECKING:
    from .lease import SqlLease

T = TypeVar("T")


class LeaseStore(LeaseTable):
    """One lease table in one database.

    connection: an ODBC connection string, or a callable without arguments that returns a new pyodbc connection.
    schema, table: where the table is; any text is a name, quotes and brackets included. max_connections: how many
    connections at most, opened when first needed and shared by all leases of the store. login_timeout: whole seconds;
    default a sixth of the calling lease's duration. replica: see ReplicaOptions; it has one connection of its own.

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
        replica: ReplicaOptions | None = None,
    ) -> None:
        super().__init__(
            connection,
            schema=schema,
            table=table,
            max_connections=max_connections,
            login_timeout=login_timeout,
            replica=replica,
        )
        self._pool = Pool(self._connector, max_connections)
        self._replica_pool = Pool(self._replica_connector, 1) if self._replica_connector else None

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
            name,
            self,
            owner_id=owner_id,
            metadata=metadata,
            options=LeaseOptions() if options is None else options,
            clock=clock,
        )

    def get(self, name: str) -> LeaseInfo | None:
        """The row of a lease, held, resting or expired; None when there is none. Advisory: an unlocked read proves
        nothing.
        """
        return self._obey(self._get(name))

    def list(self) -> list[LeaseInfo]:
        """All rows in the order of their names. Advisory, like ``get``."""
        return self._obey(self._list())

    def break_lease(self, name: str, owner_id: str) -> LeaseInfo | None:
        """Takes a lease away from the owner that you saw, and from nobody else. Returns the row that went, None when
        it was not that owner's.

        **Not safe by itself**: the holder learns of it at its next renew and may work until then, at most until the
        row's ``expires_at``. That overlap is your decision.
        """
        # Not asked again after an unanswered try: None would then say that it was not that owner's.
        return self._obey(self._break_lease(name, owner_id), budget=0.0)

    def purge(self, older_than: Seconds = 3600.0, *, progress: Callable[[int], object] | None = None) -> int:
        """Deletes the rows that have been expired for at least ``older_than`` seconds, in small batches that wait for
        nobody; returns how many.

        progress: called after each batch with the number so far. A row that somebody has locked is left for the next
        time. **older_than must not be below the largest takeover_grace that is used on the table**: a row that is gone
        keeps nobody waiting, whatever the holder still believes.
        """
        batch = self._purge_batch(older_than)
        total = 0
        while deleted := self._obey(batch):
            total += deleted
            if progress is not None:
                progress(total)
        return total

    def ensure_created(self) -> None:
        """Creates the schema and the table where they are missing: see ``sqllease.schema.ensure_created``."""
        self._obey(self._ensure_created())

    def verify(self) -> builtins.list[Check]:
        """Compares the table with what the library needs: see ``sqllease.schema.verify``."""
        return self._obey(self._verify())

    def close(self) -> None:
        """Closes the idle connections. Releases no lease. The store can be used again."""
        self._pool.close()
        if self._replica_pool is not None:
            self._replica_pool.close()

    def ask(
        self,
        prepare: Callable[[], Statement],
        settle: Callable[[Sequence[Row]], T],
        *,
        command_timeout: int,
        login_timeout: int,
        patience: float,
    ) -> T:
        """One question on one connection. ``prepare`` runs right before the send. Raises Retry with the fault."""
        with self._pool.take(self._login_timeout or login_timeout, patience) as connection:
            return settle(connection.ask(prepare(), command_timeout))

    def look(self, confirmation: Confirmation) -> None:
        """One look at the replica; what it shows, or why it does not, goes to the confirmation."""
        assert self._replica_pool is not None
        patience = confirmation.patience
        try:
            with self._replica_pool.take(patience, patience) as connection:
                rows = connection.ask(confirmation.statement, patience)
        except Retry as retry:
            confirmation.failed(retry.fault)
        else:
            confirmation.saw(rows)

    def _obey(self, job: Job[T], budget: float = PATIENCE.retry_budget) -> T:
        fault: Fault
        login_timeout = self._login_timeout or PATIENCE.login_timeout
        try:
            for attempt in Retrying(**self._policy(budget), sleep=time.sleep):
                with attempt, self._pool.take(login_timeout, PATIENCE.login_timeout) as connection:
                    return job(connection)
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        raise fault.error()
