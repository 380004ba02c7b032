"""A stderr that decides nothing: writing to it never fails, and never waits.

Whoever reads it may have gone, its disk may be full, or nobody may read; the command is ended or kept by none of it.
"""

from __future__ import annotations

import io
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any

_PATIENCE_S = 1.0
"""So long the end waits for what is still to be written."""


class _Stderr(io.FileIO):
    """Raw, so that no lock is held and nothing buffered when the process ends. A thread writes, as only that never
    waits here: other processes write to the same pipe, and are not to see it non-blocking.
    """

    def __init__(self) -> None:
        super().__init__(2, "wb", closefd=False)
        self._unwritten: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="sqllease-stderr", daemon=True)
        self._thread.start()

    def write(self, data: Any) -> int:
        copy = bytes(data)
        self._unwritten.put(copy)
        return len(copy)

    def finish(self) -> None:
        self._unwritten.put(None)
        self._thread.join(_PATIENCE_S)

    def _run(self) -> None:
        while (data := self._unwritten.get()) is not None:
            with suppress(OSError):
                super().write(data)


@contextmanager
def harmless() -> Iterator[None]:
    """While it lasts, ``sys.stderr`` is such a one; where stderr is closed, it stays so."""
    given = sys.stderr
    if given is None:
        yield
        return
    raw = _Stderr()
    # As Python itself does for ``-u``.
    sys.stderr = io.TextIOWrapper(raw, given.encoding, given.errors, line_buffering=True, write_through=True)
    try:
        yield
    finally:
        raw.finish()
        sys.stderr = given
