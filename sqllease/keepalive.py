"""Two daemon threads for one hold: one renews, one watches the clock. They share no lock, connection or fate.

The renewing one knows three outcomes: renewed; lost (False: at once, once, no more renewals); unknown (any LeaseError:
try again shortly, until the local deadline). Anything else is a bug, and the hold is lost at once, with the cause.
Neither keeps a forgotten hold alive: they know it by a weak reference only. Native code that keeps the GIL can delay
both; ``lost.is_set()`` is right all the same.
"""

from __future__ import annotations

import threading
import weakref
from typing import Protocol

from . import journal
from .errors import LeaseError
from .lost import Lost
from .pacing import Pace

_LOOK_S = 0.5
"""How often the watch looks at the clock at least: a machine that slept has moved it."""


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
    """Renews and watches one hold until ``stop``."""

    def __init__(self, hold: Kept, pace: Pace | None) -> None:
        self._stop = threading.Event()
        hold_ref = weakref.ref(hold)
        self._watch = threading.Thread(target=_watch, args=(hold_ref, self._stop), name="sqllease-watch", daemon=True)
        self._renew: threading.Thread | None = None
        if pace is not None:
            self._renew = threading.Thread(
                target=_renew, args=(hold_ref, self._stop, pace, hold.remaining), name="sqllease-renew", daemon=True
            )
            self._renew.start()
        self._watch.start()

    def stop(self, patience: float) -> bool:
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
        pause = min(hold.remaining, _LOOK_S)
        del hold
        if stop.wait(pause):
            return


def _renew(hold_ref: weakref.ref[Kept], stop: threading.Event, pace: Pace, remaining: float) -> None:
    failures = 0
    pause = pace.until_renewal(remaining)
    while not stop.wait(pause):
        hold = hold_ref()
        # After a long pause of the process the first act is to judge, not to renew and hope.
        if hold is None or hold.lost.is_set() or not hold.may_renew:
            return
        try:
            renewed = hold.renew_blocking()
        except LeaseError as error:
            failures += 1
            journal.keep_alive_failed(error, failures)
            pause = pace.until_retry(failures, hold.remaining)
        except BaseException as error:  # noqa: BLE001  also SystemExit: never a dead thread with a hold that seems alive
            hold.lost.set("the keep-alive failed", error)
            return
        else:
            if not renewed:
                hold.lost.set("a renewal found it gone, expired or taken", told=True)
                return
            failures = 0
            pause = pace.until_renewal(hold.remaining)
        del hold
