"""``hold()``, ``try_hold()``, ``run()``: work under a lease, blocking. What all colours share is in ``hold``.

Knows the order of entering and leaving: acquire, then keep alive; stop renewing, then release.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import fence, journal
from .base import LeaseBase
from .errors import LeaseError, LeaseLost, LeaseNotAcquired
from .hold import HoldBase, Outcome, Terms, claim, entered, not_acquired
from .keepalive import KeepAlive
from .options import Seconds, seconds
from .pacing import next_try

if TYPE_CHECKING:
    import pyodbc

T = TypeVar("T")


class Hold(HoldBase):
    """A held lease, given by ``with lease.hold() as held``."""

    lease: Holdable

    def ensure(self, least: Seconds) -> None:
        """Renews when less than ``least`` seconds are left. Raises LeaseLost, or LeaseStoreError when nobody knows."""
        if self.remaining < seconds("least", least):
            self._renew(None)

    def extend(self, duration: Seconds) -> None:
        """Renews for ``duration`` from now instead of the lease's own, once. Never shortens. Errors as ``ensure``."""
        self._renew(duration)

    def fence(self, connection: pyodbc.Connection | pyodbc.Cursor) -> None:
        """As ``SqlLease.fence``, for the tenure that this hold was entered with."""
        self.check()
        fence.check(fence.Fence(self.lease, self._began), connection)

    def fenced(self, connection: pyodbc.Connection) -> AbstractContextManager[pyodbc.Cursor]:
        """As ``SqlLease.fenced``, for the tenure that this hold was entered with."""
        self.check()
        return fence.transaction(self.lease, self._began, connection)

    def renew_blocking(self) -> bool:
        """For the keep-alive."""
        return self.lease._renew(None)

    def _renew(self, duration: Seconds | None) -> None:
        self.check()
        if not self.lease._renew(duration):
            self.lost.set("a renewal found it gone, expired or taken", told=True)
        self.check()


class Holdable(LeaseBase):
    """What turns the verbs of a blocking lease into holds."""

    @abstractmethod
    def _acquire(self, terms: Terms | None) -> bool: ...

    @abstractmethod
    def _renew(self, duration: Seconds | None) -> bool: ...

    @abstractmethod
    def _release(self) -> bool | None:
        """None: gone, but an earlier try of the same release was not answered."""

    @abstractmethod
    def _abandon(self) -> None:
        """The renewal in flight is given up: its late answer changes nothing."""

    def hold(
        self,
        timeout: Seconds | None = None,
        poll_interval: Seconds = 1.0,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractContextManager[Hold]:
        """Waits for the lease, keeps it alive while the block runs, and gives it back at its end.

        timeout: seconds to wait, None without end, 0 for one try. hold_at_least: as in LeaseOptions, for this hold.
        on_lost: called once, from any thread, when the hold is lost. max_hold: renewals end after so long.

        Entering raises LeaseNotAcquired with the holder, LeaseInUse when a hold of this object is entered already, and
        LeaseStoreError when the database failed. Leaving raises LeaseLost when the lease was lost and the body did not
        fail; the body's own exception always comes through, with the loss as a note. A release that is not answered is
        logged: the row expires by itself.
        """
        return _Block(self, self._terms(timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold))

    def try_hold(
        self,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractContextManager[Hold | None]:
        """As ``hold(timeout=0)``, but gives None when another owner has the lease."""
        return _TryBlock(self, self._terms(0, 1.0, keep_alive, hold_at_least, on_lost, max_hold))

    def run(
        self,
        work: Callable[[Hold], T],
        *,
        timeout: Seconds | None = 0,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> Outcome[T]:
        """Runs ``work(held)`` under the lease: an Outcome with its value, or, where another owner has it, with the
        holder. timeout: seconds to wait for the lease; by default not at all.
        """
        block = _Block(self, self._terms(timeout, 1.0, keep_alive, hold_at_least, on_lost, max_hold))
        try:
            held = block.__enter__()
        except LeaseNotAcquired as error:
            return Outcome(False, holder=error.holder)
        with ExitStack() as stack:
            stack.push(block)
            return Outcome(True, value=work(held))

    def _terms(
        self,
        timeout: Seconds | None,
        poll_interval: Seconds,
        keep_alive: bool,
        hold_at_least: Seconds | None,
        on_lost: Callable[[], object] | None,
        max_hold: Seconds | None,
    ) -> Terms:
        return Terms.of(
            self._options,
            timeout=timeout,
            poll_interval=poll_interval,
            keep_alive=keep_alive,
            hold_at_least=hold_at_least,
            on_lost=on_lost,
            max_hold=max_hold,
        )


class _Block:
    """The ``with`` block of one hold."""

    def __init__(self, lease: Holdable, terms: Terms) -> None:
        self._lease, self._terms = lease, terms
        self._undo = ExitStack()

    def __enter__(self) -> Hold:
        lease, terms = self._lease, self._terms
        claim(lease)
        try:
            self._wait()
            self._hold = Hold(lease, terms)
            self._keeper = KeepAlive(self._hold, terms.pace)
            self._undo.enter_context(entered(self._hold))
        except BaseException:
            lease._claimed = False
            raise
        return self._hold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
        loss = self._leave()
        if loss is not None and error is None:
            raise loss
        if loss is not None and error is not None and not isinstance(error, LeaseLost):
            error.add_note(str(loss))

    def _wait(self) -> None:
        lease, terms = self._lease, self._terms
        began, slept = lease._clock.now(), 0.0
        while not lease._acquire(terms):
            left = None
            if terms.timeout is not None:
                # A clock that a test has stopped must not make the wait endless: what was slept counts as well.
                left = terms.timeout - max(lease._clock.now() - began, slept)
            pause = next_try(lease.holder, lease._options.takeover_grace, terms.poll_interval, left)
            if pause is None:
                raise LeaseNotAcquired(not_acquired(lease, terms), lease.holder)
            time.sleep(pause)
            slept += pause

    def _leave(self) -> LeaseLost | None:
        lease, hold = self._lease, self._hold
        try:
            if not self._keeper.stop(hold.remaining):
                lease._abandon()
            hold.lost.is_set()
            if lease.held:
                try:
                    if lease._release() is False:
                        hold.lost.set("its release found it gone or taken")
                except LeaseError as error:
                    journal.hold_ended(lease.name, lease.owner_id, error)
            hold._over = True
            hold.lost.over()
            return hold._loss() if hold.lost.is_set() else None
        finally:
            lease._claimed = False


class _TryBlock:
    """The ``with`` block of one try."""

    def __init__(self, lease: Holdable, terms: Terms) -> None:
        self._block = _Block(lease, terms)
        self._entered = False

    def __enter__(self) -> Hold | None:
        try:
            hold = self._block.__enter__()
        except LeaseNotAcquired:
            return None
        self._entered = True
        return hold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            self._block.__exit__(kind, error, trace)
