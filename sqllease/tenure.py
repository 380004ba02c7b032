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

NEVER = float("-inf")
"""The deadline of a tenure that is not, or not yet, to be believed in."""


@dataclass(frozen=True, slots=True)
class Tenure:
    """began: AcquiredAtUtc as the server wrote it. token: the row version that began it. deadline: local clock.

    version: the row version of the last answer. confirmed: whether a replica has shown it, None without a replica.
    """

    began: str
    token: int
    deadline: float
    version: int
    confirmed: bool | None = None


@dataclass(frozen=True, slots=True)
class Belief:
    """All that one lease object knows."""

    tenure: Tenure | None = None
    """The present tenure as far as known; it may have run out by the local clock."""

    last: str | None = None
    """The last beginning that the server told us, kept after the tenure has ended: the next tenure must be later."""

    granted: str | None = None
    """The beginning of the last tenure that the caller was told of: only such a one may have to rest."""

    in_doubt: bool = False
    """An acquire or a release was sent and not answered: there may be a row of ours that we do not know."""

    expires_at: datetime | None = None
    """The server's expiry, for people."""

    holder: LeaseInfo | None = None
    """The other holder, as the last lost acquire saw it."""

    def remaining(self, now: float) -> float:
        """Seconds of belief left, never negative."""
        return 0.0 if self.tenure is None else max(0.0, self.tenure.deadline - now)

    def won(self, done: Done, sent_at: float, options: LeaseOptions) -> Belief:
        """The server says that the lease is ours: a refresh of the tenure that we know, else a new one, new token."""
        known = self.tenure if self.tenure is not None and self.tenure.began == done.tenure else None
        deadline = _deadline(sent_at, options)
        if known is not None:
            tenure = Tenure(known.began, known.token, max(known.deadline, deadline), done.version, known.confirmed)
        else:
            tenure = Tenure(done.tenure, done.version, deadline, done.version)
        expires_at = done.expires_at
        if known is not None and self.expires_at is not None:
            expires_at = max(expires_at, self.expires_at)  # like the deadline, never moved back
        return Belief(tenure=tenure, last=done.tenure, granted=self.granted, expires_at=expires_at)

    def renewed(self, done: Done, sent_at: float, options: LeaseOptions) -> Belief:
        """The server has moved the expiry of our tenure."""
        assert self.tenure is not None
        assert self.tenure.began == done.tenure
        renewed = self.won(done, sent_at, options)
        return renewed.doubtful() if self.in_doubt else renewed

    def pending(self) -> Belief:
        """A new tenure that a replica has still to show: ours to give back, not yet to believe in."""
        assert self.tenure is not None
        return replace(self, tenure=replace(self.tenure, deadline=NEVER))

    def forsaken(self) -> Belief:
        """No longer to be believed in, whatever is answered from now on; what is still ours is there to give back."""
        return self if self.tenure is None else self.pending()

    def shown(self, confirmed: bool) -> Belief:
        """What the replica had to say of the present tenure."""
        assert self.tenure is not None
        return replace(self, tenure=replace(self.tenure, confirmed=confirmed))

    def told(self) -> Belief:
        """The caller is told that it holds the present tenure."""
        return self if self.granted == self.last else replace(self, granted=self.last)

    def lost_to(self, holder: LeaseInfo) -> Belief:
        """The server says that somebody else has it."""
        return replace(self, tenure=None, holder=holder)

    def ended(self) -> Belief:
        """The tenure is over, or about to be given back: whatever is answered now, this process no longer holds."""
        return self if self.tenure is None else replace(self, tenure=None)

    def doubtful(self) -> Belief:
        """A message is about to be sent that may leave a row of ours behind, or not remove one."""
        return self if self.in_doubt else replace(self, in_doubt=True)

    def settled(self) -> Belief:
        """Nothing of ours is unanswered any more."""
        return replace(self, in_doubt=False) if self.in_doubt else self


def _deadline(sent_at: float, options: LeaseOptions) -> float:
    return sent_at + options.duration - options.safety_margin
