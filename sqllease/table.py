"""One lease table, whatever the colour of those who ask: what may be asked of it beside the verbs, as jobs for an open
connection.

A job runs on one connection and gives its result; a store only finds the connection, and asks again when the link was
in doubt.
"""

from __future__ import annotations

import builtins
from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from .answers import LeaseInfo, read_info
from .base import ReplicaMemory, SweepTimer
from .clock import SYSTEM_CLOCK
from .connection import Connect, Connection, Connector
from .ddl import ensure_created_in
from .errors import LeaseValueError
from .faults import retry_policy
from .names import TableName, check_lease_name, check_owner_id
from .odbc import with_default
from .options import LeaseOptions, ReplicaOptions, Seconds, seconds, whole_seconds
from .statements import Statements
from .verification import Check, verify_in

T = TypeVar("T")
Job: TypeAlias = Callable[[Connection], T]

PATIENCE = LeaseOptions()
"""Time-outs of calls that belong to no lease: those of a lease of 30 seconds."""
_PURGE_BATCH = 500


class LeaseTable:
    """The colourless half of ``LeaseStore`` and ``AsyncLeaseStore``."""

    def __init__(
        self,
        connection: str | Connect,
        *,
        schema: str,
        table: str,
        max_connections: int,
        login_timeout: Seconds | None,
        replica: ReplicaOptions | None,
    ) -> None:
        if type(max_connections) is not int or max_connections < 1:
            raise LeaseValueError(f"max_connections must be a whole number of at least 1, not {max_connections!r}")
        self._table = TableName(schema, table)
        self._login_timeout = None if login_timeout is None else whole_seconds("login_timeout", login_timeout)
        self._connector = Connector(connection)
        self._statements = Statements(self._table)
        self._sweep = SweepTimer()
        if replica is not None and not isinstance(replica, ReplicaOptions):
            raise LeaseValueError(f"replica must be ReplicaOptions, not {type(replica).__name__}")
        self._replica = None if replica is None else ReplicaMemory(replica)
        self._replica_connector = None if replica is None else Connector(_with_read_intent(replica.connection))

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._table}>"

    def _policy(self, budget: float = PATIENCE.retry_budget) -> dict[str, Any]:
        return retry_policy(SYSTEM_CLOCK, budget)

    def _get(self, name: str) -> Job[LeaseInfo | None]:
        statement = self._statements.get(check_lease_name(name))

        def job(connection: Connection) -> LeaseInfo | None:
            rows = connection.ask(statement, PATIENCE.command_timeout)
            return next((info for info in map(read_info, rows) if info.name == name), None)

        return job

    def _list(self) -> Job[builtins.list[LeaseInfo]]:
        return lambda connection: [
            read_info(row) for row in connection.ask(self._statements.list(), PATIENCE.command_timeout)
        ]

    def _break_lease(self, name: str, owner_id: str) -> Job[LeaseInfo | None]:
        statement = self._statements.break_lease(
            check_lease_name(name), check_owner_id(owner_id), PATIENCE.lock_timeout
        )

        def job(connection: Connection) -> LeaseInfo | None:
            rows = connection.ask(statement, PATIENCE.command_timeout)
            return read_info(rows[0]) if rows else None

        return job

    def _purge_batch(self, older_than: Seconds) -> Job[int]:
        statement = self._statements.purge(seconds("older_than", older_than), _PURGE_BATCH, PATIENCE.lock_timeout)
        return lambda connection: int(connection.ask(statement, PATIENCE.command_timeout)[0][0])

    def _ensure_created(self) -> Job[None]:
        return lambda connection: ensure_created_in(connection, self._table)

    def _verify(self) -> Job[builtins.list[Check]]:
        return lambda connection: verify_in(connection, self._table)


def _with_read_intent(connection: str | Connect) -> str | Connect:
    if isinstance(connection, str) and connection.strip():
        return with_default(connection, "ApplicationIntent", "ReadOnly")
    return connection
