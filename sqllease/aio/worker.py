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
from typing import Any, TypeAlias, TypeVar

T = TypeVar("T")

EXIT_PATIENCE_S = 2.0
"""At the interpreter's end all workers together may take so long to close their connections."""


class Worker:
    """Has what aioodbc and asyncio want of an executor: ``submit``. Its thread starts with the first job, and another
    one with the first job after ``end``: what is asked in an atexit handler is answered too.
    """

    def __init__(self) -> None:
        self._jobs: _Jobs | None = None
        self._changing = threading.Lock()
        _workers.add(self)

    def __del__(self) -> None:
        # One that is forgotten takes its thread with it, after the jobs that it still has.
        if self._jobs is not None:
            self._jobs.put(None)

    def submit(self, job: Callable[..., T], *arguments: Any) -> Future[T]:
        """Has the job done, behind those that came before. A job that has not begun can be cancelled."""
        future: Future[T] = Future()
        with self._changing:
            if self._jobs is None:
                jobs: _Jobs = queue.SimpleQueue()
                thread = threading.Thread(target=_work, args=(jobs,), name="sqllease", daemon=True)
                thread.start()
                _threads.add(thread)
                self._jobs = jobs
            self._jobs.put(lambda: _do(future, job, arguments))
        return future

    def end(self) -> None:
        """The thread ends when it has done what it has; never waits."""
        with self._changing:
            jobs, self._jobs = self._jobs, None
        if jobs is not None:
            jobs.put(None)


_Jobs: TypeAlias = "queue.SimpleQueue[Callable[[], None] | None]"
_workers: weakref.WeakSet[Worker] = weakref.WeakSet()
_threads: weakref.WeakSet[threading.Thread] = weakref.WeakSet()


def _work(jobs: _Jobs) -> None:
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
    for worker in list(_workers):
        worker.end()
    ends = time.monotonic() + EXIT_PATIENCE_S
    for thread in list(_threads):
        thread.join(max(0.0, ends - time.monotonic()))
