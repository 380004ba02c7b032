"""One daemon thread that does jobs in turn, for one connection.

A ThreadPoolExecutor's threads are joined when the interpreter ends: a driver that hangs in a login would keep the
process from ending. Here that join has a limit.
"""

from __future__ import annotations

import atexit
import queue
import threading
import time
import weakref
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")

EXIT_PATIENCE_S = 2.0
"""At the interpreter's end all workers together may take so long to close their connections."""


class Worker:
    """Has what aioodbc and asyncio want of an executor: ``submit``. Its thread starts with the first job."""

    def __init__(self) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._starting = threading.Lock()
        self._thread: threading.Thread | None = None
        _workers.add(self)
        # One that is forgotten takes its thread with it, after the jobs that it still has.
        weakref.finalize(self, self._jobs.put, None)

    def submit(self, job: Callable[..., T], *arguments: Any) -> Future[T]:
        """Has the job done, behind those that came before. A job that has not begun can be cancelled."""
        future: Future[T] = Future()
        self._jobs.put(lambda: _do(future, job, arguments))
        with self._starting:
            if self._thread is None:
                self._thread = threading.Thread(target=_work, args=(self._jobs,), name="sqllease", daemon=True)
                self._thread.start()
        return future

    def end(self) -> None:
        """The thread ends when it has done what it has; never waits."""
        self._jobs.put(None)

    def wait(self, patience: float) -> None:
        """Until the thread has ended, at most so many seconds."""
        if self._thread is not None:
            self._thread.join(patience)


_workers: weakref.WeakSet[Worker] = weakref.WeakSet()


def _work(jobs: queue.SimpleQueue[Callable[[], None] | None]) -> None:
    while (job := jobs.get()) is not None:
        job()
        del job  # else it would live, with all that it knows, until the next one comes


def _do(future: Future[Any], job: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        result = job(*arguments)
    except BaseException as error:  # noqa: BLE001  handed to whoever waits
        future.set_exception(error)
    else:
        future.set_result(result)


@atexit.register
def _wait_a_little() -> None:
    # Drivers should not be taken apart under a thread that is in them.
    workers = list(_workers)
    for worker in workers:
        worker.end()
    ends = time.monotonic() + EXIT_PATIENCE_S
    for worker in workers:
        worker.wait(max(0.0, ends - time.monotonic()))
