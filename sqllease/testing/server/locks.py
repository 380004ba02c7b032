"""Locks: modes, who waits for whom, time-outs and deadlocks. It knows resources only as hashable names.

Modes, compatibility and conversion follow Microsoft's "Transaction locking and row versioning guide". A mode is a pair
of a range and a row part (``RangeS-U``); two modes are compatible when their rows and their ranges are.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field
from functools import cache
from typing import Protocol

from .scheduler import Scheduler, Task
from .sqltypes import SqlError, Work

_COMPATIBLE = {  # requested: the existing modes beside which it is granted
    "N": "N Sch-S IS S U IX SIX X",
    "Sch-S": "N Sch-S IS S U IX SIX X",
    "IS": "N Sch-S IS S U IX SIX",
    "S": "N Sch-S IS S U",
    "U": "N Sch-S IS S",
    "IX": "N Sch-S IS IX",
    "SIX": "N Sch-S IS",
    "X": "N Sch-S",
    "Sch-M": "",
}
_RANGES_APART = {"RangeS RangeI", "RangeS RangeX", "RangeI RangeX", "RangeX RangeX"}  # pairs that exclude each other
_STRENGTH = ("N", "Sch-S", "IS", "S", "U", "IX", "SIX", "X", "Sch-M")
_JOINS = {"S IX": "SIX", "U IX": "X", "U SIX": "X"}  # where neither mode contains the other


def _parts(mode: str) -> tuple[str, str]:
    if mode.startswith("Range"):
        span, _, row = mode.partition("-")
        return span, row
    return "", mode


@cache
def compatible(requested: str, existing: str) -> bool:
    """Whether ``requested`` can be granted beside another owner's ``existing`` mode."""
    (span, row), (other_span, other_row) = _parts(requested), _parts(existing)
    if f"{span} {other_span}" in _RANGES_APART or f"{other_span} {span}" in _RANGES_APART:
        return False
    return other_row in _COMPATIBLE[row].split()


@cache
def join(held: str, requested: str) -> str:
    """The mode that an owner of ``held`` has after it also got ``requested``."""
    (span, row), (other_span, other_row) = _parts(held), _parts(requested)
    weak, strong = sorted((row, other_row), key=_STRENGTH.index)
    row = _JOINS.get(f"{weak} {strong}", strong)
    if span and other_span and span != other_span:
        span = "RangeX"
    span = span or other_span
    if span == "RangeS" and row == "X":
        span = "RangeX"  # there is no RangeS-X: a key updated in a locked range is RangeX-X
    return f"{span}-{row}" if span else row


class Session(Protocol):
    """What locks and storage ask of a session; read at every request, so that SET takes effect at once."""

    @property
    def id(self) -> int: ...
    @property
    def lock_timeout(self) -> int:
        """Milliseconds; -1 waits for ever."""

    @property
    def deadlock_priority(self) -> int: ...
    @property
    def work(self) -> Work: ...


class Owner:
    """Who holds locks: a transaction, or a session by itself. Owners of one session never exclude each other."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.held: dict[Hashable, str] = {}

    @property
    def log_used(self) -> int:
        """How much a rollback would have to undo; a deadlock costs the cheapest one its life."""
        return 0


@dataclass(eq=False, slots=True)
class _Request:
    owner: Owner
    mode: str  # after conversion
    converts: bool
    lasting: bool
    task: Task
    resource: Hashable
    granted: bool = False


@dataclass(slots=True)
class _Lock:
    granted: dict[Owner, str] = field(default_factory=dict)
    queue: list[_Request] = field(default_factory=list)


class LockManager:
    """First come, first served, conversions first. Cycles are looked for whenever somebody begins to wait."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._locks: dict[Hashable, _Lock] = {}
        self._waits: dict[Session, _Request] = {}

    def acquire(self, owner: Owner, resource: Hashable, mode: str, *, lasting: bool = True) -> str | None:
        """Wait for the lock, as long as the session's LOCK_TIMEOUT says. Returns the owner's mode before (None: none).

        With ``lasting`` False it only waits until the lock could be granted, and leaves nothing behind (RangeI-N).
        Raises 1205 as the victim of a deadlock, 1222 at the time-out, and whatever interrupts the task.
        """
        held = owner.held.get(resource)
        wanted = join(held, mode) if held else mode
        if wanted == held:
            return held
        self._scheduler.pause()
        owner.session.work.locks += 1
        if not self._grant_now(owner, resource, wanted, held, lasting):
            self._wait(owner, resource, wanted, held, lasting)
        return held

    def try_acquire(self, owner: Owner, resource: Hashable, mode: str, *, lasting: bool = True) -> bool:
        """Take the lock if it is free at this very moment; neither waits nor pauses."""
        held = owner.held.get(resource)
        wanted = join(held, mode) if held else mode
        if wanted == held:
            return True
        if not self._grant_now(owner, resource, wanted, held, lasting):
            return False
        owner.session.work.locks += 1
        return True

    def release(self, owner: Owner, resource: Hashable, to: str | None = None) -> None:
        """Give the lock back, or fall back to the weaker mode ``to``, what ``acquire`` has returned."""
        lock = self._locks.get(resource)
        if lock is None or owner not in lock.granted:
            return
        if to is None:
            del lock.granted[owner], owner.held[resource]
        else:
            lock.granted[owner] = owner.held[resource] = to
        self._serve(resource, lock)

    def release_all(self, owner: Owner) -> None:
        for resource in list(owner.held):
            self.release(owner, resource)

    def owners(self, resource: Hashable) -> dict[Owner, str]:
        """Who has a lock there, and its mode."""
        lock = self._locks.get(resource)
        return dict(lock.granted) if lock else {}

    def waiting(self, session: Session) -> tuple[Hashable, str] | None:
        """The resource and the mode that the session waits for."""
        request = self._waits.get(session)
        return (request.resource, request.mode) if request else None

    # --- granting --------------------------------------------------------------------------------

    def _grant_now(self, owner: Owner, resource: Hashable, mode: str, held: str | None, lasting: bool) -> bool:
        lock = self._locks.get(resource)
        if lock is None:
            if not lasting:
                return True
            lock = self._locks[resource] = _Lock()
        elif any(True for _ in self._obstacles(lock, owner, mode, None if held else len(lock.queue))):
            return False
        if lasting:
            lock.granted[owner] = owner.held[resource] = mode
        return True

    def _obstacles(self, lock: _Lock, owner: Owner, mode: str, ahead: int | None) -> Iterator[Owner]:
        """Owners in the way: of granted locks, and of the first ``ahead`` requests of the queue (None: no matter)."""
        for other, granted in lock.granted.items():
            if other.session is not owner.session and not compatible(mode, granted):
                yield other
        for request in lock.queue[: ahead or 0]:
            if request.owner.session is not owner.session and not compatible(mode, request.mode):
                yield request.owner

    def _blockers(self, request: _Request) -> Iterator[Owner]:
        lock = self._locks[request.resource]
        ahead = None if request.converts else lock.queue.index(request)
        return self._obstacles(lock, request.owner, request.mode, ahead)

    def _serve(self, resource: Hashable, lock: _Lock) -> None:
        for request in list(lock.queue):
            if any(True for _ in self._blockers(request)):
                continue
            lock.queue.remove(request)
            if request.lasting:
                lock.granted[request.owner] = request.owner.held[resource] = request.mode
            request.granted = True
            del self._waits[request.owner.session]
            self._scheduler.wake(request.task)
        if not lock.granted and not lock.queue:
            self._locks.pop(resource, None)

    # --- waiting ---------------------------------------------------------------------------------

    def _wait(self, owner: Owner, resource: Hashable, mode: str, held: str | None, lasting: bool) -> None:
        timeout = owner.session.lock_timeout
        if timeout == 0:
            raise _timed_out()
        task = self._scheduler.current
        if task is None:
            raise RuntimeError(f"{mode} on {resource!r} would wait outside a task")
        lock = self._locks[resource]
        request = _Request(owner, mode, held is not None, lasting, task, resource)
        place = sum(r.converts for r in lock.queue) if request.converts else len(lock.queue)
        lock.queue.insert(place, request)
        began = self._scheduler.clock.ticks()  # before anybody can see it wait
        self._waits[owner.session] = request
        owner.session.work.lock_waits += 1
        try:
            self._break_cycles(owner.session)
            if not request.granted:
                self._scheduler.block(None if timeout < 0 else timeout, since=began)
        finally:
            if not request.granted:
                self._withdraw(request)
        if not request.granted:
            raise _timed_out()

    def _withdraw(self, request: _Request) -> None:
        lock = self._locks.get(request.resource)
        if lock is not None and request in lock.queue:
            lock.queue.remove(request)
            del self._waits[request.owner.session]
            self._serve(request.resource, lock)

    def _break_cycles(self, start: Session) -> None:
        while cycle := self._cycle(start):
            victim = min(cycle, key=lambda r: (r.owner.session.deadlock_priority, r.owner.log_used, r is not cycle[0]))
            error = SqlError(
                1205,
                f"Transaction (Process ID {victim.owner.session.id}) was deadlocked on lock resources with another"
                " process and has been chosen as the deadlock victim. Rerun the transaction.",
                severity=13,
                state=51,
            )
            if victim.owner.session is start:
                raise error
            # Out of the queue at once, so that no further cycle has it; its locks stay until it has rolled back.
            self._withdraw(victim)
            victim.task.interrupt(error)

    def _cycle(self, start: Session) -> list[_Request] | None:
        """The requests of a circle of waits through ``start``, its own first."""
        seen: set[Session] = set()

        def search(session: Session) -> list[_Request] | None:
            request = self._waits.get(session)
            if request is None or session in seen:
                return None
            seen.add(session)
            for blocker in self._blockers(request):
                if blocker.session is start:
                    return [request]
                if found := search(blocker.session):
                    return [request, *found]
            return None

        return search(start)


def _timed_out() -> SqlError:
    return SqlError(1222, "Lock request time out period exceeded.", state=51)
