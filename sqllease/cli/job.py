"""The command as a process group: started behind a gate, signalled and watched as a whole.

Knows processes; nothing of leases or guards.
"""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from . import launch

_PR_SET_CHILD_SUBREAPER = 36


def adopt_orphans() -> None:
    """Makes this process the parent of its descendants' orphans, where the system can (Linux): it hears of their end,
    and no zombie that nobody buries makes a group look alive.
    """
    if sys.platform == "linux":
        with suppress(OSError, AttributeError):
            ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def fill_streams() -> None:
    """Puts /dev/null where stdin, stdout or stderr is closed: else a descriptor of ours would become the command's."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)  # the lowest free number, which is this one


def reap() -> dict[int, int]:
    """Buries every child that has ended: pid and how, negative for a signal."""
    ended = {}
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if pid == 0:
                break
            ended[pid] = os.waitstatus_to_exitcode(status)
    return ended


class Job:
    """One run of the command. It does not begin before ``begin``."""

    def __init__(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        """Raises OSError when no process can be started."""
        read_end, self._gate = os.pipe()
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-I", "-S", str(Path(launch.__file__)), str(read_end), *command],
                env=environment,
                pass_fds=[read_end],  # nothing else but stdin, stdout and stderr
                start_new_session=True,
            )
        except BaseException:
            os.close(self._gate)
            raise
        finally:
            os.close(read_end)
        self.pid = self._process.pid  # also the number of its group
        self.code: int | None = None

    def begin(self) -> None:
        """Opens the gate."""
        with suppress(BrokenPipeError):
            os.write(self._gate, b"g")
        os.close(self._gate)

    def call_off(self) -> None:
        """Closes the gate for good: the command never runs."""
        os.close(self._gate)

    def ended(self, code: int) -> None:
        """The direct child has been buried."""
        self.code = self._process.returncode = code

    @property
    def there(self) -> bool:
        """Whether anybody of the group is left."""
        return self._send(0)

    def send(self, number: int) -> None:
        """A signal to the whole group; one that should end it also wakes what is stopped."""
        self._send(number)
        if number != signal.SIGKILL:
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> bool:
        try:
            os.killpg(self.pid, number)
        except ProcessLookupError:
            return False
        except PermissionError:
            pass  # it runs as somebody else: it is there, and we may not end it
        return True
