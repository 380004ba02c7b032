"""What an entered hold is, whatever its colour: the tenure that it was entered with, and whether that has been lost.

Entered and left by ``holding`` and ``aio.holding``; kept alive by ``keepalive``. ``lost`` of a hold is final, whatever
the lease object does later.
"""

from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Generic, TypeVar

from .answers import LeaseInfo
from .base import LeaseBase
from .errors import LeaseInUse, LeaseLost
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
        *,
        timeout: Seconds | None,
        poll_interval: Seconds,
        keep_alive: bool,
        hold_at_least: Seconds | None,
        on_lost: Callable[[], object] | None,
        max_hold: Seconds | None,
    ) -> Terms:
        """Raises LeaseValueError for terms that cannot work."""
        return cls(
            timeout=None if timeout is None else seconds("timeout", timeout),
            poll_interval=seconds("poll_interval", poll_interval, low=0.001),
            pace=Pace.of(options) if keep_alive else None,
            options=options if hold_at_least is None else options.but(hold_at_least=hold_at_least),
            on_lost=on_lost,
            max_hold=None if max_hold is None else seconds("max_hold", max_hold, low=0.001),
        )


class HoldBase:
    """A lease that is held: what the work under it may ask. Ends when its ``with`` block does."""

    def __init__(self, lease: LeaseBase, terms: Terms) -> None:
        tenure = lease._belief.tenure
        assert tenure is not None
        self.lease = lease
        self._terms = terms
        self._began, self._token = tenure.began, tenure.token
        self._entered_at = lease._clock.now()
        self._over = False
        self.lost = self._make_lost()
        if terms.on_lost is not None:
            self.lost.listen(terms.on_lost)

    def _make_lost(self) -> Lost:
        return Lost(self.lease.name, self.lease.owner_id, self._still_held)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.lease.name!r} {'lost' if self.lost.is_set() else 'held'}>"

    @property
    def name(self) -> str:
        """The lease's name."""
        return self.lease.name

    @property
    def fencing_token(self) -> int:
        """The token of the tenure that this hold was entered with; stays when the hold is lost."""
        return self._token

    @property
    def remaining(self) -> float:
        """Seconds for which this process may still believe that it holds; 0.0 once the hold is over or lost. No I/O."""
        return 0.0 if self._over or self.lost.is_set() else self.lease.remaining

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

    def _still_held(self) -> bool:
        tenure = self.lease._belief.tenure
        return tenure is not None and tenure.began == self._began and self.lease.held

    def _loss(self) -> LeaseLost:
        error = LeaseLost(f"lease {self.name!r} was lost: {self.lost.reason}", self.lost.reason)
        error.__cause__ = self.lost.cause
        return error


_held: ContextVar[tuple[HoldBase, ...]] = ContextVar("sqllease_held", default=())


class entered:  # noqa: N801  no generator: the block of a hold that is forgotten may be collected in any context
    """While this lasts, ``assert_held`` finds the hold, in this thread or task and those that copy its context."""

    def __init__(self, hold: HoldBase) -> None:
        self._hold = hold

    def __enter__(self) -> None:
        self._mark = _held.set((*_held.get(), self._hold))

    def __exit__(self, *ending: object) -> None:
        _held.reset(self._mark)


def assert_held(name: str) -> HoldBase:
    """For code deep inside: the hold of this lease that the present thread or task is in.

    Raises LeaseLost when there is none, or when it is lost. A thread that was started inside a hold has a context of
    its own and finds nothing there: hand the hold over, or copy the context.
    """
    for hold in reversed(_held.get()):
        if hold.name == name:
            hold.check()
            return hold
    raise LeaseLost(f"lease {name!r} is not held here", "no hold of it is entered")


def claim(lease: LeaseBase) -> None:
    """Marks the lease as in use by a hold. Raises LeaseInUse when it is already."""
    if lease._claimed:
        raise LeaseInUse(f"lease {lease.name!r} is held by another hold() of the same object: make an object each")
    lease._claimed = True


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
