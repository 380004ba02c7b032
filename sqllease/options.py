"""Every number of a lease, checked against the others when it is made.

A combination that cannot work is refused here, with the numbers in the message, so that no later code has to doubt
them. All times are seconds.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from .errors import LeaseValueError

Seconds: TypeAlias = float | timedelta
"""A length of time: a number of seconds, or a timedelta."""

SHORTEST_DURATION = 2.0
LONGEST_DURATION = 366 * 86_400.0
LARGEST_SWEEP = 1_000
"""Far below the 5,000 locks at which SQL Server escalates to a table lock."""


def seconds(what: str, value: object, *, low: float = 0.0, high: float = LONGEST_DURATION) -> float:
    """The value as seconds between low and high, both included; else LeaseValueError."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise LeaseValueError(f"{what} must be a number of seconds or a timedelta, not {type(value).__name__}")
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    if not math.isfinite(number) or not low <= number <= high:
        raise LeaseValueError(f"{what} must be between {low:g} and {high:g} seconds, not {number:g}")
    return number


def whole_seconds(what: str, value: object) -> int:
    """As ``seconds``, but whole and at least 1: ODBC counts its time-outs so, and reads 0 as "for ever"."""
    number = seconds(what, value, low=1.0)
    if number != int(number):
        raise LeaseValueError(f"{what} must be whole seconds, not {number:g}: ODBC knows no fractions")
    return int(number)


@dataclass(frozen=True, slots=True, init=False)
class LeaseOptions:
    """How one lease behaves. All contenders for a lease should use the same numbers.

    - duration: how long a lease lasts after each acquire and renew; 2 seconds to 366 days.
    - takeover_grace: how long after its end others still keep off.
    - hold_at_least: a lease given back earlier than this after it was acquired *rests* until then: nobody gets it.
    - safety_margin: how much earlier than the server this process stops believing; default duration/10.
    - lock_timeout: how long the server waits for a row lock; default command_timeout/2.
    - command_timeout: whole seconds that the driver waits for an answer; default duration/10, at least 1.
    - sweep_limit: how many long-expired rows a won acquire may delete, whatever their names; 0: none.
    - sweep_after: how long such a row must have been expired; at least the largest grace that is used on the table.

    Raises LeaseValueError when the numbers contradict each other. Exclusion holds while client clock drift over one
    duration + forward steps of the server's clock + skew between primaries ≤ safety_margin + takeover_grace.
    """

    duration: float
    takeover_grace: float
    hold_at_least: float
    safety_margin: float
    lock_timeout: float
    command_timeout: int
    sweep_limit: int
    sweep_after: float

    def __init__(
        self,
        duration: Seconds = 30.0,
        takeover_grace: Seconds = 0.0,
        hold_at_least: Seconds = 0.0,
        safety_margin: Seconds | None = None,
        lock_timeout: Seconds | None = None,
        command_timeout: Seconds | None = None,
        sweep_limit: int = 50,
        sweep_after: Seconds = 3600.0,
    ) -> None:
        lease = seconds("duration", duration, low=SHORTEST_DURATION)
        margin = lease / 10 if safety_margin is None else seconds("safety_margin", safety_margin)
        command = (
            max(1, int(lease / 10)) if command_timeout is None else whole_seconds("command_timeout", command_timeout)
        )
        lock = (
            min(command / 2, 86_400.0)
            if lock_timeout is None
            else seconds("lock_timeout", lock_timeout, low=0.001, high=86_400)
        )
        grace = seconds("takeover_grace", takeover_grace)
        after = seconds("sweep_after", sweep_after)
        if not lock < command:
            raise LeaseValueError(
                f"lock_timeout ({lock:g} s) must be below command_timeout ({command} s): "
                "the server has to give up first"
            )
        if not command + margin < lease:
            raise LeaseValueError(
                f"command_timeout ({command} s) + safety_margin ({margin:g} s) must be below duration ({lease:g} s): "
                "else an answer in time could still come too late"
            )
        if grace > after:
            raise LeaseValueError(
                f"takeover_grace ({grace:g} s) must not be above sweep_after ({after:g} s): "
                "the sweep would end a lease early"
            )
        if type(sweep_limit) is not int or not 0 <= sweep_limit <= LARGEST_SWEEP:
            raise LeaseValueError(f"sweep_limit must be a whole number from 0 to {LARGEST_SWEEP}, not {sweep_limit!r}")
        for name, value in (
            ("duration", lease),
            ("takeover_grace", grace),
            ("hold_at_least", seconds("hold_at_least", hold_at_least)),
            ("safety_margin", margin),
            ("lock_timeout", lock),
            ("command_timeout", command),
            ("sweep_limit", sweep_limit),
            ("sweep_after", after),
        ):
            object.__setattr__(self, name, value)

    def but(self, **changes: Any) -> LeaseOptions:
        """The same with some fields changed, checked anew. What was a default keeps the value that it had."""
        return replace(self, **changes)

    @property
    def login_timeout(self) -> int:
        """Whole seconds for a login, where the store names none: duration/6, at least 1."""
        return max(1, int(self.duration / 6))

    @property
    def retry_budget(self) -> float:
        """No attempt of a call starts later than this after the call began: duration/3."""
        return self.duration / 3


@dataclass(frozen=True, slots=True, init=False)
class ReplicaOptions:
    """Confirmation by a read replica: an acquire is True only when the replica shows it, so that a failover cannot undo
    it.

    - connection: of the replica, as that of a store; read intent is added to a string that names none.
    - timeout: how long to look for the row; timeout + safety_margin must be below the lease's duration.
    - poll_interval: between two looks.
    - on_unconfirmed: "refuse": a lease that was not shown in time is given back, False; "proceed": it is kept, and
      ``confirmed`` is False.
    - confirm_renewals: False trusts the primary for renewals: a failover may then bring an *older* expiry back, and
      with it a second holder.
    """

    connection: str | Callable[[], Any] = field(repr=False)
    timeout: float
    poll_interval: float
    on_unconfirmed: Literal["refuse", "proceed"]
    confirm_renewals: bool

    def __init__(
        self,
        connection: str | Callable[[], Any],
        timeout: Seconds = 5.0,
        poll_interval: Seconds = 0.1,
        on_unconfirmed: Literal["refuse", "proceed"] = "refuse",
        confirm_renewals: bool = True,
    ) -> None:
        limit = seconds("timeout", timeout, low=0.001)
        pause = seconds("poll_interval", poll_interval, low=0.001)
        if pause > limit:
            raise LeaseValueError(f"poll_interval ({pause:g} s) must not be above timeout ({limit:g} s)")
        if on_unconfirmed not in ("refuse", "proceed"):
            raise LeaseValueError(f"on_unconfirmed must be 'refuse' or 'proceed', not {on_unconfirmed!r}")
        for name, value in (
            ("connection", connection),
            ("timeout", limit),
            ("poll_interval", pause),
            ("on_unconfirmed", on_unconfirmed),
            ("confirm_renewals", bool(confirm_renewals)),
        ):
            object.__setattr__(self, name, value)

    def check_with(self, options: LeaseOptions) -> None:
        """Raises LeaseValueError when a confirmation could outlast the lease."""
        if not self.timeout + options.safety_margin < options.duration:
            raise LeaseValueError(
                f"the replica's timeout ({self.timeout:g} s) + safety_margin ({options.safety_margin:g} s) "
                f"must be below duration ({options.duration:g} s): else a confirmation could outlast the lease"
            )
