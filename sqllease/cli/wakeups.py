"""What wakes the main loop: signals of the process and news from other threads, through one pipe.

Handlers only note the signal; the interpreter writes the byte that ends the waiting. Nothing is lost between two
looks, and nothing has to be polled.
"""

from __future__ import annotations

import math
import os
import select
import signal
from contextlib import suppress
from types import FrameType

ENDING = tuple(
    number
    for number in (getattr(signal, name, None) for name in ("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT"))
    if number is not None
)


def readable(seconds: float, *descriptors: int) -> set[int]:
    """Waits until one of them can be read; those that can. Whoever started us may have left a thousand descriptors
    open: select() cannot look at numbers as high as ours are then.
    """
    looking = select.poll()
    for descriptor in descriptors:
        looking.register(descriptor, select.POLLIN)
    return {descriptor for descriptor, _ in looking.poll(math.ceil(1000 * max(0.0, seconds)))}


class Wakeups:
    """Made once, in the main thread. The pipe stays open until the process ends: a late signal must find it."""

    def __init__(self) -> None:
        self._arrived: list[int] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def install(self) -> None:
        """From now on signals are noted. What was ignored when the process started, as by nohup, stays ignored."""
        for number in ENDING:
            if signal.getsignal(number) != signal.SIG_IGN:
                signal.signal(number, self._note)
        signal.signal(signal.SIGCHLD, self._note_child)
        signal.set_wakeup_fd(self._write, warn_on_full_buffer=False)

    def ignore(self) -> None:
        """The exit code stands: a signal that comes while the interpreter ends must not change it."""
        for number in ENDING:
            signal.signal(number, signal.SIG_IGN)

    def notify(self) -> None:
        """Ends the present or the next ``wait``. From any thread."""
        with suppress(BlockingIOError):
            os.write(self._write, b"\0")

    def wait(self, seconds: float, *others: int) -> None:
        """Until a signal or a ``notify`` comes, or one of the other descriptors can be read."""
        if self._read in readable(seconds, self._read, *others):
            with suppress(BlockingIOError):
                while len(os.read(self._read, 4096)) == 4096:
                    pass

    def signals(self) -> list[int]:
        """The ending signals that have come since the last look, in their order."""
        arrived, self._arrived = self._arrived, []
        return arrived

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._arrived.append(number)

    def _note_child(self, number: int, frame: FrameType | None) -> None:
        pass
