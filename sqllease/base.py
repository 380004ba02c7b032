"""What a lease object is, whatever its colour: one owner of one name, its numbers, and what it believes.

Tells without I/O; what changes the belief stands in ``calls`` and ``tenure``.
"""

from __future__ import annotations

import os
import threading
import weakref
from datetime import datetime

from .answers import LeaseInfo
from .clock import Clock
from .errors import LeaseInUse, LeaseLost, LeaseValueError
from .names import check_lease_name, check_metadata, check_owner_id, new_owner_id
from .options import LeaseOptions, ReplicaOptions
from .statements import Statements
from .tenure import Belief

_SWEEP_EVERY_S = 10.0


class SweepTimer:
    """Says when a won acquire should sweep: at most once in 10 seconds for each store."""

    def __init__(self) -> None:
        self._last: float | None = None

    def due(self, now: float) -> bool:
        return self._last is None or now - self._last >= _SWEEP_EVERY_S

    def swept(self, now: float) -> None:
        self._last = now


class ReplicaMemory:
    """What a store knows of its replica. was_secondary: its database has once said that it is read-only."""

    def __init__(self, options: ReplicaOptions) -> None:
        self.options = options
        self.was_secondary = False


class LeaseBase:
    """The colourless half of ``SqlLease`` and ``AsyncSqlLease``."""

    def __init__(
        self,
        name: str,
        *,
        owner_id: str | None,
        metadata: str | None,
        options: LeaseOptions,
        clock: Clock,
        statements: Statements,
        sweep: SweepTimer,
        replica: ReplicaMemory | None,
    ) -> None:
        if not isinstance(options, LeaseOptions):
            raise LeaseValueError(f"options must be LeaseOptions, not {type(options).__name__}")
        self._name = check_lease_name(name)
        self._owner_id = new_owner_id() if owner_id is None else check_owner_id(owner_id)
        self._metadata = check_metadata(metadata)
        self._options = options
        self._present_options = options  # those of the hold that is entered, if any
        self._claim: weakref.ref[object] | None = None  # of the hold that is entered, or about to be
        self._claiming = threading.Lock()
        self._era = 0  # rises when the tenure is forsaken or ended: calls of an earlier era change nothing
        self._clock = clock
        self._statements = statements
        self._sweep = sweep
        self._replica = replica
        if replica is not None:
            replica.options.check_with(options)
        self._belief = Belief()
        self._renew_failing = False
        self._leaving = False  # a hold is being left: no renewal is tried again
        self._newest: object = None  # the acquire that began last
        self._pid = os.getpid()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r} owner {self._owner_id!r} {'held' if self.held else 'not held'}>"

    @property
    def name(self) -> str:
        """The lease's name."""
        return self._name

    @property
    def owner_id(self) -> str:
        """Who this object is in the table. Two objects of the same owner id are one owner: they do not exclude each
        other.
        """
        return self._owner_id

    @property
    def options(self) -> LeaseOptions:
        """The numbers of this lease."""
        return self._options

    @property
    def metadata(self) -> str | None:
        """Free text that an acquire writes into the row."""
        return self._metadata

    @property
    def held(self) -> bool:
        """What this process may believe now: no I/O, own clock. Not a proof: another process may be ahead of a paused
        one.
        """
        return self.remaining > 0

    @property
    def remaining(self) -> float:
        """Seconds for which this process may still believe that it holds; 0.0 when it does not. No I/O."""
        return self._belief.remaining(self._clock.now()) if self._here else 0.0

    @property
    def expires_at(self) -> datetime | None:
        """Aware UTC time of the last confirmed expiry by the *server's* clock, None before the first acquire. For
        people, never for arithmetic.
        """
        return self._belief.expires_at

    @property
    def fencing_token(self) -> int | None:
        """The row version that began the present tenure: rises with each tenure within one database. None when not
        held.
        """
        belief = self._belief
        return belief.tenure.token if belief.tenure is not None and self.held else None

    @property
    def tenure(self) -> str | None:
        """The exact beginning of the present tenure, as the server wrote it: what ``fence_script()`` wants. Opaque."""
        tenure = self._belief.tenure if self._here else None
        return None if tenure is None else tenure.began

    @property
    def confirmed(self) -> bool | None:
        """None without a replica; else whether the replica has shown the present tenure."""
        tenure = self._belief.tenure
        return tenure.confirmed if tenure is not None else None

    @property
    def holder(self) -> LeaseInfo | None:
        """The other holder as the last lost acquire saw it, else None. No I/O."""
        return self._belief.holder

    def check(self) -> None:
        """Raises LeaseLost when ``held`` is False. No I/O: call it before each step of the work."""
        if not self.held:
            raise LeaseLost(f"lease {self._name!r} is not held by {self._owner_id!r}", self._not_held_because())

    def _not_held_because(self) -> str:
        if not self._here:
            return "this process was forked from the one that holds it"
        return (
            "it was never acquired, was released, or was lost"
            if self._belief.tenure is None
            else "its time has run out"
        )

    @property
    def _claimed(self) -> bool:
        """Whether a hold of this object is entered, or about to be. One that was forgotten claims nothing."""
        return self._claim is not None and self._claim() is not None

    def _believe(self, belief: Belief, era: int) -> bool:
        """Takes the new belief, unless the call that brings it has been given up. Whether it was taken.

        Asked again after the change, because the tenure may be forsaken, in another thread, at any moment.
        """
        if era == self._era:
            self._belief = belief
            if era == self._era:
                return True
            self._belief = belief.forsaken()
        return False

    def _forsake(self, began: str) -> float | None:
        """This tenure is no longer to be believed in, and an answer to a renewal in flight changes nothing any more.

        Returns its deadline; None when it is not the present one.
        """
        tenure = self._belief.tenure
        if tenure is None or tenure.began != began:
            return None
        self._era += 1
        self._belief = self._belief.forsaken()
        return tenure.deadline

    def _end_tenure(self) -> None:
        """The tenure is being given back, or left to expire: no answer in flight makes it believed in again, and the
        next acquire begins another.
        """
        self._era += 1  # before the belief: see _believe
        self._belief = self._belief.ended().doubtful()

    def _refuse_when_claimed(self) -> None:
        """Raises LeaseInUse for a raw verb while a hold is entered: the hold alone decides about its tenure."""
        if self._claimed and self._here:
            raise LeaseInUse(f"lease {self._name!r} is in use by a hold: use its ensure() or extend(), or leave it")

    @property
    def _here(self) -> bool:
        """False in a forked child, whose copy owns nothing."""
        return self._pid == os.getpid()
