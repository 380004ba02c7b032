"""How a call ends: what is told to the caller, and how a grant of the primary becomes a belief.

True is only ever said here, and only while the belief holds.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from . import journal
from .answers import Done
from .base import LeaseBase
from .errors import LeaseError, LeaseStoreError
from .tenure import Belief

if TYPE_CHECKING:
    from .replica import Confirmation


@dataclass(frozen=True, slots=True)
class Verdict:
    """How a call ends. give_back: release what may be ours before the caller is told. error: raise it. confirm: ask
    the replica first, its verdict counts.
    """

    value: bool = False
    give_back: bool = False
    error: LeaseError | None = None
    confirm: Confirmation | None = None


@dataclass(frozen=True, slots=True)
class Grant:
    """What the primary has granted. fresh: it began a new tenure. acquired: by an acquire, else by a renew. era: of the
    lease when it was asked.
    """

    belief: Belief
    done: Done
    fresh: bool
    acquired: bool
    era: int

    def accept(self, lease: LeaseBase) -> Verdict:
        """The lease believes in it. True while that belief holds; an answer that came too late is no True."""
        if not lease._believe(self.belief, self.era):
            return Verdict(False)
        if not lease.held:
            return self._too_late(lease)
        if not lease._believe(self.belief.told(), self.era):
            return Verdict(False)
        tenure = self.belief.tenure
        assert tenure is not None
        if self.fresh:
            journal.acquired(lease._name, lease._owner_id, self.done, tenure.token)
        else:
            journal.refreshed(lease._name, lease._owner_id, self.done)
        return Verdict(True)

    def _too_late(self, lease: LeaseBase) -> Verdict:
        usable = lease._options.duration - lease._options.safety_margin
        late = f"the answer took longer than duration − safety_margin ({usable:g} s)"
        if not self.acquired:
            return Verdict(error=LeaseStoreError(f"lease {lease._name!r} was renewed, but {late}", transient=True))
        journal.giving_back(lease._name, lease._owner_id, late)
        return Verdict(
            give_back=True,
            error=LeaseStoreError(f"lease {lease._name!r} was won, but {late}: it is given back", transient=True),
        )
