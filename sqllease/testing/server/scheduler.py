"""Runs the sessions' requests in turn in one thread, each in a greenlet of its own.

It knows when a task may be switched for another one (a seeded choice) and that a task waits; it knows nothing of SQL.
Only ``ServerClock`` measures its time-outs.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import greenlet

from .clock import ServerClock

TICKS_PER_MILLISECOND = 10_000


class Task:
    """One request being run. ``error`` is what its function raised, when it raised anything."""

    __slots__ = ("_greenlet", "_interrupt", "_scheduler", "_sleeping", "_woken", "done", "error", "on_done")

    def __init__(self, scheduler: Scheduler, function: Callable[[], object]) -> None:
        self.done = False
        self.error: BaseException | None = None
        self.on_done: Callable[[], None] | None = None
        self._scheduler = scheduler
        self._sleeping = True
        self._woken = False
        self._interrupt: BaseException | None = None
        self._greenlet = greenlet.greenlet(lambda: self._run(function))

    def interrupt(self, error: BaseException) -> None:
        """Raise ``error`` in the task: at its present wait, else at its next wait or pause. Engine's thread only."""
        if not self.done:
            self._interrupt = error
            self._scheduler._make_ready(self)

    def _run(self, function: Callable[[], object]) -> None:
        try:
            self._check()
            function()
        except BaseException as error:  # noqa: BLE001 - one task's failure must not end the others
            self.error = error
        self.done = True
        if self.on_done is not None:
            self.on_done()

    def _check(self) -> None:
        error, self._interrupt = self._interrupt, None
        if error is not None:
            raise error


class Scheduler:
    """Everything here is called in the engine's thread. The same seed and the same events give the same order."""

    def __init__(self, clock: ServerClock, seed: int = 0) -> None:
        self.clock = clock
        self.switch_probability = 0.25
        """The chance that ``pause`` lets another runnable task go first."""
        self.on_ready: Callable[[], None] | None = None
        """Called when a task became runnable while ``run`` is not running."""
        self.current: Task | None = None
        self._random = random.Random(seed)
        self._ready: list[Task] = []
        self._next: Task | None = None
        self._hub: greenlet.greenlet | None = None

    def spawn(self, function: Callable[[], object]) -> Task:
        """Make a task of ``function``; it starts in ``run``, perhaps while another task pauses or waits."""
        task = Task(self, function)
        self._make_ready(task)
        return task

    def run(self) -> None:
        """Run tasks, chosen by the seeded random, until none is runnable."""
        if self._hub is not None:
            return
        self._hub = greenlet.getcurrent()
        try:
            while self._ready or self._next:
                task, self._next = self._next or self._pick(), None
                if not task._greenlet:  # not started: it must come back here when it ends, wherever it was spawned
                    task._greenlet.parent = self._hub
                self.current = task
                task._greenlet.switch()
        finally:
            self._hub = self.current = None

    def pause(self) -> None:
        """A point where another session may run. Outside a task it does nothing."""
        task = self.current
        if task is None or self._hub is None:
            return
        if self._ready and self._random.random() < self.switch_probability:
            self._next = self._pick()
            self._ready.append(task)
            self._hub.switch()
        task._check()

    def block(self, timeout_ms: int | None, *, since: int | None = None) -> bool:
        """Sleep until ``wake`` (True) or until the clock has counted ``timeout_ms`` (False; None waits for ever).

        since: the ticks from which to count, where other threads saw the wait begin before this call. Who moves the
        clock on that sight would otherwise move it in vain.
        """
        task = self.current
        if task is None or self._hub is None:
            raise RuntimeError("only a task of the scheduler can wait")
        task._check()
        task._woken, task._sleeping = False, True
        timer = None
        if timeout_ms is not None:
            due = (self.clock.ticks() if since is None else since) + timeout_ms * TICKS_PER_MILLISECOND
            timer = self.clock.call_at(due, lambda: self._make_ready(task))
        try:
            self._hub.switch()
        finally:
            if timer is not None:
                timer.cancel()
        task._check()
        return task._woken

    def wake(self, task: Task) -> None:
        """End the wait of ``task``."""
        task._woken = True
        self._make_ready(task)

    def _pick(self) -> Task:
        return self._ready.pop(self._random.randrange(len(self._ready)))

    def _make_ready(self, task: Task) -> None:
        if task._sleeping:
            task._sleeping = False
            self._ready.append(task)
            if self._hub is None and self.on_ready is not None:
                self.on_ready()
