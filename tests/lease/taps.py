"""A connection with a tap: a test hears each statement before it goes out, and may change the rows that come back.

Knows pyodbc's names as far as the library uses them. Knows nothing of what a test wants to see.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyodbc

Rows = list[Any]


class Tap:
    """Callable that opens connections, to be handed to a store. Each hook may raise what it likes."""

    def __init__(self, dsn: str) -> None:
        self.dsn = dsn
        self.before: Callable[[str], None] = lambda text: None
        self.after: Callable[[str], None] = lambda text: None
        self.answer: Callable[[str, Rows], Rows] = lambda text, rows: rows

    def __call__(self) -> Any:
        return _Connection(pyodbc.connect(self.dsn, autocommit=True, timeout=5), self)


class _Around:
    """Passes everything on to what it stands for."""

    def __init__(self, inner: Any, tap: Tap) -> None:
        self.__dict__.update(inner=inner, tap=tap, text="")

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.inner, name, value)


class _Connection(_Around):
    def cursor(self) -> Any:
        return _Cursor(self.inner.cursor(), self.tap)


class _Cursor(_Around):
    def execute(self, text: str, *parameters: Any) -> None:
        self.__dict__["text"] = text
        self.tap.before(text)
        self.inner.execute(text, *parameters)
        self.tap.after(text)

    def fetchall(self) -> Rows:
        rows: Rows = self.tap.answer(self.text, list(self.inner.fetchall()))
        return rows
