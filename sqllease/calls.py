"""The verbs as plain steps, whatever the colour: what to send, and what each answer does to the belief of a lease.

A verb is a ``Call``: ``prepare`` is called right before each send, ``settle`` with each answer, ``exhausted`` when
there was none. The shells only ask, wait and obey.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from . import journal
from .answers import Answer, Row, read_answer
from .base import LeaseBase
from .errors import LeaseError, LeaseInUse, LeaseStoreError
from .faults import Fault, Kind, Retry, retry_policy
from .statements import Statement


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
