"""What this process may believe about its lease: frozen values, and the few steps from one to the next.

The theory: a *tenure* is one unbroken holding, named by the moment at which the server began it. Belief in it lasts
until ``deadline`` on the local clock: the send time of the last confirmed request + duration − safety_margin. It ends
early, and for good, the moment a release or give-back is about to be sent. Everything that changes a belief lives in
this file; no I/O, clocks are handed in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime

from .answers import Done, LeaseInfo
from .options import LeaseOptions


@dataclass(frozen=True, slots=True)
class Tenure:
    """began: AcquiredAtUtc as the server wrote it. token: the row version that began it. deadline: local clock,
    seconds.
    """

    began: str
    token: int
    deadline: float
    version: int
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """All that one lease object knows.

    tenure     the present tenure as far as known; it may have run out by the local clock
    last       the last beginning that the server told us, kept after the tenure has ended: the next tenure must be
    later unsettled  an acquire was sent and not answered: there may be a row of ours that we know nothing of
    expires_at the server's expiry, for people
    holder     the other holder, as the last lost acquire saw it
    """

    tenure: Tenure | None = None
    last: str | None = None
    unsettled: bool = False
    expires_at: datetime | None = None
    holder: LeaseInfo | None = None

    def remaining(self, now: float) -> float:
        """Seconds of belief left, never negative."""
        return 0.0 if self.tenure is None else max(0.0, self.tenure.deadline - now)

    def asking(self) -> Belief:
        """An acquire is about to be sent."""
        return replace(self, unsettled=True)

    def won(self, done: Done, sent_at: float, options: LeaseOptions) -> Belief:
        """The server says that the lease is ours: a refresh of the tenure that we know, else a new one with a new
        token.
        """
        known = self.tenure if self.tenure is not None and self.tenure.began == done.tenure else None
        tenure = Tenure(done.tenure, known.token if known else done.version, _deadline(sent_at, options), done.version)
        return Belief(tenure=tenure, last=done.tenure, expires_at=done.expires_at)

    def lost_to(self, holder: LeaseInfo) -> Belief:
        """The server says that somebody else has it."""
        return replace(self, tenure=None, unsettled=False, holder=holder)

    def renewed(self, done: Done, sent_at: float, options: LeaseOptions) -> Belief:
        """The server has moved the expiry of our tenure; a belief never gets shorter by it."""
        assert self.tenure is not None
        deadline = max(self.tenure.deadline, _deadline(sent_at, options))
        return replace(
            self, tenure=replace(self.tenure, deadline=deadline, version=done.version), expires_at=done.expires_at
        )

    def ended(self) -> Belief:
        """The tenure is over, or about to be given back: whatever the server answers now, this process no longer
        holds.
        """
        return replace(self, tenure=None)

    def found(self, began: str) -> Belief:
        """A row of ours that an unanswered acquire has left: to be released, never to be believed in."""
        return replace(self, tenure=Tenure(began, 0, float("-inf"), 0), last=began)

    def settled(self) -> Belief:
        """No acquire of ours is unanswered any more."""
        return replace(self, unsettled=False)


def _deadline(sent_at: float, options: LeaseOptions) -> float:
    return sent_at + options.duration - options.safety_margin
