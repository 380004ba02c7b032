"""The verbs as plain steps, whatever the colour: what to send, and what each answer does to the belief of a lease.

A verb is a ``Call``: ``prepare`` is called right before each send, ``settle`` with each answer, ``exhausted`` when
there was none. The shells only ask, wait and obey.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from . import journal
from .answers import Answer, Done, Row, read_answer
from .base import LeaseBase
from .errors import LeaseError, LeaseInUse, LeaseStoreError
from .faults import Fault, Kind, Retry, retry_policy
from .grants import Grant, Verdict
from .options import LeaseOptions, Seconds
from .replica import Confirmation
from .statements import Statement
from .tenure import NEVER

Ask: TypeAlias = Callable[[Statement], Sequence[Row]]


class Call(ABC):
    """One verb of one lease, from the first attempt to the last."""

    def __init__(self, lease: LeaseBase, *, budget: float | None = None) -> None:
        self.lease = lease
        self.options = lease._present_options
        self._began_at = lease._clock.now()
        self._budget = self.options.retry_budget if budget is None else budget
        self._sent_at = 0.0
        self._era = lease._era
        self._asked = False
        self._unanswered = False
        self._in_doubt = False

    @property
    def void(self) -> bool:
        """True when there is nothing to ask: the answer is False without a question."""
        return False

    @property
    def unwanted(self) -> bool:
        """True when no further attempt is wanted."""
        return False

    @property
    def left(self) -> float:
        """Seconds in which another attempt may still start."""
        return max(0.0, self._began_at + self._budget - self.lease._clock.now())

    def begin(self) -> None:
        """Called once, in the lease's turn, before the first attempt."""

    @abstractmethod
    def prepare(self) -> Statement:
        """What to send now. Called right before each send: the deadline counts from here."""

    @abstractmethod
    def settle(self, rows: Sequence[Row]) -> Verdict:
        """What the answer means. Raises Retry when it says that the row was busy."""

    def exhausted(self, fault: Fault) -> Verdict:
        """No attempt was answered in time, or none can be."""
        return Verdict(error=self._error(fault))

    def policy(self) -> dict[str, Any]:
        """How tenacity tries again."""
        return retry_policy(self.lease._clock, self._budget, self._began_at, lambda: self.unwanted)

    def too_late(self, rows: Sequence[Row] | None, ask: Ask) -> None:
        """Undoes, by asking, what nobody waits for any more. rows: the answer, None when it was lost to the cancel."""

    def _about_to_send(self) -> None:
        self._sent_at = self.lease._clock.now()
        self._in_doubt, self._unanswered = self._in_doubt or self._unanswered, True
        self._asked = True

    def _doubt(self, fault: Fault) -> bool:
        """Whether something may have been done that nobody told us. An error of which it is known that it comes before
        anything is done is an answer; others may come from behind the statement's own commit. Earlier ones count too.
        """
        return self._in_doubt or (self._unanswered and not fault.refused)

    def _error(self, fault: Fault) -> LeaseError:
        return replace(fault, sent=fault.sent or (self._asked and self._doubt(fault))).error()

    def _answer(self, rows: Sequence[Row]) -> Answer:
        self._unanswered = False
        if len(rows) != 1:
            raise LeaseStoreError(f"the server sent {len(rows)} answers to one question")
        return read_answer(rows[0], self.lease._name, self.lease._owner_id)

    def _answer_for(self, tenure: str, rows: Sequence[Row]) -> Answer:
        answer = self._answer(rows)
        if answer.error_number:
            raise Retry(Fault(Kind.CONTENTION, answer.error_number))
        if answer.done is not None and answer.done.tenure != tenure:
            raise LeaseStoreError(
                f"the server answered for another tenure of lease {self.lease._name!r} than was asked"
            )
        return answer

    def _grant(self, grant: Grant) -> Verdict:
        replica = self.lease._replica
        if replica is None or not (grant.fresh or replica.options.confirm_renewals):
            return grant.accept(self.lease)
        return Verdict(confirm=Confirmation(self.lease, replica, grant))


class Acquire(Call):
    """Take the lease, or refresh the tenure that this object still has."""

    def __init__(self, lease: LeaseBase, options: LeaseOptions | None = None) -> None:
        super().__init__(lease)
        self.options = options or lease._options
        if not lease._here:
            raise LeaseInUse(
                f"lease {lease._name!r} belongs to process {lease._pid}, which forked this one: "
                "make a new lease object here"
            )
        self._last: Answer | None = None
        self._sweeping = False

    def begin(self) -> None:
        self.lease._newest = self
        self._era = self.lease._era
        self._in_doubt = self.lease._belief.in_doubt  # what an earlier call has left

    def prepare(self) -> Statement:
        lease, belief = self.lease, self.lease._belief
        self._about_to_send()
        self._sweeping = self.options.sweep_limit > 0 and lease._sweep.due(self._sent_at)
        lease._belief = belief.doubtful()
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
        answer = self._last = self._answer(rows)
        if answer.done is not None:
            return self._won(answer.done)
        # Nobody in sight (the row vanished between the two reads), or the row was busy: ask again while there is time.
        if answer.error_number or not self._shows_another(answer):
            raise Retry(Fault(Kind.CONTENTION, answer.error_number))
        return self._refused(answer)

    def exhausted(self, fault: Fault) -> Verdict:
        lease = self.lease
        doubt = self._doubt(fault)
        if not doubt:
            lease._belief = lease._belief.settled()
        if fault.kind is Kind.CONTENTION and self._last is not None and self._shows_another(self._last):
            return self._refused(self._last)
        # A refresh that was not answered leaves the tenure that we have; a first acquire may have left a row of ours.
        unused = doubt and self._asked and lease._belief.tenure is None and self.left > 0
        return Verdict(give_back=unused, error=self._error(fault))

    def too_late(self, rows: Sequence[Row] | None, ask: Ask) -> None:
        lease = self.lease
        if not rows:  # drivers also make an empty answer of a cancelled one
            began = _row_of_ours(lease, ask(lease._statements.get(lease._name)))
        else:
            done = self._answer(rows).done
            began = None if done is None else done.tenure
        present = lease._belief.tenure
        # Once a newer acquire has begun, this one may have come after it on the server and lie over the tenure that
        # the object is told of: to give that row back would let others in beside it. It is left to expire.
        if began is None or lease._newest is not self or (present is not None and present.began == began):
            return
        ask(lease._statements.release(lease._name, lease._owner_id, began, self.options, rest=False))

    def _won(self, done: Done) -> Verdict:
        lease = self.lease
        if self._sweeping:
            lease._sweep.swept(self._sent_at)
        before = lease._belief.tenure
        fresh = before is None or before.began != done.tenure
        return self._grant(Grant(lease._belief.won(done, self._sent_at, self.options), done, fresh, True, self._era))

    def _shows_another(self, answer: Answer) -> bool:
        seen = answer.seen
        if seen is None or answer.seen_remaining + self.options.takeover_grace < 0:
            return False
        return seen.resting or seen.owner_id != self.lease._owner_id

    def _refused(self, answer: Answer) -> Verdict:
        lease, holder = self.lease, answer.seen
        assert holder is not None
        if lease._belief.tenure is not None:
            journal.lost(lease._name, lease._owner_id, holder)
        else:
            journal.refused(lease._name, lease._owner_id, holder, lease._belief.holder)
        if not self._in_doubt:
            lease._belief = lease._belief.settled()
        lease._belief = lease._belief.lost_to(holder)
        return Verdict(False)


class Renew(Call):
    """Prolong the tenure that this object has. Once that is forsaken, a late answer changes nothing."""

    def __init__(self, lease: LeaseBase, duration: Seconds | None = None) -> None:
        super().__init__(lease, budget=min(lease._options.retry_budget, lease.remaining))
        if duration is not None:
            self.options = self.options.but(duration=duration)
        self._tenure = lease._belief.tenure if lease._here else None

    @property
    def abandoned(self) -> bool:
        """Nobody waits for it any more."""
        return self._era != self.lease._era

    @property
    def void(self) -> bool:
        return self._tenure is None or self._tenure.deadline == NEVER

    @property
    def unwanted(self) -> bool:
        """Nobody waits for another attempt: who leaves a hold wants to go."""
        return self.abandoned or self.lease._leaving

    def prepare(self) -> Statement:
        assert self._tenure is not None
        if self.unwanted:
            raise Retry(Fault(Kind.BUSY, text="the hold is being left", sent=False))
        self._about_to_send()
        return self.lease._statements.renew(self.lease._name, self.lease._owner_id, self._tenure.began, self.options)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        assert self._tenure is not None
        answer = self._answer_for(self._tenure.began, rows)
        belief = lease._belief
        if self.abandoned or belief.tenure is None or belief.tenure.began != self._tenure.began:
            return Verdict(False)
        lease._renew_failing = False
        if answer.done is None:
            lease._belief = lease._belief.ended()
            journal.lost(lease._name, lease._owner_id, answer.seen)
            return Verdict(False)
        renewed = belief.renewed(answer.done, self._sent_at, self.options)
        return self._grant(Grant(renewed, answer.done, False, False, self._era))

    def exhausted(self, fault: Fault) -> Verdict:
        lease, error = self.lease, self._error(fault)
        if self.abandoned:
            return Verdict(error=error)
        journal.renew_failed(lease._name, lease._owner_id, error, lease.remaining, first=not lease._renew_failing)
        lease._renew_failing = True
        return Verdict(error=error)


class Find(Call):
    """Look for a row of ours that an unanswered message may have left, so that it can be released by its tenure.

    began: the tenure that was found. An unlocked read: it decides nothing.
    """

    def __init__(self, lease: LeaseBase, *, budget: float | None = None) -> None:
        super().__init__(lease, budget=budget)
        self.began: str | None = None

    def prepare(self) -> Statement:
        return self.lease._statements.get(self.lease._name)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        self.began = _row_of_ours(lease, rows)
        if self.began is None:
            lease._belief = lease._belief.settled()
        return Verdict(self.began is not None)


class Release(Call):
    """Give a tenure back: the present one, or one that ``Find`` found. ``held`` is False from here on.

    repeated: an earlier try was not answered, so that False may mean that this one did it.
    Only a tenure that the caller was told of rests (hold-at-least): under another one no work was done.
    """

    def __init__(self, lease: LeaseBase, began: str | None = None, *, budget: float | None = None) -> None:
        super().__init__(lease, budget=budget)
        tenure = lease._belief.tenure if lease._here else None
        self._tenure = tenure.began if began is None and tenure is not None else began
        self.repeated = False
        self._another = lease._belief.in_doubt  # an unanswered acquire may have begun another tenure than this one
        if self._tenure is not None and (tenure is None or tenure.began == self._tenure):
            lease._end_tenure()

    @property
    def void(self) -> bool:
        return self._tenure is None

    def prepare(self) -> Statement:
        lease = self.lease
        assert self._tenure is not None
        self.repeated = self._in_doubt or self._unanswered
        self._about_to_send()
        rest = self._tenure == lease._belief.granted
        return lease._statements.release(lease._name, lease._owner_id, self._tenure, self.options, rest=rest)

    def settle(self, rows: Sequence[Row]) -> Verdict:
        lease = self.lease
        assert self._tenure is not None
        answer = self._answer_for(self._tenure, rows)
        if answer.done is not None or not self._another:
            lease._belief = lease._belief.settled()
        journal.released(lease._name, lease._owner_id, was_ours=answer.done is not None)
        return Verdict(answer.done is not None)


def _row_of_ours(lease: LeaseBase, rows: Sequence[Row]) -> str | None:
    """The beginning of the tenure of this owner among the rows of a look at the table; None when there is none."""
    return next((began for name, owner, began, *_ in rows if name == lease._name and owner == lease._owner_id), None)
