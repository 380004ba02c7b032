"""A thread that acquires, holds and releases the lease, so that the main loop never waits for the database."""

from __future__ import annotations

import random
import threading
from collections.abc import Callable

from sqllease.clock import SYSTEM_CLOCK
from sqllease.errors import LeaseError, LeaseLost, LeaseNotAcquired
from sqllease.holding import Hold
from sqllease.lease import SqlLease

_POLL_S = 1.0


class Keeper:
    """One try, or many, at one lease. ``notify`` is called from the thread at each change.

    held: the hold while there is one. worked: to be set before work begins under it; else the row does not rest, so
    that another host may do the work. ended: nothing more will happen; then not_acquired, error and loss tell why.
    """

    def __init__(self, lease: SqlLease, *, wait: float, notify: Callable[[], None]) -> None:
        self.lease = lease
        self.held: Hold | None = None
        self.worked = False
        self.ended = False
        self.not_acquired: LeaseNotAcquired | None = None
        self.error: LeaseError | None = None
        self.loss: LeaseLost | None = None
        self.bug: BaseException | None = None
        self._wait, self._notify = wait, notify
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="sqllease-keeper", daemon=True)

    def start(self) -> None:
        """Begins to ask for the lease."""
        self._thread.start()

    def stop(self) -> None:
        """Asks no more; gives back what is held. ``ended`` comes when that is done."""
        self._stop.set()

    def _run(self) -> None:
        try:
            self._keep()
        except LeaseNotAcquired as error:
            self.not_acquired = error
        except LeaseLost as error:
            self.loss = error
        except LeaseError as error:
            self.error = error
        except BaseException as error:  # noqa: BLE001  the main thread raises it
            self.bug = error
        finally:
            self.ended = True
            self._notify()

    def _keep(self) -> None:
        give_up = SYSTEM_CLOCK.now() + self._wait
        while True:
            try:
                with self.lease.hold(timeout=0, on_lost=self._notify) as held:
                    self.held = held
                    self._notify()
                    self._stop.wait()
                    if not self.worked:
                        held.skip_rest()
                return
            except LeaseNotAcquired as error:
                left = give_up - SYSTEM_CLOCK.now()
                if left <= 0 or self._stop.wait(min(left, self._pause(error))):
                    raise

    @staticmethod
    def _pause(error: LeaseNotAcquired) -> float:
        pause = _POLL_S * (1.0 - 0.1 * random.random())
        return pause if error.holder is None else min(pause, max(0.01, error.holder.remaining))
