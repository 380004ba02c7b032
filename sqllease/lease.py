"""``SqlLease``: the sync lease. It asks, waits and obeys; what is sent and what an answer means stands in ``base``."""

from __future__ import annotations

import threading
import time
from contextlib import suppress

from tenacity import Retrying

from .base import LeaseBase
from .calls import Acquire, Call, Find, Release, Renew, Verdict
from .clock import SYSTEM_CLOCK, Clock
from .connection import Connect
from .errors import LeaseError
from .faults import Fault, Retry
from .options import LeaseOptions
from .store import LeaseStore

_DEFAULTS = LeaseOptions()


class SqlLease(LeaseBase):
    """One owner of one named lease in a SQL Server table.

    connection: an ODBC connection string, a callable that returns a new pyodbc connection, or a LeaseStore to share
    connections with other leases (and to name another schema or table). owner_id: who you are; by default a fresh id
    that nobody else can have. Two objects of the same owner id are one owner and do not exclude each other. metadata:
    free text for people who look at the table.

    Each verb is one round trip, waits for no other holder, and raises LeaseStoreError when nobody knows the outcome,
    LeaseConfigurationError when something has to be changed first. Safe for threads (calls are serialised), but still
    one owner: threads that are to exclude each other need an object each. In a forked child the copy owns nothing.

    Not guaranteed: fairness; that a paused process notices the end of its lease before it goes on (call ``check()``,
    or fence your writes).
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
        self._store = connection if isinstance(connection, LeaseStore) else LeaseStore(connection, max_connections=1)
        self._one_at_a_time = threading.Lock()
        super().__init__(
            name,
            owner_id=owner_id,
            metadata=metadata,
            options=options,
            clock=clock,
            statements=self._store._statements,
            sweep=self._store._sweep,
        )

    def try_acquire(self) -> bool:
        """True: this object holds the lease until ``remaining`` has run out. False: another owner has it, see
        ``holder``.

        On a lease that this object holds it is a refresh: same tenure, same token. After a release, or a loss, it
        begins a new tenure.
        """
        acquire = Acquire(self)
        with self._one_at_a_time:
            return self._perform(acquire)

    def try_renew(self) -> bool:
        """True: the lease goes on for another duration. False: it is lost; stop. An exception: nobody knows, ``held``
        still tells the time left.
        """
        if not self._here:
            return False
        with self._one_at_a_time:
            return self._perform(Renew(self))

    def try_release(self) -> bool:
        """True: it was ours and is free now (or rests, see hold_at_least). False: there was nothing of ours. ``held``
        is False before anything is sent.
        """
        if not self._here:
            return False
        with self._one_at_a_time:
            return self._give_back()

    def close(self) -> None:
        """Gives the connections back. Does not release the lease."""
        self._store.close()

    def _perform(self, call: Call) -> bool:
        verdict = self._ask(call)
        if verdict.give_back:
            with suppress(LeaseError):
                self._give_back()
        if verdict.error is not None:
            raise verdict.error
        return verdict.value

    def _give_back(self) -> bool:
        released = self._perform(Release(self))
        if not released and self._belief.unsettled and self._perform(Find(self)):
            released = self._perform(Release(self))
        return released

    def _ask(self, call: Call) -> Verdict:
        if call.void:
            return Verdict(False)
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
                        patience=options.retry_budget,
                    )
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        # Outside the handler, so that the driver's trouble hangs on no chain.
        return call.exhausted(fault)
