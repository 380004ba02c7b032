"""Act two: an asynchronous replica, and a primary that dies before the row of a lease has arrived there.

Played twice: without confirmation both contenders work, with it only one. Runs on the stand-in only: it has to kill a
primary.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from sqllease import LeaseError, LeaseOptions, LeaseStore, ReplicaOptions, SqlLease
from sqllease.testing.server import LocalSqlServer

from .timeline import Lane, Span, Timeline

OPTIONS = LeaseOptions(duration=3.0)
CONFIRM_S = 1.0
LAG_S = 0.4
DEATH_AFTER_S = 0.3
_LOOK_S = 0.02
_POLL_S = 0.1


class Contender(threading.Thread):
    """Asks until it is told that it holds the lease, then works while it believes so, for one tenure."""

    def __init__(self, lease: SqlLease, began: float, delay: float) -> None:
        super().__init__(name=lease.owner_id, daemon=True)
        self.lane = Lane(lease.owner_id)
        self._lease, self._began, self._delay = lease, began, delay
        self._over = threading.Event()

    def run(self) -> None:
        self._over.wait(self._delay)
        while not self._over.is_set():
            asked = self._now()
            if self._answers(self._lease.try_acquire):
                self._note(asked, "asking")
                self._work()
                return
            if self._now() - asked > _POLL_S:
                self._note(asked, "asking")  # it was granted, and given back
            self._over.wait(_POLL_S)

    def finish(self) -> None:
        """The curtain falls."""
        self._over.set()
        self.join()

    def _work(self) -> None:
        began, renew_at = self._now(), self._now() + OPTIONS.duration / 3
        kind = "confirmed" if self._lease.confirmed else "held"
        while self._lease.held and not self._over.is_set():
            self._over.wait(_LOOK_S)
            if self._now() >= renew_at:
                renew_at += OPTIONS.duration / 3
                self._answers(self._lease.try_renew)
        self._note(began, kind)

    def _note(self, start: float, kind: str) -> None:
        self.lane.spans.append(Span(start, self._now(), kind))

    def _now(self) -> float:
        return time.monotonic() - self._began

    def _answers(self, verb: Callable[[], bool]) -> bool:
        try:
            return verb()
        except LeaseError:
            return False  # nobody knows: ask again


def play(driver: str, *, confirm: bool) -> Timeline:
    """One run: ada acquires, the primary dies with her row not yet replicated, bob finds the lease free."""
    with LocalSqlServer(database="demo", replica=True) as server:
        connection, replica = server.connection_string(driver=driver), _replica(server, driver, confirm)
        stores = [LeaseStore(connection, replica=replica) for _ in range(2)]
        stores[0].ensure_created()
        server.replica.wait_caught_up(10)
        server.replica.lag = 60.0
        began = time.monotonic()
        ada, bob = (
            Contender(store.lease("payroll", owner_id=name, options=OPTIONS), began, delay)
            for store, name, delay in zip(stores, ("ada", "bob"), (0.0, DEATH_AFTER_S / 2), strict=True)
        )
        ada.start()
        bob.start()
        time.sleep(DEATH_AFTER_S)
        died = time.monotonic() - began
        server.failover(lose_tail=True)
        server.replica.lag = LAG_S
        time.sleep(OPTIONS.duration)
        for contender in (ada, bob):
            contender.finish()
        for store in stores:
            store.close()
    title = "with confirmation by the replica" if confirm else "without confirmation"
    return Timeline(title, [ada.lane, bob.lane], [(died, "the primary dies; ada's row never reached the replica")])


def _replica(server: LocalSqlServer, driver: str, confirm: bool) -> ReplicaOptions | None:
    if not confirm:
        return None
    return ReplicaOptions(server.replica.connection_string(driver=driver), timeout=CONFIRM_S, poll_interval=0.05)
