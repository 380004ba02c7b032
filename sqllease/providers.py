"""Lock providers: the small contract of obtaining and releasing a named lock, kept by a lease table or by one process.

``obtain_lock(resource)`` gives a lock id, or None when somebody else has the lock: leave this cycle out and ask again
at the next. The contract is that of Brighter's ``IDistributedLock``. Knows nothing of what the lock guards. The one
with application locks is in ``applocks``.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, runtime_checkable

from .base import LeaseBase
from .clock import Clock
from .errors import LeaseLost, LeaseNotAcquired, LeaseValueError
from .lease import SqlLease
from .names import check_lease_name, new_owner_id
from .options import LeaseOptions
from .store import LeaseStore

L = TypeVar("L", bound=LeaseBase)
Leave = TypeVar("Leave")


@runtime_checkable
class LockProvider(Protocol):
    """Named locks. Each obtain is an owner of its own, so two workers of one process exclude each other."""

    def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it. Never waits for another holder."""
        ...

    def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now. A wrong or an old id does nothing to anybody."""
        ...


@contextmanager
def locked(provider: LockProvider, resource: str) -> Iterator[str | None]:
    """``with locked(provider, "sweeper") as lock_id:`` gives the lock id, or None when somebody else has the lock. The
    lock is released however the block ends.
    """
    lock_id = provider.obtain_lock(resource)
    try:
        yield lock_id
    finally:
        if lock_id is not None:
            provider.release_lock(resource, lock_id)


class LeaseLocks(Generic[L, Leave]):
    """The colourless half of ``SqlLockProvider`` and ``AsyncSqlLockProvider``: which locks were obtained here."""

    def __init__(self, *, prefix: str, release: bool, keep_alive: bool) -> None:
        if keep_alive and not release:
            raise LeaseValueError("keep_alive=True needs release=True: a lock that is renewed never expires by itself")
        self._prefix = prefix
        self._release = release
        self._keep_alive = keep_alive
        self._obtained: dict[str, _Obtained[L, Leave]] = {}

    def is_held(self, resource: str, lock_id: str) -> bool:
        """Whether this process may still believe that it holds the lock: ``held`` of its lease. No I/O."""
        found = self._obtained.get(lock_id)
        return found is not None and found.lease.name == self._prefix + resource and found.lease.held

    def _remember(self, lease: L, leave: Leave) -> str:
        now = lease._clock.now()
        for lock_id, old in list(self._obtained.items()):
            if old.over(now):  # what has run out is nobody's by now
                self._obtained.pop(lock_id, None)
        self._obtained[lease.owner_id] = _Obtained(lease, leave, now + lease.options.duration)
        return lease.owner_id

    def _take(self, resource: str, lock_id: str) -> _Obtained[L, Leave] | None:
        """What was obtained under this id, to be released by this caller alone."""
        found = self._obtained.get(lock_id) if self._release else None
        if found is None or found.lease.name != self._prefix + resource:
            return None
        return self._obtained.pop(lock_id, None)  # of callers that come together one gets it; no lock to be forked


class _Obtained(NamedTuple, Generic[L, Leave]):
    """One lock. leave: gives it back. until: then its row has expired, if nobody renews it."""

    lease: L
    leave: Leave
    until: float

    def over(self, now: float) -> bool:
        """Whether there is nothing of it left to give back."""
        return not self.lease.held and now >= self.until


class SqlLockProvider(LeaseLocks[SqlLease, Callable[[], bool]]):
    """Locks that are leases in a table: they end by themselves when the holder dies, and survive a failover.

    store: its connections are shared, so no obtain needs a login of its own. options: ``duration`` should be well above
    a cycle of work, unless keep_alive renews. prefix: a key space, put in front of each resource; together a lease
    name. release=False: ``release_lock`` does nothing, and each lock lasts for its duration. keep_alive: a thread for
    each lock renews it until it is released.

    A lock id is the owner id in the table. Safe for threads. Errors as those of ``SqlLease``.
    """

    def __init__(
        self,
        store: LeaseStore,
        *,
        options: LeaseOptions | None = None,
        prefix: str = "",
        release: bool = True,
        keep_alive: bool = False,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(prefix=prefix, release=release, keep_alive=keep_alive)
        self._store = store
        self._keywords: dict[str, Any] = {"options": options} if clock is None else {"options": options, "clock": clock}

    def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it."""
        lease = self._store.lease(self._prefix + resource, **self._keywords)
        if self._keep_alive:
            leave = _enter_hold(lease)
        else:
            leave = lease.try_release if lease.try_acquire() else None
        return None if leave is None else self._remember(lease, leave)

    def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now (or rests, see hold_at_least). False: it was not, or
        it had been lost. After an exception call it again: what was left is looked for.
        """
        found = self._take(resource, lock_id)
        if found is None:
            return False
        try:
            return found.leave()
        except BaseException:
            self._remember(found.lease, found.lease.try_release)
            raise


def _enter_hold(lease: SqlLease) -> Callable[[], bool] | None:
    # The hold is entered in one call and left in another, maybe of another thread: it gets a context of its own.
    context, block = copy_context(), lease.hold(timeout=0)

    def leave() -> bool:
        try:
            context.run(block.__exit__, None, None, None)
        except LeaseLost:
            return False
        if hold.unreleased is not None:
            raise hold.unreleased
        return True

    try:
        hold = context.run(block.__enter__)
    except LeaseNotAcquired:
        return None
    return leave


class MemoryLockProvider:
    """Locks of this one process, for one instance and for tests. It excludes nobody in another process, so the library
    never chooses it for you. Nothing expires.
    """

    def __init__(self, *, prefix: str = "") -> None:
        self._prefix = prefix
        self._ids: dict[str, str] = {}
        self._changing = threading.Lock()

    def obtain_lock(self, resource: str) -> str | None:
        """The id of the lock, or None when somebody else has it."""
        name, lock_id = check_lease_name(self._prefix + resource), new_owner_id()
        with self._changing:
            return lock_id if self._ids.setdefault(name, lock_id) == lock_id else None

    def release_lock(self, resource: str, lock_id: str) -> bool:
        """True: the lock was held under this id and is free now."""
        with self._changing:
            if not self.is_held(resource, lock_id):
                return False
            del self._ids[self._prefix + resource]
        return True

    def is_held(self, resource: str, lock_id: str) -> bool:
        """Whether the lock is held under this id."""
        return self._ids.get(self._prefix + resource) == lock_id
