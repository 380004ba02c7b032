"""What an election tells and decides, whatever its colour: the rules of ``candidacy``, applied to one lease object.

Obeyed by ``election`` and ``aio.election``, which campaign, run the work and leave.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextvars import Context
from datetime import timedelta
from typing import Generic, TypeAlias, TypeVar

from . import journal
from .answers import LeaseInfo, moment
from .base import LeaseBase
from .candidacy import Candidacy, ElectionState, Event, Order
from .errors import LeaseInUse, LeaseLost, LeaseValueError
from .hold import HoldBase, still_to_run
from .options import Seconds, seconds

OnStopped: TypeAlias = Callable[[BaseException | None], object]
OnNewLeader: TypeAlias = Callable[[LeaseInfo], object]

RELEASE_LIMIT_S = 5.0
"""How long a resigning leader waits for its release, and an async one that ends for its last news."""
LOOK_S = 0.5
"""How often a timer looks at the clock at least: a machine that slept has moved it."""


class TermBase(ABC):
    """One term of a leader. told: its work was asked to stop. context: entered with the hold, and left with it."""

    def __init__(self, hold: HoldBase, context: Context) -> None:
        self.hold, self.context = hold, context
        self.told = False

    @abstractmethod
    def tell(self) -> None:
        """Asks the work to stop."""

    def ended(self, error: BaseException | None) -> BaseException | None:
        """The work has returned, or raised: logs it. Gives its cause: its own error, the loss that stopped it, None."""
        lost = self.hold.lost.is_set()
        own = None if lost and isinstance(error, LeaseLost) else error
        journal.work_ended(self.hold.name, self.hold.lease.owner_id, own, told=self.told or lost)
        return self.hold._loss() if error is None and lost else error


def check_ran(name: str, value: object) -> None:
    """Raises LeaseValueError when what a function returned shows that its body has not run."""
    if still_to_run(value):
        raise LeaseValueError(f"{name} returned a {type(value).__name__}, so it has not run: nobody awaits or iterates")


Term = TypeVar("Term", bound=TermBase)


class CandidateBase(Generic[Term], ABC):
    """The colourless half of ``LeaderElection`` and ``AsyncLeaderElection``."""

    def __init__(
        self,
        lease: LeaseBase,
        on_stopped: OnStopped | None,
        on_new_leader: OnNewLeader | None,
        poll_interval: Seconds,
        drain_timeout: Seconds | None,
        prepare: Callable[[], object] | None,
    ) -> None:
        poll = seconds("poll_interval", poll_interval, low=0.001)
        drain = None if drain_timeout is None else seconds("drain_timeout", drain_timeout)
        self._of = lease
        self._on_stopped, self._on_new_leader, self._prepare = on_stopped, on_new_leader, prepare
        self._candidacy = Candidacy(lease.options, poll, drain, lease._clock.now())
        self._term: Term | None = None
        self._seen: LeaseInfo | None = None
        self._announced: str | None = None
        self._failing = self._began = False
        self._bug: BaseException | None = None
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} for {self._of.name!r} of {self._of.owner_id!r}: {self.state.value}>"

    @property
    def state(self) -> ElectionState:
        """What this candidate is doing. STOPPED in a forked child."""
        return self._candidacy.state if self._pid == os.getpid() else ElectionState.STOPPED

    @property
    def is_leader(self) -> bool:
        """Whether this process holds the lease, as far as it may believe now: while its work runs, and while it drains.
        No I/O.
        """
        term = self._term
        return term is not None and term.hold.remaining > 0

    @property
    def leader(self) -> LeaseInfo | None:
        """Who leads, as this candidate last saw it; None when nobody was seen. Its times may be old. No I/O."""
        term = self._term
        return self._own_info(term) if term is not None and self.is_leader else self._seen

    def healthy(self) -> bool:
        """False when only a new process helps: the work has outlived its lease, or a bug has ended ``run``. An outage
        of the database is healthy: see ``state``. Any thread may ask.
        """
        term, state = self._term, self.state
        # A busy event loop may keep the loss from the election, but not from whoever asks here.
        unnoticed = state in (ElectionState.LEADING, ElectionState.DRAINING)
        stuck = unnoticed and term is not None and term.hold.lost.is_set()
        return self._bug is None and not stuck and state is not ElectionState.OUTLIVED

    def _begin(self) -> None:
        if self._began:
            raise LeaseInUse(f"the election for lease {self._of.name!r} has been run: make a new one")
        self._began = True

    def _react(self, event: Event | None, term: Term | None) -> Order | None:
        """What is to be done about an event, or about the passing of time."""
        now = self._of._clock.now()
        event = event or self._candidacy.due(now)
        if event is None or (term is not None and term is not self._term):  # late news of an earlier term
            return None
        order = self._candidacy.on(event, now, self._of.holder)
        if order is Order.TELL and self._term is not None:
            self._term.told = True
            self._term.tell()
        if order is Order.ABANDON:
            self._give_up("its work has not returned within drain_timeout")
        if order in (Order.ABANDON, Order.REPORT):
            journal.outlived(self._of.name, self._of.owner_id)
        return order

    def _unanswered(self, error: BaseException) -> Event:
        journal.campaign_failed(self._of.name, self._of.owner_id, error, first=not self._failing)
        self._failing = True
        return Event.UNANSWERED

    def _answered(self, term: Term | None) -> Event:
        if self._failing:
            journal.campaigns_again(self._of.name, self._of.owner_id)
        self._failing = False
        holder = self._of.holder
        self._term, self._seen = term, None if term is not None or holder is None or holder.resting else holder
        info = self._seen if term is None else self._own_info(term)
        if info is not None and info.owner_id != self._announced:
            self._announced = info.owner_id
            if self._on_new_leader is not None:  # else nobody would ever take it off the queue
                self._announce(info)
        return Event.REFUSED if term is None else Event.WON

    def _own_info(self, term: Term) -> LeaseInfo:
        lease = self._of
        expires_at = lease.expires_at
        assert expires_at is not None
        return LeaseInfo(
            name=lease.name,
            owner_id=lease.owner_id,
            acquired_at=moment(term.hold._stake.began),
            renewed_at=expires_at - timedelta(seconds=lease.options.duration),
            expires_at=expires_at,
            remaining=lease.remaining,
            metadata=lease.metadata,
            resting=False,
        )

    def _give_up(self, reason: str) -> None:
        """The present term is neither renewed nor released any more."""
        if self._term is not None:
            self._term.hold.lost.set(reason)

    @abstractmethod
    def _announce(self, info: LeaseInfo) -> None:
        """Calls on_new_leader; never raises, never waits for it."""
