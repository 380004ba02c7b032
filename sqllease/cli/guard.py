"""The guard: ends the command's process group when the wrapper no longer can. Run as a file; standard library only.

It knows a process group, a deadline and a grace, told by the wrapper over the socket that is its stdin; nothing of
leases. No news until shortly before the deadline (the wrapper is stopped): TERM at deadline − grace, KILL at the
deadline. The wrapper has gone: TERM at once, KILL after the grace, and not after the deadline.

The wrapper writes lines: ``watch PGID DEADLINE GRACE``, ``until DEADLINE``, ``done``. The guard answers one byte: ``k``
to watch, ``t`` before it sends TERM.
"""

from __future__ import annotations

import math
import os
import select
import signal
import sys
import time
from contextlib import suppress

_LOOK_S = 0.5
"""How often it looks at the clock at least: a machine that slept has moved it."""
_AGAIN_S = 0.02
_INSIST_S = 5.0
"""For so long KILL is repeated; a group that is then still there consists of the dead that nobody buries."""


def now() -> float:
    """Seconds of the clock that the wrapper's deadlines are on."""
    clock = getattr(time, "CLOCK_BOOTTIME", None)
    return time.monotonic() if clock is None else time.clock_gettime(clock)


class Guard:
    """One group under watch."""

    def __init__(self) -> None:
        self._pgid = 0
        self._deadline, self._grace = math.inf, 0.0
        self._warned = False
        self._unread = b""

    def run(self) -> None:
        """Returns when the wrapper says that all is done, or when the group has ended."""
        while True:
            select.select([0], [], [], self._pause())
            # Before the news are read: this process may be stopped at any point, and more may come meanwhile.
            moment = now()
            if not self._hear():
                return
            if self._pgid:
                self._look(moment)

    def _hear(self) -> bool:
        """Heeds all that has come, as only the last deadline counts. False when nothing is left to guard."""
        while select.select([0], [], [], 0)[0]:
            try:
                news = os.read(0, 4096)
            except OSError:
                news = b""  # the wrapper died with an answer of ours unread
            if not news:
                self._alone()
                return False
            if not self._heed(news):
                return False
        return True

    def _heed(self, news: bytes) -> bool:
        *lines, self._unread = (self._unread + news).split(b"\n")
        for line in lines:
            word, *numbers = line.split()
            if word == b"done":
                return False
            if word == b"watch":
                self._pgid, self._deadline, self._grace = int(numbers[0]), float(numbers[1]), float(numbers[2])
                self._say(b"k")
            else:
                self._deadline = float(numbers[0])
        return True

    def _look(self, moment: float) -> None:
        if moment >= self._deadline - self._grace and not self._warned:
            self._say(b"t")  # first: the wrapper is to know when it sees the group end
            self._warn()
        if moment >= self._deadline:
            self._send(signal.SIGKILL)

    def _pause(self) -> float | None:
        if not self._pgid:
            return None
        next_act = self._deadline if self._warned else self._deadline - self._grace
        return min(_LOOK_S, max(_AGAIN_S, next_act - now()))

    def _alone(self) -> None:
        if not self._pgid:
            return
        end = min(self._deadline, now() + self._grace)
        there = self._warn()
        while there and now() < end:
            time.sleep(min(_AGAIN_S, max(0.0, end - now())))
            there = self._send(0)
        give_up = now() + _INSIST_S
        while there and now() < give_up:
            there = self._send(signal.SIGKILL)
            time.sleep(_AGAIN_S)

    def _warn(self) -> bool:
        self._warned = True
        there = self._send(signal.SIGTERM)
        self._send(signal.SIGCONT)  # a stopped process takes TERM only when it goes on
        return there

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self._pgid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs as somebody else
        return True

    @staticmethod
    def _say(byte: bytes) -> None:
        with suppress(OSError):
            os.write(0, byte)


def main() -> int:
    """Guards until it is told, or left, to end."""
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGTSTP):
        signal.signal(number, signal.SIG_IGN)  # whoever ends a whole service means the job first, its guard last
    os.chdir("/")
    Guard().run()
    return 0


if __name__ == "__main__":
    sys.exit(main())
