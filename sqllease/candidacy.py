"""The rules of an election, whatever the colour: the states of one candidate, and what each event leads to.

The theory: a candidate campaigns until it wins, leads while its work runs, and leaves only after the work has returned.
The lease is renewed all the while, released when the work returned under it, and neither renewed nor released once the
work has outlived it. Everything that changes the state lives in this file; the shells report events and obey the
orders. No I/O, clocks are handed in.
"""

from __future__ import annotations

import random
from enum import Enum, auto

from .answers import LeaseInfo
from .options import LeaseOptions
from .pacing import next_try

_LONGEST_BACK_OFF_S = 60.0


class ElectionState(Enum):
    """What a candidate is doing."""

    CANDIDATE = "candidate"
    """Somebody else leads, as far as known; it asks again at each poll."""
    NO_DATABASE = "no database"
    """Its last question was not answered, or not allowed; it asks again at each poll."""
    BACKING_OFF = "backing off"
    """It led, its work ended unasked, and now others go first."""
    LEADING = "leading"
    """Its work runs, the lease is renewed."""
    DRAINING = "draining"
    """It has resigned: the work was told to stop and has not returned; the lease is still renewed."""
    LOST = "lost"
    """The lease is lost: the work was told to stop, and has the safety margin to return."""
    OUTLIVED = "outlived"
    """The work still runs though the lease is over or left to expire: others may lead beside it. Nothing is sent any
    more. End the process, or make the work return."""
    STOPPED = "stopped"
    """It has resigned, and its work has returned."""


class Event(Enum):
    """What the shells report."""

    DUE = auto()  # a poll is due
    WON = auto()
    REFUSED = auto()
    UNANSWERED = auto()
    RESIGN = auto()
    LOST = auto()
    RETURNED = auto()  # the work has, somehow
    MARGIN_PASSED = auto()  # since the loss
    LIMIT_PASSED = auto()  # drain_timeout, since the work was told to stop


class Order(Enum):
    """What the shells have to do."""

    NOTHING = auto()
    CAMPAIGN = auto()  # one try to acquire; report WON, REFUSED or UNANSWERED
    START = auto()  # the work
    TELL = auto()  # the work to stop
    LEAVE = auto()  # the hold: no more renewals, and a release if it is not lost
    ABANDON = auto()  # no renewal and no release any more, and say so
    REPORT = auto()  # say that the work has outlived the lease


_S, _E, _O = ElectionState, Event, Order
WAITING = (_S.CANDIDATE, _S.NO_DATABASE, _S.BACKING_OFF)

TRANSITIONS: dict[tuple[ElectionState, Event], tuple[ElectionState, Order]] = {
    **{(state, _E.DUE): (state, _O.CAMPAIGN) for state in WAITING},
    **{(state, _E.WON): (_S.LEADING, _O.START) for state in WAITING},
    **{(state, _E.REFUSED): (_S.CANDIDATE, _O.NOTHING) for state in WAITING},
    **{(state, _E.UNANSWERED): (_S.NO_DATABASE, _O.NOTHING) for state in WAITING},
    **{(state, _E.RESIGN): (_S.STOPPED, _O.NOTHING) for state in WAITING},
    (_S.STOPPED, _E.WON): (_S.STOPPED, _O.LEAVE),  # the answer came after the resignation
    (_S.LEADING, _E.RETURNED): (_S.BACKING_OFF, _O.LEAVE),
    (_S.LEADING, _E.RESIGN): (_S.DRAINING, _O.TELL),
    (_S.LEADING, _E.LOST): (_S.LOST, _O.TELL),
    (_S.DRAINING, _E.RETURNED): (_S.STOPPED, _O.LEAVE),
    (_S.DRAINING, _E.LOST): (_S.LOST, _O.NOTHING),
    (_S.DRAINING, _E.LIMIT_PASSED): (_S.OUTLIVED, _O.ABANDON),
    (_S.LOST, _E.RETURNED): (_S.CANDIDATE, _O.LEAVE),
    (_S.LOST, _E.MARGIN_PASSED): (_S.OUTLIVED, _O.REPORT),
    (_S.OUTLIVED, _E.RETURNED): (_S.CANDIDATE, _O.LEAVE),
}
"""What is not in the table changes nothing."""


class Candidacy:
    """One candidate, from its first poll to its end."""

    def __init__(self, options: LeaseOptions, poll_interval: float, drain_timeout: float | None, now: float) -> None:
        self.state = ElectionState.CANDIDATE
        self.resigning = False
        self._options, self._poll, self._drain = options, poll_interval, drain_timeout
        self._limit: float | None = None
        self._limit_passed = False
        self._led_since = now
        self._short_terms = 0
        # Anywhere in the first poll: many instances that start together must not ask together.
        self._alarm: tuple[float, Event] | None = (now + poll_interval * random.random(), Event.DUE)

    @property
    def over(self) -> bool:
        """Nothing is left to do. With OUTLIVED: the work did not return within drain_timeout."""
        gave_up = self.state is ElectionState.OUTLIVED and self.resigning and self._limit_passed
        return gave_up or self.state is ElectionState.STOPPED

    def pause(self, now: float) -> float | None:
        """Seconds until ``due`` has something to say; None: only an event from outside can change anything."""
        return None if self._alarm is None else max(0.0, self._alarm[0] - now)

    def due(self, now: float) -> Event | None:
        """The event that the passing of time has brought, if any."""
        return self._alarm[1] if self._alarm is not None and now >= self._alarm[0] else None

    def on(self, event: Event, now: float, holder: LeaseInfo | None = None) -> Order:
        """The order that follows from the event. holder: who has the lease, where the event is REFUSED."""
        self.resigning |= event is Event.RESIGN
        self._limit_passed |= event is Event.LIMIT_PASSED
        before = self.state
        self.state, order = TRANSITIONS.get((before, event), (before, Order.NOTHING))
        if self.resigning and self.state in WAITING:
            self.state = ElectionState.STOPPED
        if order is Order.START:
            self._led_since, self._limit, self._limit_passed = now, None, False
        if order is Order.TELL and self._drain is not None:
            self._limit = now + self._drain
        if before is ElectionState.LEADING and event is Event.RETURNED:
            self._short_terms = self._short_terms + 1 if now - self._led_since < self._options.duration else 1
        if self.state is not before or self.state in WAITING or event is Event.LIMIT_PASSED:
            self._alarm = self._next_alarm(event, now, holder)
        return order

    def _next_alarm(self, event: Event, now: float, holder: LeaseInfo | None) -> tuple[float, Event] | None:
        if self.state in WAITING:
            return None if event is Event.DUE else (now + self._until_next_try(event, holder), Event.DUE)
        if self.state is ElectionState.LOST:
            return now + self._options.safety_margin, Event.MARGIN_PASSED
        if self._limit is not None and not self._limit_passed:
            return self._limit, Event.LIMIT_PASSED
        return None

    def _until_next_try(self, event: Event, holder: LeaseInfo | None) -> float:
        if self.state is ElectionState.BACKING_OFF:
            return back_off(self._poll, self._short_terms)
        seen = holder if event is Event.REFUSED else None
        pause = next_try(seen, self._options.takeover_grace, self._poll, None)
        assert pause is not None
        # A tenth of a poll at most, so that the many who wait for one expiry do not ask at one moment.
        return pause if seen is None else pause + 0.1 * self._poll * random.random()


def back_off(poll_interval: float, short_terms: int) -> float:
    """Seconds for which a candidate stands back whose work ended unasked, so many times in a row before it had run for
    a whole lease: two polls, doubling up to a minute. Every other candidate asks in between.
    """
    doubled: float = poll_interval * 2.0 ** min(short_terms, 20)
    return max(2 * poll_interval, min(doubled, _LONGEST_BACK_OFF_S))
