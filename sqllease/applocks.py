"""``AppLockProvider``: locks by ``sp_getapplock``, each on a connection that it keeps for itself.

Such a lock is in no table and has no expiry: it ends with its session. When the link dies the server frees it, and its
holder is told when it asks: ``is_held``. Knows nothing of leases.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from tenacity import Retrying, retry_if_exception

from .answers import Row
from .clock import SYSTEM_CLOCK
from .connection import Connect, Connection, Connector
from .errors import LeaseConfigurationError, LeaseValueError
from .faults import Fault, Kind, Retry, retry_policy
from .names import APPLOCK_UNITS, IDENTIFIER_UNITS, applock_name, check_identifier, new_owner_id
from .options import LeaseOptions, Seconds, whole_seconds
from .pool import Pool
from .statements import Statement, template

PATIENCE = LeaseOptions()
"""Time-outs as those of a lease of 30 seconds."""
LOST = -1
"""What a lock is counted as when its session could not be asked."""


class AppLocks:
    """The colourless half of ``AppLockProvider`` and ``AsyncAppLockProvider``: what is asked, and what it means."""

    def __init__(
        self,
        connection: str | Connect,
        *,
        prefix: str,
        principal: str,
        max_locks: int,
        login_timeout: Seconds | None,
    ) -> None:
        if type(max_locks) is not int or max_locks < 1:
            raise LeaseValueError(f"max_locks must be a whole number of at least 1, not {max_locks!r}")
        self._connector = Connector(connection)
        self._prefix = prefix
        self._principal = check_identifier("a database principal", principal)
        self._login_timeout = (
            PATIENCE.login_timeout if login_timeout is None else whole_seconds("login_timeout", login_timeout)
        )

    def _name(self, resource: str) -> str:
        return applock_name(self._prefix + resource)

    def _statement(self, verb: str, name: str) -> Statement:
        return Statement(
            template(f"applock_{verb}"), (name, self._principal), (APPLOCK_UNITS, IDENTIFIER_UNITS), ("Result",)
        )

    def _policy(self) -> dict[str, Any]:
        # A place does not become free by asking again: locks last.
        policy = retry_policy(SYSTEM_CLOCK, PATIENCE.retry_budget)
        return policy | {"retry": policy["retry"] & retry_if_exception(_is_not_full)}

    def _granted(self, rows: Sequence[Row]) -> bool:
        """Whether sp_getapplock has granted the lock. Raises what its other return codes mean."""
        result = rows[0][0]
        if result in (-2, -3):
            raise Retry(Fault(Kind.CONTENTION, text="the lock request was cancelled, or the victim of a deadlock"))
        if result < LOST:
            raise LeaseConfigurationError(
                f"sp_getapplock answered {result}: is this login a member of the database principal "
                f"{self._principal!r}?"
            )
        return bool(result >= 0)


def _is_not_full(error: BaseException) -> bool:
    return not (isinstance(error, Retry) and error.fault.kind is Kind.BUSY)


BROKEN = Fault(Kind.MOVED, text="the link broke behind the answer, and the lock went with its session")


@dataclass(eq=False, slots=True)
class _Pinned:
    """One lock and the connection that it lives on. ``undo`` gives the connection back."""

    name: str
    connection: Connection
    undo: ExitStack
    turn: threading.Lock = field(default_factory=threading.Lock)
    pid: int = field(default_factory=os.getpid)


class AppLockProvider(AppLocks):
    """Locks by ``sp_getapplock``, owned by a session on a connection each, as those of Brighter's MS SQL provider: with
    the same resource and principal a Python and a .NET process exclude each other.

    connection: an ODBC connection string, or a callable that returns a new pyodbc connection. prefix: a key space, put
    in front of each resource; a name of more than 255 UTF-16 units ends in a hash. principal: members of this role of
    the database may hold the locks, and only they compete. max_locks: how many locks, and so connections, at once; one
    more is LeaseStoreError after ``login_timeout`` seconds. Idle connections are used again: a lost try needs no login.

    **There is no expiry.** The server frees a lock when it sees that the session has ended: at once after a close or a
    crash, after minutes when the network fell silent, always at a failover or restart. The holder is told by
    ``is_held`` only. A middlebox that cuts idle links (Azure: 30 minutes) ends the lock too: ask now and then.
    """

    def __init__(
        self,
        connection: str | Connect,
        *,
        prefix: str = "",
        principal: str = "public",
        max_locks: int = 8,
        login_timeout: Seconds | None = None,
    ) -> None:
        super().__init__(
            connection, prefix=prefix, principal=principal, max_locks=max_locks, login_timeout=login_timeout
        )
        self._pool = Pool(self._connector, max_locks)
        self._pinned: dict[str, _Pinned] = {}

    def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it. Errors as those of ``SqlLease``."""
        name = self._name(resource)
        fault: Fault
        try:
            for attempt in Retrying(**self._policy(), sleep=time.sleep):
                with attempt:
                    return self._obtain(name)
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        raise fault.error()

    def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now. False: it was not, or its session had ended."""
        return self._end(self._name(resource), lock_id, "release")

    def is_held(self, resource: str, lock_id: str) -> bool:
        """Asks the server whether the lock's own session still has it. False is final: the lock is forgotten."""
        pinned = self._find(self._name(resource), lock_id)
        if pinned is None:
            return False
        with pinned.turn:
            if self._pinned.get(lock_id) is pinned and self._ask(pinned, "look"):
                return True
        self._end(pinned.name, lock_id, None)
        return False

    def close(self) -> None:
        """Ends the session of every lock, and with it the lock; closes the idle connections too."""
        for lock_id, pinned in list(self._pinned.items()):
            self._end(pinned.name, lock_id, None)
        self._pool.close()

    def _obtain(self, name: str) -> str | None:
        with ExitStack() as undo:
            connection = undo.enter_context(self._pool.take(self._login_timeout, self._login_timeout))
            granted = self._granted(connection.ask(self._statement("obtain", name), PATIENCE.command_timeout))
            if not connection.usable:
                raise Retry(BROKEN)
            if not granted:
                return None
            lock_id = new_owner_id()
            self._pinned[lock_id] = _Pinned(name, connection, undo.pop_all())
        return lock_id

    def _find(self, name: str, lock_id: str) -> _Pinned | None:
        pinned = self._pinned.get(lock_id)
        # A forked child holds nothing: the sessions are its parent's.
        return pinned if pinned is not None and pinned.name == name and pinned.pid == os.getpid() else None

    def _end(self, name: str, lock_id: str, verb: str | None) -> bool:
        pinned = self._find(name, lock_id)
        if pinned is None or self._pinned.pop(lock_id, None) is None:
            return False
        with pinned.undo, pinned.turn:
            released = verb is not None and self._ask(pinned, verb)
            if not released:
                pinned.connection.drop()  # whatever is left ends with its session
        return released

    def _ask(self, pinned: _Pinned, verb: str) -> bool:
        if not pinned.connection.usable:
            return False
        try:
            rows = pinned.connection.ask(self._statement(verb, pinned.name), PATIENCE.command_timeout)
        except Retry:
            return False
        return bool(rows[0][0] == 0)
