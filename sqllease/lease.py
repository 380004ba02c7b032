"""``SqlLease``: the sync lease. It asks, waits and obeys; what is sent and what an answer means stands in ``calls``."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from tenacity import Retrying

from .base import LeaseBase
from .calls import Acquire, Call, Find, Release, Renew
from .clock import SYSTEM_CLOCK, Clock
from .connection import Connect
from .errors import LeaseError, LeaseInUse, LeaseStoreError
from .faults import Fault, Retry
from .grants import Verdict
from .options import LeaseOptions
from .replica import Confirmation
from .store import LeaseStore

_DEFAULTS = LeaseOptions()


class SqlLease(LeaseBase):
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
        begins a new tenure.
        """
        acquire = Acquire(self)
        with self._one_at_a_time():
            return self._perform(acquire)

    def try_renew(self) -> bool:
        """True: the lease goes on for another duration. False: it is lost; stop. An exception: nobody knows, ``held``
        still tells the time left.
        """
        if not self._here:
            return False
        with self._one_at_a_time():
            return self._perform(Renew(self))

    def try_release(self) -> bool:
        """True: it was ours and is free now (or rests, see hold_at_least). False: there was nothing of ours.

        ``held`` is False before anything is sent. After an exception call it again: what was left is looked for.
        """
        if not self._here:
            return False
        with self._one_at_a_time():
            return self._give_back()

    def close(self) -> None:
        """Closes the connections, unless they belong to a store that was handed in. Does not release the lease."""
        if self._private:
            self._store.close()

    @contextmanager
    def _one_at_a_time(self) -> Iterator[None]:
        if self._busy_thread == threading.get_ident():
            raise LeaseInUse(f"lease {self._name!r}: a call of this very thread has not ended (from a signal handler?)")
        if not self._turn.acquire(timeout=self._options.duration):
            raise LeaseStoreError(f"lease {self._name!r}: another call has not come back", transient=True)
        self._busy_thread = threading.get_ident()
        try:
            yield
        finally:
            self._busy_thread = None
            self._turn.release()

    def _perform(self, call: Call) -> bool:
        verdict = self._ask(call)
        if verdict.confirm is not None:
            verdict = self._confirm(verdict.confirm)
        if verdict.give_back:
            with suppress(LeaseError):
                self._give_back(budget=0.0)
        if verdict.error is not None:
            raise verdict.error
        return verdict.value

    def _give_back(self, budget: float | None = None) -> bool:
        if self._perform(Release(self, budget=budget)):
            return True
        find = Find(self, budget=budget)
        return self._belief.in_doubt and self._perform(find) and self._perform(Release(self, find.began, budget=budget))

    def _confirm(self, confirmation: Confirmation) -> Verdict:
        try:
            while (pause := confirmation.pause()) is not None:
                time.sleep(pause)
                self._store.look(confirmation)
        except BaseException:
            if confirmation.grant.fresh:
                with suppress(LeaseError):
                    self._give_back(budget=0.0)
            raise
        return confirmation.verdict()

    def _ask(self, call: Call) -> Verdict:
        if call.void:
            return Verdict(False)
        call.begin()
        fault: Fault
        options = self._options
        try:
            for attempt in Retrying(**call.policy(), sleep=time.sleep):
                with attempt:
                    return self._store.ask(
                        call.prepare,
                        call.settle,
                        command_timeout=options.command_timeout,
                        login_timeout=options.login_timeout,
                        patience=call.left,
                    )
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        # Outside the handler, so that the driver's trouble hangs on no chain.
        return call.exhausted(fault)
