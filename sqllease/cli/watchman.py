"""The wrapper's side of the guard: starts it, keeps it informed, and starts another when it has died."""

from __future__ import annotations

import math
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from . import guard
from .wakeups import readable

_ANSWER_S = 10.0
_LOOK_S = 0.1
_AT_MOST_EVERY_S = 1.0
_NEEDED = ("LD_LIBRARY_PATH",)
"""A Python in /opt may not start without it. The guard gets nothing else: no connection string, above all."""


class Watchman:
    """One guard at a time for one group."""

    def __init__(self, pgid: int, grace: float) -> None:
        self._pgid, self._grace = pgid, grace
        self._link: socket.socket
        self._process: subprocess.Popen[bytes]
        self._deadline = math.inf
        self._born = -math.inf
        self.acted = False
        """The guard has ended the group: it had no news in time."""

    def start(self, deadline: Callable[[], float]) -> bool:
        """Starts the first guard and waits until it watches; False when it cannot. The deadline is asked again while
        that takes: renewals go on, and the guard must not begin with one that is over.
        """
        self._deadline = deadline()
        try:
            self._hire()
        except OSError:
            return False
        give_up = guard.now() + _ANSWER_S
        while not self._answered and self.descriptor >= 0 and guard.now() < give_up:
            self.until(deadline())
            if readable(_LOOK_S, self.descriptor):
                self.listen()
        return self._answered

    @property
    def descriptor(self) -> int:
        """Can be read when the guard has said something, or died; -1 while there is none."""
        return self._link.fileno()

    def listen(self) -> None:
        """Reads what the guard has said."""
        try:
            said = self._link.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return
        except OSError:
            said = b""
        if not said:
            self._link.close()
            return
        self._answered = True
        self.acted = self.acted or b"t" in said

    def until(self, deadline: float) -> None:
        """Tells a new deadline; a guard that has died is replaced."""
        if self._link.fileno() < 0:
            if guard.now() - self._born >= _AT_MOST_EVERY_S:
                self._deadline = deadline
                with suppress(OSError):
                    self._hire()
        elif abs(deadline - self._deadline) > 0.01:
            self._deadline = deadline
            self._tell(f"until {deadline!r}\n")

    def done(self) -> None:
        """The group has ended, or goes its own way."""
        self._tell("done\n")
        self._link.close()

    def ended(self, pid: int, code: int) -> None:
        """A child has been buried: perhaps the guard."""
        if pid == self._process.pid:
            self._process.returncode = code
            self.listen()  # to its last words
            self._link.close()

    def _hire(self) -> None:
        self._born = guard.now()
        self._answered = False
        ours, its = socket.socketpair()
        with its:
            try:
                self._process = subprocess.Popen(
                    [sys.executable, "-I", "-S", str(Path(guard.__file__))],
                    stdin=its.fileno(),
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    env={key: os.environ[key] for key in _NEEDED if key in os.environ},
                    start_new_session=True,
                )
            except BaseException:
                ours.close()
                raise
        self._link = ours
        self._tell(f"watch {self._pgid} {self._deadline!r} {self._grace!r}\n")

    def _tell(self, line: str) -> None:
        # A guard that takes nothing more (it is stopped) must not stop the wrapper too.
        with suppress(OSError):
            self._link.send(line.encode(), socket.MSG_DONTWAIT)
