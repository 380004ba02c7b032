"""The bare driver: the same text with the same declared parameters, drained the same way, and not a step more.

One open connection with one open cursor, as the lease has them. What a parameter is declared as is only said anew when
the text is another one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import aioodbc
import pyodbc

from sqllease.statements import Statement


def _sizes(statement: Statement) -> list[tuple[int, int, int] | None]:
    return [None if size is None else (pyodbc.SQL_WVARCHAR, size, 0) for size in statement.sizes]


class Bare:
    """pyodbc. Opened with the first call."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._connection: Any = None
        self._cursor: Any = None
        self._text = ""

    def ask(self, statement: Statement, parameters: Sequence[Any]) -> Sequence[Any]:
        """The one row of the answer. parameters: in place of the statement's."""
        text = statement.text
        if text != self._text:
            self._declare(statement)
        cursor = self._cursor
        cursor.execute(text, parameters)
        rows = cursor.fetchall()
        while cursor.nextset():
            pass
        row: Sequence[Any] = rows[0]
        return row

    def close(self) -> None:
        """Closes the connection, if it was opened."""
        if self._connection is not None:
            self._connection.close()

    def _declare(self, statement: Statement) -> None:
        if self._connection is None:
            self._connection = pyodbc.connect(self._connection_string, autocommit=True)
            self._cursor = self._connection.cursor()
        self._cursor.setinputsizes(_sizes(statement))
        self._text = statement.text


class AsyncBare:
    """aioodbc. Opened with the first call."""

    def __init__(self, connection_string: str) -> None:
        self._connection_string = connection_string
        self._connection: Any = None
        self._cursor: Any = None
        self._text = ""

    async def ask(self, statement: Statement, parameters: Sequence[Any]) -> Sequence[Any]:
        """As ``Bare.ask``."""
        text = statement.text
        if text != self._text:
            await self._declare(statement)
        cursor = self._cursor
        await cursor.execute(text, parameters)
        rows = await cursor.fetchall()
        while await cursor.nextset():
            pass
        row: Sequence[Any] = rows[0]
        return row

    async def close(self) -> None:
        """Closes the connection, if it was opened."""
        if self._connection is not None:
            await self._cursor.close()
            await self._connection.close()

    async def _declare(self, statement: Statement) -> None:
        if self._connection is None:
            self._connection = await aioodbc.connect(dsn=self._connection_string, autocommit=True)
            self._cursor = await self._connection.cursor()
        # On the cursor inside: no I/O, and through aioodbc it would be a change of threads that makes us look better.
        self._cursor._impl.setinputsizes(_sizes(statement))
        self._text = statement.text
