"""``Lost``: the news that a hold has ended under its work. Set once, for good, from any thread.

It also looks at the clock each time that it is asked, so it is never later than the lease, whatever the threads do.
Nothing here waits for a lock, so neither a renewal that hangs nor a signal handler that asks can delay it.
"""

from __future__ import annotations

import os
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import suppress

from . import journal

LOOK_S = 0.5
"""Whoever waits looks at the lease's clock at least so often: a machine that slept has moved it."""


class Lost:
    """Whether and why a hold was lost. left: seconds for which the lease may still be believed in, without I/O.
    first: what has to be done before anybody hears of it.
    """

    def __init__(
        self, name: str, owner_id: str, left: Callable[[], float], first: Callable[[], object] | None = None
    ) -> None:
        self._name, self._owner_id = name, owner_id
        self._left, self._first = left, first
        self._event = threading.Event()
        self._decided = threading.Lock()
        """Taken once, by whoever decides how the hold ends, and never given back."""
        self._listeners: deque[Callable[[], object]] = deque()
        self._over = False
        self._pid = os.getpid()
        self.reason = ""
        self.cause: BaseException | None = None

    def is_set(self) -> bool:
        """True from the moment on at which this process may no longer believe that it holds."""
        if self._pid != os.getpid():
            return True  # a forked child holds nothing, and must not touch a lock that was taken when it was forked
        if not self._event.is_set() and not self._over and self._left() <= 0:
            self.set("its time has run out")
            return True
        return self._event.is_set()

    def set(self, reason: str, cause: BaseException | None = None, *, told: bool = False) -> None:
        """The hold is lost. The first reason stays; listeners run once, in the thread that brought the news.

        told: the log has the loss already.
        """
        if not self._decided.acquire(blocking=False):
            return
        try:
            self.reason, self.cause = reason, cause
            if self._first is not None:
                self._first()
        finally:  # also when Ctrl-C comes in between: over() waits for it
            self._event.set()
        if not told:
            with suppress(Exception):  # a log that fails must not keep the listeners from hearing
                journal.hold_lost(self._name, self._owner_id, reason, cause)
        self._tell()

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the hold is lost, at most ``timeout`` seconds; whether it is. A hold that ends in order is never
        lost.
        """
        ends = None if timeout is None else time.monotonic() + timeout
        while not self.is_set():
            pause = self._pause(ends)
            if pause is None:
                return False
            self._event.wait(pause)
        return True

    def listen(self, listener: Callable[[], object]) -> None:
        """Runs the listener when the hold is lost, at once if it is already. Its errors are logged, nothing more."""
        self._listeners.append(listener)
        if self._event.is_set():
            self._tell()

    def forget(self, listener: Callable[[], object]) -> None:
        """Takes a listener back."""
        with suppress(ValueError):
            self._listeners.remove(listener)

    def over(self) -> bool:
        """The hold has ended: from now on it can no longer be lost. False when it was lost before."""
        if self._decided.acquire(blocking=False):
            self._over = True
        elif not self._over:
            self._event.wait(LOOK_S)  # somebody is at this moment about to set it
        return self._over

    def _pause(self, ends: float | None) -> float | None:
        """Seconds until the next look at the clock; None when the patience that ends then is at an end."""
        pause = LOOK_S if self._over else min(LOOK_S, max(0.0, self._left()))
        if ends is None:
            return pause
        patience = ends - time.monotonic()
        return None if patience <= 0 else min(pause, patience)

    def _tell(self) -> None:
        # Each listener is taken off before it runs, so two threads that come here together tell each of them once.
        while self._listeners:
            try:
                listener = self._listeners.popleft()
            except IndexError:
                return
            try:
                listener()
            except (Exception, SystemExit) as error:  # noqa: BLE001  a listener's bug ends no thread by chance
                with suppress(Exception):
                    journal.listener_failed(self._name, error)
            except BaseException:
                self._tell()
                raise
