"""What an entered hold is, whatever its colour: the tenure that it was entered with, and whether that has been lost.

Entered and left by ``holding`` and ``aio.holding``; kept alive by ``keepalive``. ``lost`` of a hold is final, whatever
the lease object does later.
"""

from __future__ import annotations

import inspect
import math
import weakref
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from .answers import LeaseInfo
from .base import LeaseBase
from .errors import LeaseError, LeaseInUse, LeaseLost, LeaseValueError
from .lost import Lost
from .options import LeaseOptions, Seconds, seconds
from .pacing import Pace

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[T]):
    """What became of work that was to run under a lease. value: what it returned, where it ran. holder: who had the
    lease, where it did not.
    """

    ran: bool
    value: T | None = None
    holder: LeaseInfo | None = None

    def __bool__(self) -> bool:
        return self.ran


@dataclass(frozen=True, slots=True)
class Terms:
    """On which terms a lease is held: checked when they are made."""

    timeout: float | None
    poll_interval: float
    pace: Pace | None
    options: LeaseOptions
    on_lost: Callable[[], object] | None
    max_hold: float | None

    @classmethod
    def of(
        cls,
        options: LeaseOptions,
        timeout: Seconds | None,
        poll_interval: Seconds,
        keep_alive: bool,
        hold_at_least: Seconds | None,
        on_lost: Callable[[], object] | None,
        max_hold: Seconds | None,
    ) -> Terms:
        """Raises LeaseValueError for terms that cannot work."""
        if inspect.iscoroutinefunction(on_lost):
            raise LeaseValueError("on_lost must be a plain function: it is called in any thread, and nobody awaits it")
        return cls(
            timeout=None if timeout is None else seconds("timeout", timeout),
            poll_interval=seconds("poll_interval", poll_interval, low=0.001),
            pace=Pace.of(options) if keep_alive else None,
            options=options if hold_at_least is None else options.but(hold_at_least=hold_at_least),
            on_lost=on_lost,
            max_hold=None if max_hold is None else seconds("max_hold", max_hold, low=0.001),
        )


class Stake:
    """The tenure that a hold was entered with. Knows no hold, so that one that was forgotten can go.

    ends_at: the deadline of that tenure, on the lease's clock, when the hold was lost; None when the tenure was gone.
    """

    def __init__(self, lease: LeaseBase) -> None:
        tenure = lease._belief.tenure
        assert tenure is not None
        self._lease = lease
        self.began, self.token = tenure.began, tenure.token
        self.leaving = False
        self.ends_at: float | None = None

    def left(self) -> float:
        """Seconds for which the tenure may still be believed in; for ever once it is being given back in order."""
        belief = self._lease._belief  # read once: it may change at any moment
        if self.leaving:
            return math.inf
        ours = belief.tenure is not None and belief.tenure.began == self.began
        return belief.remaining(self._lease._clock.now()) if ours and self._lease._here else 0.0

    def forsake(self) -> None:
        """The hold is lost: the lease is not held any more either, and no late answer makes it so again."""
        self.ends_at = self._lease._forsake(self.began)


class HoldBase:
    """A lease that is held: what the work under it may ask. Ends when its ``with`` block does."""

    def __init__(self, lease: LeaseBase, terms: Terms) -> None:
        self.lease = lease
        self._terms = terms
        self._stake = Stake(lease)
        self._entered_at = lease._clock.now()
        self._over = False
        self.unreleased: LeaseError | None = None
        """Once the block has ended: why nobody knows whether the lease was given back. The row expires by itself."""
        self.lost = self._make_lost()
        if terms.on_lost is not None:
            self.lost.listen(terms.on_lost)

    def _make_lost(self) -> Lost:
        return Lost(self.lease.name, self.lease.owner_id, self._stake.left, self._stake.forsake)

    def __repr__(self) -> str:
        state = "lost" if self.lost.is_set() else "over" if self._over else "held"
        return f"<{type(self).__name__} of {self.lease.name!r} {state}>"

    @property
    def name(self) -> str:
        """The lease's name."""
        return self.lease.name

    @property
    def fencing_token(self) -> int:
        """The token of the tenure that this hold was entered with; stays when the hold is lost."""
        return self._stake.token

    @property
    def remaining(self) -> float:
        """Seconds for which this process may still believe that it holds; 0.0 once the hold is over or lost. No I/O."""
        return 0.0 if self._over or self.lost.is_set() else self._stake.left()

    @property
    def may_renew(self) -> bool:
        """False once the hold is over, or has reached max_hold: from then on it runs out."""
        limit = self._terms.max_hold
        spent = self.lease._clock.now() - self._entered_at
        return not self._over and (limit is None or spent < limit)

    def check(self) -> None:
        """Raises LeaseLost when the hold is lost or over. No I/O: call it before each step of the work."""
        if self.lost.is_set():
            raise self._loss()
        if self._over:
            raise LeaseLost(f"the hold of lease {self.name!r} is over", "its block has ended")

    def skip_rest(self) -> None:
        """No work was done under this hold: at its end the row is free at once, whatever hold_at_least says. No I/O."""
        if not self._over:
            self.lease._present_options = self.lease._present_options.but(hold_at_least=0)

    def _check_may_renew(self) -> None:
        self.check()
        if not self.may_renew:
            raise LeaseLost(f"the hold of lease {self.name!r} is not renewed any more", "max_hold is reached")

    def _loss(self) -> LeaseLost:
        reason = self.lost.reason if self.lease._here else self.lease._not_held_because()
        error = LeaseLost(f"lease {self.name!r} was lost: {reason}", reason)
        error.__cause__ = self.lost.cause
        return error


_held: ContextVar[tuple[weakref.ref[HoldBase], ...]] = ContextVar("sqllease_held", default=())


def publish(hold: HoldBase) -> None:
    """From now on ``assert_held`` finds the hold, in this thread or task and those that copy its context."""
    _held.set((*_held.get(), weakref.ref(hold)))


def withdraw(hold: HoldBase) -> None:
    """Takes it back. A block may end in another context than it began in: what is over is passed over there."""
    _held.set(tuple(ref for ref in _held.get() if ref() not in (None, hold)))


def assert_held(name: str) -> HoldBase:
    """For code deep inside: the hold of this lease that the present thread or task is in.

    Raises LeaseLost when there is none, or when it is lost. A thread that was started inside a hold has a context of
    its own and finds nothing there: hand the hold over, or copy the context.
    """
    for ref in reversed(_held.get()):
        hold = ref()
        if hold is not None and hold.name == name and not hold._over:
            hold.check()
            return hold
    raise LeaseLost(f"lease {name!r} is not held here", "no hold of it is entered")


def claim(lease: LeaseBase, user: object) -> None:
    """Marks the lease as in use, as long as the user lives or until ``unclaim``. Raises LeaseInUse when it is already.

    Two threads may come here at the same moment: the one that finds the other at it is refused, it never waits.
    """
    if not lease._here:
        return  # an acquire in a forked child is refused, with the reason; the lock may be the parent's
    free = lease._claiming.acquire(blocking=False)
    try:
        if not free or lease._claimed:
            raise LeaseInUse(f"lease {lease.name!r} is in use by another hold() of this object: make an object each")
        lease._claim = weakref.ref(user)
    finally:
        if free:
            lease._claiming.release()


def hand_over(lease: LeaseBase, hold: HoldBase) -> None:
    """The claim passes to the hold: it ends with it, should the hold be forgotten."""
    lease._claim = weakref.ref(hold)


def unclaim(lease: LeaseBase) -> None:
    """The lease is free for raw verbs and for the next hold."""
    lease._claim = None


def still_to_run(value: object) -> bool:
    """Whether what a function returned shows that its body has not run: something to await, or a generator."""
    if inspect.iscoroutine(value):
        value.close()  # else Python warns besides that nobody awaited it
    return inspect.isawaitable(value) or inspect.isgenerator(value) or inspect.isasyncgen(value)


def complete(value: T) -> T:
    """What work under a lease has returned. LeaseValueError when it has not been done yet: it would be done after the
    lease was given back.
    """
    if still_to_run(value):
        raise LeaseValueError(f"the work returned {type(value).__name__}: it would run after its lease was given back")
    return value


def not_acquired(lease: LeaseBase, terms: Terms) -> str:
    """The text of LeaseNotAcquired: who has it, and for how long."""
    holder = lease.holder
    if holder is None:
        return f"lease {lease.name!r} was not acquired within {terms.timeout:g} s"
    state = "rests, last held by" if holder.resting else "is held by"
    return (
        f"lease {lease.name!r} was not acquired within {terms.timeout:g} s: it {state} {holder.owner_id} "
        f"until {holder.expires_at.isoformat(timespec='seconds')}"
    )
