"""The child's first life: waits for the gate, then becomes the command. Run as a file; standard library only.

The gate is a pipe: one byte means go; its end without one means that the wrapper has gone or thought better of it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
from contextlib import suppress

NOT_EXECUTABLE, NOT_FOUND = 126, 127
_PATIENCE_MS = 1_000


def plain_environment() -> dict[str, str]:
    """The environment as this process was given it: in the C locale, Python adds an LC_CTYPE of its own."""
    environment = dict(os.environ)
    if "LC_CTYPE" in environment:
        try:
            with open("/proc/self/environ", "rb") as file:
                given = any(entry.startswith(b"LC_CTYPE=") for entry in file.read().split(b"\0"))
        except OSError:
            given = True
        if not given:
            del environment["LC_CTYPE"]
    return environment


def main() -> int:
    """Does not return where the command could be started."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    # Python ignores these two, and what is ignored stays so in the command.
    signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    signal.signal(signal.SIGXFSZ, signal.SIG_DFL)
    gate, command = int(sys.argv[1]), sys.argv[2:]
    if not os.read(gate, 1):
        return 0
    os.close(gate)
    try:
        os.execvpe(command[0], command, plain_environment())
    except (FileNotFoundError, NotADirectoryError):
        trouble, code = "command not found", NOT_FOUND
    except OSError as error:
        trouble, code = error.strerror or str(error), NOT_EXECUTABLE
    _say(f"sqllease: {os.fsencode(command[0]).decode('utf-8', 'backslashreplace')}: {trouble}\n")
    return code


def _say(line: str) -> None:
    """Writes it if that can be done at once: a stderr that nobody reads must not change the code or keep the lease."""
    signal.signal(signal.SIGPIPE, signal.SIG_IGN)
    stderr = select.poll()
    stderr.register(2, select.POLLOUT)
    if stderr.poll(_PATIENCE_MS):
        with suppress(OSError):
            os.write(2, line.encode("utf-8", "backslashreplace")[: select.PIPE_BUF])  # more might wait


if __name__ == "__main__":
    sys.exit(main())
