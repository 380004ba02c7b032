"""The fence: the lease row, locked in the caller's own transaction, as proof that the tenure is not over.

Exact for writes in the same database: a transaction that passed the fence commits before any take-over can, whatever
the clocks say. Knows how to ask on a connection that is not ours, and leaves it as it was.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from .base import LeaseBase
from .connection import load_pyodbc
from .errors import LeaseError, LeaseLost, LeaseValueError
from .faults import read_fault
from .statements import Statement

if TYPE_CHECKING:
    import pyodbc

NO_TRANSACTION, SNAPSHOT = 51001, 51002
_REFUSED = {
    NO_TRANSACTION: "the fence must run inside a transaction that is open until your writes commit: "
    "use a connection with autocommit off",
    SNAPSHOT: "the fence cannot run at the isolation level SNAPSHOT, which sees no take-over: use READ COMMITTED",
}


class Fence:
    """One question about one tenure, for a connection of either colour."""

    def __init__(self, lease: LeaseBase, began: str | None, token: int | None = None) -> None:
        """began: the tenure, as the caller knew it when its transaction began. Raises LeaseLost when it is over
        already.
        """
        present = lease._belief.tenure if lease._here else None
        if began is None or present is None or present.began != began:
            raise LeaseLost(f"lease {lease.name!r} is not held by {lease.owner_id!r}", "its tenure is over")
        if token is not None and token != present.token:
            raise LeaseLost(f"token {token} is not the present one of lease {lease.name!r}", "its tenure is over")
        self._lease = lease
        self.statement: Statement = lease._statements.fence(lease._name, lease._owner_id, began)

    def judge(self, rows: list[Any]) -> None:
        """Raises LeaseLost when the row is not there: roll back."""
        if not rows:
            raise LeaseLost(
                f"lease {self._lease.name!r} is no longer held by {self._lease.owner_id!r}: roll back",
                "its row was released or taken over",
            )

    def error(self, error: Exception) -> LeaseError:
        """What the driver's error means: nobody knows, so roll back."""
        fault = read_fault(error, (), sent=True)
        refused = _REFUSED.get(fault.number)
        return LeaseValueError(refused) if refused else fault.error()


class Fencing(LeaseBase):
    """What a blocking lease can do in the caller's transaction."""

    def fence(self, connection: pyodbc.Connection | pyodbc.Cursor, token: int | None = None) -> None:
        """Returns if this lease is held, and keeps its row locked until the caller's transaction ends.

        connection: yours, or a cursor of it, with your transaction open; in the database of the lease table. Put the
        call right before the commit: what it lets pass commits before anybody can take the lease over, whatever the
        clocks say. token: the fencing_token that your work began with; another than the present one is LeaseLost.

        Raises LeaseLost when it is not held: roll back. LeaseValueError without a transaction, or at SNAPSHOT.
        LeaseStoreError when nobody knows: roll back. Not covered: other databases and servers (use the token there).
        Keep the transaction short, and never renew the lease from inside it: the renewal waits for your commit.
        """
        check(Fence(self, self.tenure, token), connection)

    @contextmanager
    def fenced(self, connection: pyodbc.Connection) -> Iterator[pyodbc.Cursor]:
        """A transaction of yours under the fence: ``with lease.fenced(connection) as cursor``.

        Commits at the end of the block, after the fence has passed for the tenure in which the block was entered; rolls
        back and raises when it has not, or when the block fails. The connection must have autocommit off; what was not
        committed on it before the block is part of the transaction.
        """
        with transaction(self, self.tenure, connection) as cursor:
            yield cursor


@contextmanager
def transaction(lease: LeaseBase, began: str | None, connection: pyodbc.Connection) -> Iterator[pyodbc.Cursor]:
    """The block of ``fenced``, for the tenure that was present when it was entered."""
    if connection.autocommit:
        raise LeaseValueError(_REFUSED[NO_TRANSACTION])
    Fence(lease, began)
    cursor = connection.cursor()
    try:
        yield cursor
        check(Fence(lease, began), connection)
        connection.commit()
    except BaseException:
        with suppress(load_pyodbc().Error):
            connection.rollback()
        raise


def check(fence: Fence, connection: pyodbc.Connection | pyodbc.Cursor) -> None:
    """Asks on the caller's connection, with a cursor of its own: results of the caller's cursors stay as they are."""
    odbc = load_pyodbc()
    mine: pyodbc.Connection = connection.connection if isinstance(connection, odbc.Cursor) else connection
    statement = fence.statement
    rows: list[Any] = []
    failure: LeaseError | None = None
    try:
        cursor = mine.cursor()
        try:
            cursor.setinputsizes([(odbc.SQL_WVARCHAR, size, 0) for size in statement.sizes])
            cursor.execute(statement.text, statement.parameters)
            while True:
                if cursor.description and tuple(column[0] for column in cursor.description) == statement.columns:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    break
        finally:
            # On a dead link it fails as well, and must not hide what the statement's own error says.
            with suppress(odbc.Error):
                cursor.close()
    except odbc.Error as error:
        failure = fence.error(error)
    if failure is not None:
        raise failure
    fence.judge(rows)
