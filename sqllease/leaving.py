"""How a hold is left, whatever its colour: in which order, what is still sent, and what its block raises.

Stop renewing; wait for the renewal in flight, at most until the deadline; release, unless the deadline has passed.
The shells stop, wait and send; what that means is decided here.
"""

from __future__ import annotations

from . import journal
from .errors import LeaseError, LeaseLost
from .hold import HoldBase, unclaim, withdraw

RELEASE_PATIENCE_S = 5.0
"""No try of the release at the end of a hold starts later than this: who leaves wants to go. The row expires anyway."""


class Leaving:
    """The steps of leaving one hold: ``stopped``, then ``released`` or ``failed`` when something was sent, then
    ``end``.
    """

    def __init__(self, hold: HoldBase) -> None:
        self._hold, self._lease = hold, hold.lease
        self._trouble: Exception | None = None
        self._patience: float | None = None
        self._lease._leaving = True
        withdraw(hold)

    @property
    def here(self) -> bool:
        """False in a forked child: nothing there is ours, and the locks may be the parent's."""
        return self._lease._here

    def stopped(self, *, in_time: bool) -> float | None:
        """Renewals have ended, in_time: the one in flight has come back. Seconds in which a release may be sent; None:
        none is, because the deadline has passed, or the tenure is gone.
        """
        hold, lease, stake = self._hold, self._lease, self._hold._stake
        if stake.leaving:
            return self._patience
        if not in_time:
            lease._forsake(stake.began)
            hold.lost.set("its time has run out while a renewal was in flight")
        lost = hold.lost.is_set()
        deadline = stake.ends_at
        tenure = lease._belief.tenure
        if not lost and tenure is not None:
            deadline = tenure.deadline
        left = 0.0 if deadline is None else deadline - lease._clock.now()
        if left <= 0:
            hold.lost.set("its time has run out")  # in this moment
        # From here on no clock is asked any more: the release itself ends the belief in the tenure.
        hold._over = stake.leaving = True
        self._patience = min(left, RELEASE_PATIENCE_S) if left > 0 else None
        return self._patience

    def released(self, answer: bool | None) -> None:
        """The release was answered. None: gone, but an earlier try of it was not answered, so that may have been us."""
        if answer is False:
            self._hold.lost.set("its release found it gone or taken")

    def failed(self, error: Exception) -> None:
        """The release was not answered, or could not be made. What is not of our making comes out of the block."""
        journal.hold_ended(self._lease.name, self._lease.owner_id, error)
        if isinstance(error, LeaseError):
            self._hold.unreleased = error
        else:
            self._trouble = error

    def end(self) -> Exception | None:
        """The hold is over. What its block is to raise, if the body has not failed."""
        hold, lease = self._hold, self._lease
        hold._over, lease._leaving = True, False
        if not self.here:
            return hold._loss()
        if lease._belief.tenure is not None:
            # Not given back: a row of ours may be left, and the next tenure is not to go on with this one.
            lease._end_tenure()
        unclaim(lease)
        return self._trouble if hold.lost.over() else hold._loss()


def report(trouble: Exception | None, error: BaseException | None) -> None:
    """Ends the block: the body's own error comes through, with the trouble as a note; else the trouble is raised."""
    if trouble is None:
        return
    if error is None:
        raise trouble
    if not (isinstance(error, LeaseLost) and str(error) == str(trouble)):
        error.add_note(str(trouble))
