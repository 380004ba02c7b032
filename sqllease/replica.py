"""Confirmation: has a read replica shown the tenure that the primary has granted?

Knows what a look at the replica means, how long to go on looking, and how the call then ends. No I/O: the shells look
and wait. A row that is visible on a secondary has been hardened there, and was committed on the primary (Microsoft,
"Offload read-only workload to secondary replica of an Always On availability group"). It says nothing of other
replicas.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from enum import Enum, auto

from . import journal
from .answers import Row
from .base import LeaseBase, ReplicaMemory
from .errors import LeaseConfigurationError, LeaseError, LeaseStoreError
from .faults import Fault, Kind
from .grants import Grant, Verdict
from .statements import Statement

_MISSING_TABLE = 208


class Sight(Enum):
    """What the replica has shown so far."""

    CONFIRMED = auto()  # our owner, our tenure, a version at least ours
    SUPERSEDED = auto()  # somebody else's row, or another tenure, and newer than ours: the lease is lost
    NOT_YET = auto()


class Confirmation:
    """The wait for the replica, for one grant of the primary."""

    def __init__(self, lease: LeaseBase, memory: ReplicaMemory, grant: Grant) -> None:
        tenure = grant.belief.tenure
        assert tenure is not None
        self.statement: Statement = lease._statements.look(lease._name)
        self.grant = grant
        self.lease, self._memory, self._tenure = lease, memory, tenure
        self._ends = min(lease._clock.now() + memory.options.timeout, tenure.deadline)
        self._left = memory.options.timeout
        self._sight = Sight.NOT_YET
        self._looks = 0
        self._error: LeaseError | None = None
        self._trouble = "the row has not arrived"
        # A new tenure is ours to give back, but not yet to believe in; a refreshed one goes on as far as it was
        # confirmed. The answer to an acquire settles what was sent before; a renew says nothing of it.
        if grant.fresh:
            lease._belief = grant.belief.pending()
        elif grant.acquired:
            lease._belief = lease._belief.settled()

    def pause(self) -> float | None:
        """Seconds to wait before the next look; None when there is nothing more to look for."""
        if self._sight is not Sight.NOT_YET or self._error is not None:
            return None
        if not self._looks:
            return 0.0
        left = min(self._ends - self.lease._clock.now(), self._left)
        if left <= 0:
            return None
        pause = min(self._memory.options.poll_interval, left)
        self._left -= pause
        return pause

    @property
    def patience(self) -> int:
        """Whole seconds that a login or an answer may take: what is left, at least one."""
        return max(1, min(self.lease._options.command_timeout, int(self._ends - self.lease._clock.now())))

    def saw(self, rows: Sequence[Row]) -> None:
        """One look was answered."""
        self._looks += 1
        updateability, name, owner, began, version = rows[0]
        if updateability != "READ_ONLY":
            self._trouble = "its database takes writes: it is the primary now"
            if not self._memory.was_secondary:
                self._error = LeaseConfigurationError(
                    "the replica connection leads to a database that takes writes, which is the primary: "
                    "it can confirm nothing. Name a readable secondary: its own server, "
                    "or ApplicationIntent=ReadOnly with routing"
                )
            return
        self._memory.was_secondary = True
        if name != self.lease._name:
            return
        if owner == self.lease._owner_id and began == self._tenure.began:
            self._sight = Sight.CONFIRMED if version >= self._tenure.version else Sight.NOT_YET
        elif version > self._tenure.version:
            self._sight = Sight.SUPERSEDED

    def failed(self, fault: Fault) -> None:
        """One look was not answered. What no waiting will mend, on a replica that has never worked, ends the search."""
        self._looks += 1
        error = fault.error()
        self._trouble = str(error)
        if fault.kind is Kind.SET_UP and fault.number != _MISSING_TABLE and not self._memory.was_secondary:
            self._error = LeaseConfigurationError(f"the replica cannot be asked: {error}")

    def verdict(self) -> Verdict:
        """How the call ends."""
        lease, grant = self.lease, self.grant
        if self._error is not None:
            return Verdict(give_back=grant.fresh, error=self._error)
        if self._sight is Sight.CONFIRMED:
            return self._accept(True)
        if self._sight is Sight.SUPERSEDED:
            if not grant.fresh:
                lease._believe(lease._belief.ended(), grant.era)
            journal.superseded(lease._name, lease._owner_id)
            return Verdict(give_back=grant.fresh)
        proceed = self._memory.options.on_unconfirmed == "proceed"
        journal.unconfirmed(lease._name, lease._owner_id, self._trouble, kept=proceed or not grant.fresh)
        if proceed:
            return self._accept(False)
        if grant.fresh:
            return Verdict(give_back=True)
        return Verdict(
            error=LeaseStoreError(
                f"lease {lease._name!r} was renewed, but no replica has shown it within "
                f"{self._memory.options.timeout:g} s ({self._trouble}): held ends at the last confirmed renewal",
                transient=True,
            )
        )

    def _accept(self, confirmed: bool) -> Verdict:
        return replace(self.grant, belief=self.grant.belief.shown(confirmed)).accept(self.lease)
