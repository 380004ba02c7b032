"""``hold()``, ``try_hold()``, ``run()``: work under a lease, blocking. What all colours share is in ``hold``.

Knows the order of entering and leaving: acquire, then keep alive; stop renewing, then release.
"""

from __future__ import annotations

import inspect
import time
from abc import abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, TypeVar

from . import fence
from .base import LeaseBase
from .errors import LeaseError, LeaseNotAcquired, LeaseValueError
from .hold import HoldBase, Outcome, Terms, claim, complete, hand_over, not_acquired, publish, unclaim
from .keepalive import KeepAlive
from .leaving import Leaving, report
from .options import Seconds, seconds
from .pacing import next_try

if TYPE_CHECKING:
    import pyodbc

T = TypeVar("T")


class Hold(HoldBase):
    """A held lease, given by ``with lease.hold() as held``."""

    lease: Holdable

    def ensure(self, least: Seconds) -> None:
        """Renews, once, when less than ``least`` seconds are left. Raises LeaseLost, also when max_hold forbids it, or
        LeaseStoreError when nobody knows.
        """
        self.check()
        if self.remaining < seconds("least", least):
            self._renew(None)

    def extend(self, duration: Seconds) -> None:
        """Renews for ``duration`` from now instead of the lease's own, once. Never shortens. Errors as ``ensure``."""
        self._renew(duration)

    def fence(self, connection: pyodbc.Connection | pyodbc.Cursor) -> None:
        """As ``SqlLease.fence``, for the tenure that this hold was entered with."""
        self.check()
        fence.check(fence.Fence(self.lease, self._stake.began), connection)

    def fenced(self, connection: pyodbc.Connection) -> AbstractContextManager[pyodbc.Cursor]:
        """As ``SqlLease.fenced``, for the tenure that this hold was entered with."""
        self.check()
        return fence.transaction(self.lease, self._stake.began, connection)

    def renew_blocking(self) -> bool:
        """For the keep-alive."""
        return self.lease._renew(None)

    def _renew(self, duration: Seconds | None) -> None:
        self._check_may_renew()
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
    def _release(self, patience: float | None = None) -> bool | None:
        """None: gone, but an earlier try of the same release was not answered. patience: no try starts later."""

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
        on_lost: called once, from any thread, when the hold is lost. max_hold: renewals end after so long, and the hold
        then runs out. keep_alive=False: no renewals and no thread; the loss is noticed when somebody asks, and on_lost
        called then.

        Entering raises LeaseNotAcquired with the holder, LeaseInUse when a hold of this object is entered already, and
        LeaseStoreError when the database failed. Leaving raises LeaseLost when the lease was lost and the body did not
        fail; the body's own exception always comes through, with the loss as a note. A release that is not answered is
        logged: the row expires by itself.
        """
        return _Block(
            self, Terms.of(self._options, timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold)
        )

    def try_hold(
        self,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractContextManager[Hold | None]:
        """As ``hold(timeout=0)``, but gives None when another owner has the lease."""
        return _TryBlock(self, Terms.of(self._options, 0, 1.0, keep_alive, hold_at_least, on_lost, max_hold))

    def run(
        self,
        work: Callable[[Hold], T],
        *,
        timeout: Seconds | None = 0,
        poll_interval: Seconds = 1.0,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> Outcome[T]:
        """Runs ``work(held)`` under the lease: an Outcome with its value, or, where another owner has it, with the
        holder. timeout: seconds to wait for the lease; by default not at all. The other arguments, and the errors, are
        those of ``hold``.
        """
        if inspect.iscoroutinefunction(work):
            raise LeaseValueError("run() of a blocking lease needs a plain function: AsyncSqlLease awaits coroutines")
        block = _Block(
            self, Terms.of(self._options, timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold)
        )
        with ExitStack() as stack:
            try:
                held = stack.enter_context(block)
            except LeaseNotAcquired as error:
                return Outcome(False, holder=error.holder)
            return Outcome(True, value=complete(work(held)))


class _Block:
    """The ``with`` block of one hold."""

    def __init__(self, lease: Holdable, terms: Terms) -> None:
        self._lease, self._terms = lease, terms

    def __enter__(self) -> Hold:
        lease, terms = self._lease, self._terms
        claim(lease, self)
        try:
            self._wait()
            try:
                self._hold = Hold(lease, terms)
                self._keeper = KeepAlive(self._hold, terms.pace)
            except BaseException:
                with suppress(LeaseError):
                    lease._release()
                raise
        except BaseException:
            unclaim(lease)
            raise
        hand_over(lease, self._hold)
        publish(self._hold)
        return self._hold

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leaving = Leaving(self._hold)
        try:
            if leaving.here:
                self._give_back(leaving)
        finally:
            trouble = leaving.end()
        report(trouble, error)

    def _give_back(self, leaving: Leaving) -> None:
        patience = leaving.stopped(in_time=self._keeper.stop(self._hold.remaining))
        if patience is None:
            return
        try:
            leaving.released(self._lease._release(patience))
        except Exception as trouble:  # noqa: BLE001  reported behind the body's own
            leaving.failed(trouble)

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
        entered, self._entered = self._entered, False  # a block may be used again
        if entered:
            self._block.__exit__(kind, error, trace)
