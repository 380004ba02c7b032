"""One pyodbc connection: opened when first needed, one question at a time, dropped on any doubt.

Knows how to open, ask, drain and drop. Knows nothing of leases. The async store runs the same code on a thread of its
own.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from .errors import LeaseConfigurationError, LeaseValueError
from .faults import Fault, Kind, Retry, read_fault
from .odbc import secrets
from .statements import Statement

if TYPE_CHECKING:
    import pyodbc

Connect = Callable[[], "pyodbc.Connection"]

_SQL_WVARCHAR = -9


class Connector:
    """How to get a new raw connection: an ODBC connection string, or a callable that returns one. Shows neither."""

    def __init__(self, connection: str | Connect) -> None:
        if isinstance(connection, str):
            if not connection.strip():
                raise LeaseValueError("the connection string is empty")
            self.string: str | None = connection
            self._make: Connect | None = None
            self.hidden = secrets(connection)
            _refuse_broken_text(connection)
        elif callable(connection):
            self.string, self._make = None, connection
            self.hidden = ()
        else:
            raise LeaseValueError(
                f"connection must be an ODBC connection string or a callable, not {type(connection).__name__}"
            )

    def __repr__(self) -> str:
        return "<Connector>"

    def open(self, login_timeout: int) -> pyodbc.Connection:
        """A new connection in autocommit mode. Raises Retry on any failure of the driver or the server."""
        odbc = load_pyodbc()
        fault = None
        try:
            raw = self._make() if self._make else odbc.connect(self.string, autocommit=True, timeout=login_timeout)
            if not raw.autocommit:
                raw.rollback()
                raw.autocommit = True
            return raw
        except odbc.Error as error:
            fault = read_fault(error, self.hidden, sent=False)
        raise Retry(fault)


def _refuse_broken_text(connection_string: str) -> None:
    # pyodbc would raise a UnicodeEncodeError that carries the whole string, password included.
    try:
        connection_string.encode("utf-16-le")
    except UnicodeEncodeError:
        broken = True
    else:
        broken = False
    if broken:
        raise LeaseValueError("the connection string holds bytes that are no text: look at how it was decoded")


def load_pyodbc() -> Any:
    """The module pyodbc, or LeaseConfigurationError where its own library is missing."""
    try:
        import pyodbc
    except ImportError as error:
        reason = str(error)
    else:
        return pyodbc
    raise LeaseConfigurationError(
        f"pyodbc cannot be loaded ({reason}): install the ODBC driver manager "
        "(Debian and Ubuntu: `apt-get install unixodbc`) and a driver"
    )


class Connection:
    """An open connection. Given to one caller at a time by its store."""

    def __init__(self, raw: pyodbc.Connection, hidden: tuple[str, ...] = ()) -> None:
        self._raw: pyodbc.Connection | None = raw
        self._hidden = hidden
        odbc = load_pyodbc()
        self._error: type[Exception] = odbc.Error
        # Ctrl-C makes Microsoft's driver fail. pyodbc then decodes the message by a codec in Python, where the pending
        # KeyboardInterrupt is raised and lost, unless the encoding is this one, which it decodes in C.
        raw.setdecoding(odbc.SQL_WMETADATA, encoding="utf-16")
        self._cursors: dict[int, pyodbc.Cursor] = {}
        self._declared: dict[int, tuple[int | None, ...]] = {}
        self._asking: pyodbc.Cursor | None = None
        self._closing = threading.Lock()
        self._broken = False
        _open.add(self)

    def ask(self, statement: Statement, command_timeout: int) -> list[Sequence[Any]]:
        """Sends one batch, drains every result set, and gives the rows of the one with the statement's columns.

        Raises Retry with the fault. Rows in hand are the answer: trouble behind them only shows in ``usable``. An
        answer without such a result set (a cancelled statement, with Microsoft's driver) is a fault: the outcome is
        unknown.
        """
        rows: list[Sequence[Any]] | None = None
        fault = None
        try:
            cursor = self._cursor(command_timeout)
            if self._declared.get(command_timeout) != statement.sizes:  # a cursor remembers what it was told
                cursor.setinputsizes([None if size is None else (_SQL_WVARCHAR, size, 0) for size in statement.sizes])
                self._declared[command_timeout] = statement.sizes
            self._asking = cursor
            cursor.execute(statement.text, statement.parameters)
            while True:
                if cursor.description and tuple(column[0] for column in cursor.description) == statement.columns:
                    rows = cursor.fetchall()
                if not cursor.nextset():
                    break
        except self._error as error:
            fault = read_fault(error, self._hidden, sent=True)
        except UnicodeDecodeError:
            # Half of a surrogate pair in Metadata or an owner: this library writes none, others may.
            fault = Fault(Kind.SET_UP, text="the lease table holds text that is not valid UTF-16")
            self.drop()
        finally:
            self._asking = None
        if rows is None and fault is None:
            fault = Fault(Kind.MOVED, text="the statement ended without an answer")
        if fault is not None and fault.breaks_connection:
            self._broken = True
        if fault is not None and (rows is not None or fault.breaks_connection):
            self.drop()
        if rows is None:
            assert fault is not None
            raise Retry(fault)
        return rows

    def run(self, text: str, command_timeout: int) -> None:
        """Sends one batch that has no answer, and drains it. Raises Retry with the fault."""
        fault = None
        try:
            cursor = self._cursor(command_timeout)
            cursor.execute(text)
            while cursor.nextset():
                pass
        except self._error as error:
            fault = read_fault(error, self._hidden, sent=True)
        if fault is not None:
            if fault.breaks_connection:
                self._broken = True
                self.drop()
            raise Retry(fault)

    @property
    def broken(self) -> bool:
        """True when the link to the server was found dead or in doubt: then other links may be too."""
        return self._broken

    @property
    def usable(self) -> bool:
        """False once the connection was dropped."""
        return self._raw is not None

    def cancel(self) -> None:
        """From another thread: asks the server to stop what is running. Never raises."""
        with self._closing:
            cursor = self._asking
            if cursor is not None:
                with contextlib.suppress(self._error):
                    cursor.cancel()

    def drop(self) -> None:
        """Closes the connection; never raises."""
        _open.discard(self)
        # A close while another thread's cancel is on its way crashes the interpreter, so it waits for that one.
        with self._closing:
            raw, self._raw, self._asking = self._raw, None, None
            cursors, self._cursors = self._cursors, {}
            if raw is not None:
                with contextlib.suppress(Exception):
                    raw.close()
            cursors.clear()

    def _cursor(self, command_timeout: int) -> pyodbc.Cursor:
        # One long-lived cursor: closing one after a statement with parameters costs a round trip (sp_unprepare).
        # A cursor keeps the time-out that the connection had when it was made.
        if command_timeout not in self._cursors:
            assert self._raw is not None
            self._raw.timeout = command_timeout
            self._cursors[command_timeout] = self._raw.cursor()
        return self._cursors[command_timeout]

    def abandon(self) -> None:
        """In a forked child: forget the driver objects without closing them. Closing, or collecting, would cut the
        parent's link.
        """
        for inherited in (self._raw, *self._cursors.values()):
            if inherited is not None:
                ctypes.pythonapi.Py_IncRef(ctypes.py_object(inherited))
        self._raw, self._cursors = None, {}


_open: weakref.WeakSet[Connection] = weakref.WeakSet()


def _abandon_all() -> None:
    for connection in list(_open):
        connection.abandon()
    _open.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_abandon_all)
