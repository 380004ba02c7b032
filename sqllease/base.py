"""What a lease object is, whatever its colour: one owner of one name, its belief, and the verbs as plain steps.

The sync and the async lease only ask, wait and obey; every rule about what is sent and what an answer means stands
here and below. A verb is a ``Call``: ``prepare`` is called right before each send, ``settle`` with each answer,
``exhausted`` when there was none.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import journal
from .answers import Answer, LeaseInfo, Row, read_answer
from .clock import Clock
from .errors import LeaseError, LeaseInUse, LeaseLost, LeaseStoreError, LeaseValueError
from .faults import Fault, Kind, Retry, retry_policy
from .names import check_lease_name, check_metadata, check_owner_id, new_owner_id
from .options import LeaseOptions
from .statements import Statement, Statements
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
    ) -> None:
        if not isinstance(options, LeaseOptions):
            raise LeaseValueError(f"options must be LeaseOptions, not {type(options).__name__}")
        self._name = check_lease_name(name)
        self._owner_id = new_owner_id() if owner_id is None else check_owner_id(owner_id)
        self._metadata = check_metadata(metadata)
        self._options = options
        self._clock = clock
        self._statements = statements
        self._sweep = sweep
        self._belief = Belief()
        self._renew_failing = False
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
    def _here(self) -> bool:
        """False in a forked child, whose copy owns nothing."""
        return self._pid == os.getpid()


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a call ends. give_back: release what may be ours before the caller is told. error: raise it."""

    value: bool = False
    give_back: bool = False
    error: LeaseError | None = None


class Call(ABC):
    """One verb of one lease, from the first attempt to the last."""

    def __init__(self, lease: LeaseBase) -> None:
        self.lease = lease
        self.options = lease._options
        self._sent_at = 0.0

    @property
    def void(self) -> bool:
        """True when there is nothing to ask: the answer is False without a question."""
        return False

    @abstractmethod
    def prepare(self) -> Statement:
        """What to send now. Called right before each send: the deadline counts from here."""

    @abstractmethod
    def settle(self, rows: Sequence[Row]) -> Verdict:
        """What the answer means. Raises Retry when it says that the row was busy."""

    def exhausted(self, fault: Fault) -> Verdict:
        """No attempt was answered in time, or none can be."""
        return Verdict(error=fault.error())

    @property
    def budget(self) -> float:
        """No attempt starts later than so many seconds after the call began."""
        return self.options.retry_budget

    def policy(self) -> dict[str, Any]:
        """How tenacity tries again."""
        return retry_policy(self.lease._clock, lambda: self.budget)

    def _answer(self, rows: Sequence[Row]) -> Answer:
        if len(rows) != 1:
            raise LeaseStoreError(f"the server sent {len(rows)} answers to one question")
        return read_answer(rows[0], self.lease._name, self.lease._owner_id)


class Acquire(Call):
    """Take the lease, or refresh the tenure that this object still has."""

    def __init__(self, lease: LeaseBase) -> None:
        super().__init__(lease)
        if not lease._here:
            raise LeaseInUse(
                f"lease {lease._name!r} belongs to process {lease._pid}, which forked this one: "
                "make a new lease object here"
            )
        self._last: Answer | None = None
        self._sweeping = False

    def prepare(self) -> Statement:
        lease = self.lease
        self._sent_at = lease._clock.now()
        self._sweeping = self.options.sweep_limit > 0 and lease._sweep.due(self._sent_at)
        belief = lease._belief
        lease._belief = belief.asking()
        return lease._statements.acquire(
            lease._name,
            lease._owner_id,
            lease._metadata,
            self.options,
            last=belief.last,
            keep=belief.tenure is not None,
            sweep=self._sweeping,
        )

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        answer = self._last = self._answer(rows)
        if answer.done is None:
            # Nobody in sight (the row vanished between the two reads), or the row was busy: ask again while there is
            # time.
            if answer.error_number or not self._shows_another(answer):
                raise Retry(Fault(Kind.CONTENTION, answer.error_number))
            return self._refused(answer)
        if self._sweeping:
            lease._sweep.swept(self._sent_at)
        before = lease._belief.tenure
        lease._belief = lease._belief.won(answer.done, self._sent_at, self.options)
        tenure = lease._belief.tenure
        assert tenure is not None
        if before is not None and before.began == tenure.began:
            journal.refreshed(lease._name, lease._owner_id, answer.done)
        else:
            journal.acquired(lease._name, lease._owner_id, answer.done, tenure.token)
        if lease.held:
            return Verdict(True)
        late = LeaseStoreError(
            f"lease {lease._name!r} was won, but the answer took longer than duration − safety_margin "
            f"({self.options.duration - self.options.safety_margin:g} s); it was given back",
            transient=True,
        )
        journal.gave_back(lease._name, lease._owner_id, "the answer came too late")
        return Verdict(give_back=True, error=late)

    def exhausted(self, fault: Fault) -> Verdict:
        lease = self.lease
        if fault.kind is Kind.CONTENTION:
            lease._belief = lease._belief.settled()
            if self._last is not None and self._shows_another(self._last):
                return self._refused(self._last)
            return Verdict(error=fault.error())
        # A refresh that was not answered leaves the tenure that we have; a first acquire may have left a row that
        # nobody would use.
        unused = fault.sent and fault.kind is not Kind.SET_UP and lease._belief.tenure is None
        return Verdict(give_back=unused, error=fault.error())

    def _shows_another(self, answer: Answer) -> bool:
        seen = answer.seen
        if seen is None or answer.seen_remaining + self.options.takeover_grace <= 0:
            return False
        return seen.resting or seen.owner_id != self.lease._owner_id

    def _refused(self, answer: Answer) -> Verdict:
        lease, holder = self.lease, answer.seen
        assert holder is not None
        if lease._belief.tenure is not None:
            journal.lost(lease._name, lease._owner_id, holder)
        else:
            journal.refused(lease._name, lease._owner_id, holder, lease._belief.holder)
        lease._belief = lease._belief.lost_to(holder)
        return Verdict(False)


class Renew(Call):
    """Prolong the tenure that this object has."""

    def __init__(self, lease: LeaseBase) -> None:
        super().__init__(lease)
        self._tenure = lease._belief.tenure if lease._here else None

    @property
    def void(self) -> bool:
        return self._tenure is None

    @property
    def budget(self) -> float:
        return min(super().budget, self.lease.remaining)

    def prepare(self) -> Statement:
        assert self._tenure is not None
        self._sent_at = self.lease._clock.now()
        return self.lease._statements.renew(self.lease._name, self.lease._owner_id, self._tenure.began, self.options)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        answer = self._answer(rows)
        if answer.error_number:
            raise Retry(Fault(Kind.CONTENTION, answer.error_number))
        lease._renew_failing = False
        if answer.done is None:
            lease._belief = lease._belief.ended()
            journal.lost(lease._name, lease._owner_id, answer.seen)
            return Verdict(False)
        lease._belief = lease._belief.renewed(answer.done, self._sent_at, self.options)
        journal.refreshed(lease._name, lease._owner_id, answer.done)
        if lease.held:
            return Verdict(True)
        return Verdict(
            error=LeaseStoreError(
                f"lease {lease._name!r} was renewed, but the answer came too late to rely on", transient=True
            )
        )

    def exhausted(self, fault: Fault) -> Verdict:
        lease, error = self.lease, fault.error()
        journal.renew_failed(lease._name, lease._owner_id, error, lease.remaining, first=not lease._renew_failing)
        lease._renew_failing = True
        return Verdict(error=error)


class Find(Call):
    """Look for the row of an acquire that was never answered, so that it can be released by its tenure. An unlocked
    read.
    """

    def prepare(self) -> Statement:
        return self.lease._statements.get(self.lease._name)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        lease._belief = lease._belief.settled()
        for name, owner, began, *_ in rows:
            if name == lease._name and owner == lease._owner_id:
                lease._belief = lease._belief.found(began)
                return Verdict(True)
        return Verdict(False)


class Release(Call):
    """Give the tenure back. ``held`` is False from here on, whatever is answered."""

    def __init__(self, lease: LeaseBase) -> None:
        super().__init__(lease)
        self._began = lease._belief.tenure.began if lease._here and lease._belief.tenure is not None else None
        if lease._here:
            lease._belief = lease._belief.ended()

    @property
    def void(self) -> bool:
        return self._began is None

    def prepare(self) -> Statement:
        assert self._began is not None
        return self.lease._statements.release(self.lease._name, self.lease._owner_id, self._began, self.options)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        answer = self._answer(rows)
        if answer.error_number:
            raise Retry(Fault(Kind.CONTENTION, answer.error_number))
        journal.released(self.lease._name, self.lease._owner_id, was_ours=answer.done is not None)
        return Verdict(answer.done is not None)
