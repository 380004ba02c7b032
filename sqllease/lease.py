"""``SqlLease``: the sync lease. What is sent and what an answer means stands in ``calls``, how it is done in
``shell``.
"""

from __future__ import annotations

import threading

from .calls import Acquire, Release, Renew
from .clock import SYSTEM_CLOCK, Clock
from .connection import Connect
from .errors import LeaseInUse, LeaseStoreError
from .fence import Fencing
from .hold import Terms
from .holding import Holdable
from .options import LeaseOptions, Seconds
from .shell import give_back, perform
from .store import LeaseStore

_DEFAULTS = LeaseOptions()


class SqlLease(Holdable, Fencing):
    """One owner of one named lease in a SQL Server table.

    connection: an ODBC connection string, a callable that returns a new pyodbc connection, or a LeaseStore to share
    connections with other leases (and to name another schema or table, or a replica). owner_id: who you are; by default
    a fresh id that nobody else can have. Two objects of the same owner id are one owner and do not exclude each other.
    metadata: free text for people who look at the table.

    Each verb is one round trip, waits for no other holder, and raises LeaseStoreError when nobody knows the outcome,
    LeaseConfigurationError when something has to be changed first. Safe for threads (calls are serialised), but still
    one owner: threads that are to exclude each other need an object each. In a forked child the copy owns nothing.

    Not guaranteed: fairness; that a paused process notices the end of its lease before it goes on (call ``check()``, or
    fence your writes); that a call returns at once when the link falls silent in the middle of a *login*, where the
    driver itself knows no time limit. ``held`` and ``check()`` never wait for any of it.
    """

    def __init__(
        self,
        name: str,
        connection: str | Connect | LeaseStore,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions = _DEFAULTS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._private = not isinstance(connection, LeaseStore)
        self._store = connection if isinstance(connection, LeaseStore) else LeaseStore(connection, max_connections=1)
        self._turn = threading.Lock()
        self._busy_thread: int | None = None
        super().__init__(
            name,
            owner_id=owner_id,
            metadata=metadata,
            options=options,
            clock=clock,
            statements=self._store._statements,
            sweep=self._store._sweep,
            replica=self._store._replica,
        )

    def try_acquire(self) -> bool:
        """True: this object holds the lease until ``remaining`` has run out. False: another owner has it: ``holder``.

        On a lease that this object holds it is a refresh: same tenure, same token. After a release, or a loss, it
        begins a new tenure. This and the other two verbs raise LeaseInUse while a hold of this object is entered.
        """
        return self._acquire(None)

    def try_renew(self) -> bool:
        """True: the lease goes on for another duration. False: it is lost; stop. An exception: nobody knows, ``held``
        still tells the time left.
        """
        return self._renew(None, raw=True)

    def try_release(self) -> bool:
        """True: it was ours and is free now (or rests, see hold_at_least). False: there was nothing of ours.

        ``held`` is False before anything is sent. After an exception call it again: what was left is looked for.
        """
        return bool(self._release(raw=True))

    def close(self) -> None:
        """Closes the connections, unless they belong to a store that was handed in. Does not release the lease."""
        if self._private:
            self._store.close()

    def _acquire(self, terms: Terms | None) -> bool:
        options = self._options if terms is None else terms.options
        acquire = Acquire(self, options)
        with self._one_at_a_time(acquire.left, raw=terms is None):
            self._present_options = options
            return perform(acquire, self._store)

    def _renew(self, duration: Seconds | None, *, raw: bool = False) -> bool:
        if not self._here:
            return False
        with self._one_at_a_time(raw=raw):
            return perform(Renew(self, duration), self._store)

    def _release(self, patience: float | None = None, *, raw: bool = False) -> bool | None:
        if not self._here:
            return False
        with self._one_at_a_time(patience, raw=raw):
            release = Release(self, budget=patience)
            done = give_back(self, self._store, release, budget=patience)
            return done or (None if release.repeated else False)

    def _one_at_a_time(self, patience: float | None = None, *, raw: bool = False) -> _Turn:
        return _Turn(self, self._options.duration if patience is None else patience, raw)


class _Turn:
    """``with``: the one call of a lease that is being made. A class, as a generator costs each call twice as much."""

    __slots__ = ("_lease", "_patience", "_raw")

    def __init__(self, lease: SqlLease, patience: float, raw: bool) -> None:
        self._lease, self._patience, self._raw = lease, patience, raw

    def __enter__(self) -> None:
        lease, me = self._lease, threading.get_ident()
        if self._raw:
            lease._refuse_when_claimed()
        if lease._busy_thread == me:
            raise LeaseInUse(
                f"lease {lease._name!r}: a call of this very thread has not ended (from a signal handler?)"
            )
        if not lease._turn.acquire(timeout=self._patience):
            raise LeaseStoreError(f"lease {lease._name!r}: another call has not come back", transient=True)
        try:
            lease._busy_thread = me
            if self._raw:
                lease._refuse_when_claimed()  # a hold may have been entered while this one waited
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_: object) -> None:
        self._lease._busy_thread = None
        self._lease._turn.release()
