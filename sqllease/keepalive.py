"""Two daemon threads for one hold: one renews, one watches the clock. They share no lock, connection or fate.

The renewing one knows three outcomes: renewed; lost (False: at once, once, no more renewals); unknown (any LeaseError:
try again shortly, until the local deadline). Anything else is a bug, and the hold is lost at once, with the cause.
Neither keeps a forgotten hold alive: they know it by a weak reference only. Native code that keeps the GIL can delay
both; ``lost.is_set()`` is right all the same.
"""

from __future__ import annotations

import threading
import weakref
from concurrent.futures import Future
from typing import Protocol

from . import journal
from .errors import LeaseError
from .lost import LOOK_S, Lost
from .pacing import Pace


class Kept(Protocol):
    """What is kept alive: a hold of either colour."""

    @property
    def lost(self) -> Lost: ...

    @property
    def remaining(self) -> float: ...

    @property
    def may_renew(self) -> bool: ...

    def renew_blocking(self) -> bool: ...


class KeepAlive:
    """Renews and watches one hold until ``stop``. pace: None starts no thread at all."""

    def __init__(self, hold: Kept, pace: Pace | None) -> None:
        self._stop = threading.Event()
        self.ended: Future[None] = Future()
        """Done once no renewal is made or in flight any more."""
        self.ended.set_running_or_notify_cancel()
        self._renew: threading.Thread | None = None
        if pace is None:
            self.ended.set_result(None)
            return
        hold_ref = weakref.ref(hold)
        self._renew = threading.Thread(
            target=_renew, args=(hold_ref, self._stop, pace, self.ended), name="sqllease-renew", daemon=True
        )
        watch = threading.Thread(target=_watch, args=(hold_ref, self._stop), name="sqllease-watch", daemon=True)
        try:
            self._renew.start()
            watch.start()
        except BaseException:
            self._stop.set()
            raise

    def stop(self, patience: float = 0.0) -> bool:
        """No more renewals; waits at most so long for the one in flight. False when it has not come back."""
        self._stop.set()
        if self._renew is None or self._renew is threading.current_thread():
            return True
        self._renew.join(max(0.0, patience))
        return not self._renew.is_alive()

    @property
    def running(self) -> bool:
        """True while renewals are made. False in a forked child, where threads do not live."""
        return self._renew is not None and self._renew.is_alive()


def _watch(hold_ref: weakref.ref[Kept], stop: threading.Event) -> None:
    while True:
        hold = hold_ref()
        if hold is None or hold.lost.is_set():
            return
        pause = min(hold.remaining, LOOK_S)
        del hold
        if stop.wait(pause):
            return


def _renew(hold_ref: weakref.ref[Kept], stop: threading.Event, pace: Pace, ended: Future[None]) -> None:
    try:
        failures = 0
        while _slept(hold_ref, stop, pace, failures):
            renewed = _renew_once(hold_ref, failures + 1)
            if renewed is None:
                return
            failures = 0 if renewed else failures + 1
    except BaseException as error:  # noqa: BLE001  also SystemExit: never a dead thread with a hold that seems alive
        hold = hold_ref()
        if hold is not None:
            hold.lost.set(f"the keep-alive failed ({type(error).__name__})", error)
    finally:
        ended.set_result(None)


def _slept(hold_ref: weakref.ref[Kept], stop: threading.Event, pace: Pace, failures: int) -> bool:
    """Sleeps until the next try is due, by real time or by the lease's clock, which goes on while the machine sleeps.
    False when there is nothing more to do.
    """
    hold = hold_ref()
    if hold is None:
        return False
    remaining = hold.remaining
    left = pace.until_retry(failures, remaining) if failures else pace.until_renewal(remaining)
    due = remaining - left
    del hold
    while left > 0:
        step = min(left, LOOK_S)
        if stop.wait(step):
            return False
        left -= step
        hold = hold_ref()
        if hold is None:
            return False
        if hold.remaining <= due:
            break
        del hold
    return not stop.is_set()


def _renew_once(hold_ref: weakref.ref[Kept], attempt: int) -> bool | None:
    """True: renewed. False: nobody knows. None: there is nothing to renew, or no longer."""
    hold = hold_ref()
    # After a long pause of the process the first act is to judge, not to renew and hope.
    if hold is None or hold.lost.is_set() or not hold.may_renew:
        return None
    try:
        if hold.renew_blocking():
            return True
    except LeaseError as error:
        journal.keep_alive_failed(error, attempt)
        return False
    hold.lost.set("a renewal found it gone, expired or taken", told=True)
    return None
