"""The fence on an aioodbc connection. What is asked and what it means stands in ``sqllease.fence``."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any, TypeVar

from sqllease.base import LeaseBase
from sqllease.connection import load_pyodbc
from sqllease.errors import LeaseError, LeaseValueError
from sqllease.fence import _REFUSED, NO_TRANSACTION, Fence

T = TypeVar("T")


class AsyncFencing(LeaseBase):
    """What an async lease can do in the caller's transaction. connection: an aioodbc connection, or a cursor of one."""

    async def fence(self, connection: Any, token: int | None = None) -> None:
        """As ``SqlLease.fence``, on an aioodbc connection or cursor."""
        await check(Fence(self, self.tenure, token), connection)

    @asynccontextmanager
    async def fenced(self, connection: Any) -> AsyncIterator[Any]:
        """As ``SqlLease.fenced``, with ``async with``; gives an aioodbc cursor."""
        async with transaction(self, self.tenure, connection) as cursor:
            yield cursor


@asynccontextmanager
async def transaction(lease: LeaseBase, began: str | None, connection: Any) -> AsyncIterator[Any]:
    """The block of ``fenced``, for the tenure that was present when it was entered."""
    if connection.autocommit:
        raise LeaseValueError(_REFUSED[NO_TRANSACTION])
    Fence(lease, began)
    cursor = await connection.cursor()
    try:
        yield cursor
        await check(Fence(lease, began), connection)
        await _to_its_end(connection.commit())
    except BaseException:
        if not connection.closed:  # aioodbc closes what it finds dead: then the server has rolled back
            with suppress(load_pyodbc().Error):
                await _to_its_end(connection.rollback())
        raise
    finally:
        with suppress(load_pyodbc().Error):
            await _to_its_end(cursor.close())


async def check(fence: Fence, connection: Any) -> None:
    """Asks on the caller's connection, with a cursor of its own. A cancel waits for the answer: see ``_to_its_end``."""
    await _to_its_end(_check(fence, connection))


async def _check(fence: Fence, connection: Any) -> None:
    mine = connection.connection if hasattr(connection, "fetchone") else connection
    statement = fence.statement
    rows: list[Any] = []
    failure: LeaseError | None = None
    try:
        cursor = await mine.cursor()
        try:
            await cursor.execute(statement.text, statement.parameters)
            while True:
                if cursor.description and tuple(column[0] for column in cursor.description) == statement.columns:
                    rows = await cursor.fetchall()
                if not await cursor.nextset():
                    break
        except asyncio.CancelledError:
            raise  # by a loop that is being closed: the statement may still run, so the cursor stays open
        except BaseException:
            # On a dead link it fails as well, and must not hide what the statement's own error says.
            with suppress(load_pyodbc().Error):
                await cursor.close()
            raise
        with suppress(load_pyodbc().Error):
            await cursor.close()
    except load_pyodbc().Error as error:
        failure = fence.error(error)
    if failure is not None:
        raise failure
    fence.judge(rows)


async def _to_its_end(work: Coroutine[Any, Any, T]) -> T:
    """Runs the work to its end however often the task is cancelled, and then lets the cancel through.

    aioodbc has no cancel of its own: a cursor that is closed while its statement runs crashes the interpreter.
    """
    task = asyncio.ensure_future(work)
    cancel: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as error:
            cancel = error
    if cancel is None:
        return task.result()
    if not task.cancelled():
        task.exception()  # looked at: nobody else will
    raise cancel
