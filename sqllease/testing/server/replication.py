"""The log on its way from a primary to its secondary: commits in order, each applied when its lag has passed.

Keeps only what the secondary has not applied yet. Knows two engines; knows no ports and no links. Not modelled: on a
real secondary a change of a definition waits for the queries that read the table; here it does not.
"""

from __future__ import annotations

import threading
from collections import deque
from enum import Enum

from .clock import Handle
from .engine import Engine
from .sqltypes import TICKS_PER_SECOND
from .storage import Commit, Database
from .transactions import SchemaChange

_SYSTEM = ("master", "tempdb")


class State(Enum):
    FLOWS = "every commit is applied when it is due"
    PAUSED = "nothing is applied"
    CUT = "nothing leaves the primary"
    ENDED = "nobody follows"


class Replication:
    """From the start the target is a copy of the source's databases; logins are the same on both.

    The lag counts on the source's clock. Without lag a commit is applied before it is answered. For the engines'
    thread, except for ``wait``, ``caught_up`` and ``state``.
    """

    def __init__(self, source: Engine, target: Engine, lag: float = 0.0) -> None:
        self.source, self.target = source, target
        self.state = State.FLOWS
        self._lag = lag
        self._pending: deque[tuple[int, Database, Commit]] = deque()  # with the time of the commit
        self._changed = threading.Condition()
        self._timer: Handle | None = None
        target.logins = source.logins
        for name, database in source.instance.databases.items():
            if name not in _SYSTEM:
                self._follow(database, target.instance.databases[name])
        target.changed()

    def _follow(self, database: Database, replica: Database) -> None:
        def send(commit: Commit) -> None:
            self._pending.append((self.source.clock.ticks(), replica, commit))
            self._flow()

        replica.copy(database)
        replica.secondary = True
        database.on_commit = send

    @property
    def lag(self) -> float:
        return self._lag

    @lag.setter
    def lag(self, seconds: float) -> None:
        if seconds < 0:
            raise ValueError("a lag is not negative")
        self._lag = seconds
        self._flow()

    @property
    def pending(self) -> int:
        """How many commits are on their way."""
        return len(self._pending)

    @property
    def caught_up(self) -> bool:
        return not self._pending

    def wait(self, timeout: float) -> None:
        """Until it has caught up. Raises TimeoutError."""
        with self._changed:
            if not self._changed.wait_for(lambda: self.caught_up, timeout):
                raise TimeoutError(f"the secondary has not caught up within {timeout} s: {self.state.value}")

    def set(self, state: State) -> None:
        if self.state is not State.ENDED:
            self.state = state
            self._flow()

    def end(self, *, deliver: bool) -> None:
        """What is on its way is applied or lost; then the target follows no more."""
        while deliver and self._pending:
            self._apply()
        self._pending.clear()
        self.state = State.ENDED
        for database in self.source.instance.databases.values():
            database.on_commit = None
        self._flow()

    def promote(self, *, reissue: bool) -> None:
        """Makes the target of an ended replication a primary. Row versions go on from the last reservation in the log
        that it has; reissue: from the last commit that it has, as if the reservation had ended there.
        """
        self.target.instance.skip_ids(self.source.instance)
        for database in self.target.instance.databases.values():
            if database.secondary:
                database.secondary = False
                database.go_on(database.rowversion if reissue else database.reserved)

    def _flow(self) -> None:
        """Applies what is due, and comes back when the next one is."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        while self._pending and self.state is State.FLOWS:
            due = self._pending[0][0] + round(self._lag * TICKS_PER_SECOND)
            if due > self.source.clock.ticks():
                self._timer = self.source.clock.call_at(due, self._flow)
                break
            self._apply()
        with self._changed:
            self._changed.notify_all()

    def _apply(self) -> None:
        _, replica, commit = self._pending.popleft()
        replica.apply(commit)
        if any(isinstance(change, SchemaChange) for change in commit.changes):
            self.target.changed()
