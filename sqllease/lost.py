"""``Lost``: the news that a hold has ended under its work. Set once, for good, from any thread.

It also looks at the clock each time that it is asked, so it is never later than the lease, whatever the threads do.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

from . import journal


class Lost:
    """Why and whether a hold was lost. ``is_set()`` needs no I/O and no lock that a hanging renewal could keep."""

    def __init__(self, name: str, owner_id: str, still_held: Callable[[], bool]) -> None:
        self._name, self._owner_id = name, owner_id
        self._still_held = still_held
        self._event = threading.Event()
        self._first = threading.Lock()
        self._listeners: list[Callable[[], object]] = []
        self._over = False
        self._pid = os.getpid()
        self.reason = ""
        self.cause: BaseException | None = None

    def is_set(self) -> bool:
        """True from the moment on at which this process may no longer believe that it holds."""
        if self._pid != os.getpid():
            return True  # a forked child holds nothing, and must not touch a lock that was taken when it was forked
        if not self._event.is_set() and not self._over and not self._still_held():
            self.set("its time has run out")
        return self._event.is_set()

    def set(self, reason: str, cause: BaseException | None = None, *, told: bool = False) -> None:
        """The hold is lost. The first reason stays; listeners run once, in the thread that brought the news.

        told: the log has the loss already.
        """
        with self._first:
            if self._event.is_set() or self._over:
                return
            self.reason, self.cause = reason, cause
            self._event.set()
        if not told:
            journal.hold_lost(self._name, self._owner_id, reason, cause)
        for listener in list(self._listeners):
            self._tell(listener)

    def wait(self, timeout: float | None = None) -> bool:
        """Blocks until the hold is lost, at most ``timeout`` seconds; whether it is."""
        return self._event.wait(timeout) or self.is_set()

    def listen(self, listener: Callable[[], object]) -> None:
        """Runs the listener when the hold is lost, at once if it is already. Its errors are logged, nothing more."""
        with self._first:
            late = self._event.is_set()
            if not late:
                self._listeners.append(listener)
        if late:
            self._tell(listener)

    def forget(self, listener: Callable[[], object]) -> None:
        """Takes a listener back."""
        with self._first:
            if listener in self._listeners:
                self._listeners.remove(listener)

    def over(self) -> None:
        """The hold has ended in order: it can no longer be lost."""
        with self._first:
            self._over = True

    def _tell(self, listener: Callable[[], object]) -> None:
        try:
            listener()
        except Exception as error:  # noqa: BLE001  a listener's bug must not keep the others from hearing
            journal.listener_failed(self._name, error)
