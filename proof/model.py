"""An independent model of the lease table: what each statement means, by the rules, not by its text.

Knows rows, one clock for each server, row versions, the lock that a fence keeps, and a replica that follows with a lag.
Times are ticks of 100 ns. ``sloppy`` takes the rule on tenure out of renew and release: the simulation has to find
that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

Row = tuple[Any, ...]
TICKS = 10_000_000


@dataclass(frozen=True, slots=True)
class Lease:
    """One row of the table."""

    owner: str
    acquired: int
    expires: int
    version: int


def text(ticks: int) -> str:
    """A moment as the server writes it, exact to 100 ns."""
    seconds, fraction = divmod(ticks, TICKS)
    days, seconds = divmod(seconds, 86_400)
    return f"2026-01-{1 + days:02}T{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}.{fraction:07}+00:00"


def ticks(moment: str) -> int:
    """The inverse of ``text``."""
    day, hour, minute, second = int(moment[8:10]) - 1, int(moment[11:13]), int(moment[14:16]), int(moment[17:19])
    return (((day * 24 + hour) * 60 + minute) * 60 + second) * TICKS + int(moment[20:27])


@dataclass(slots=True)
class Node:
    """One server: its clock is the true time and an offset. counter: the last row version."""

    name: str
    offset: float = 0.0
    row: Lease | None = None
    counter: int = 0
    fenced_by: set[str] = field(default_factory=set)

    def now(self, true_time: float) -> int:
        """The server's clock. It never shows less than a day, so that it can be set back."""
        return round((86_400 + true_time + self.offset) * TICKS)


_NOTHING: Row = (None,) * 7


class Table:
    """The lease table on a primary and, where there is one, a secondary that applies its commits in order."""

    def __init__(self, name: str, *, sloppy: bool = False) -> None:
        self._name = name
        self._sloppy = sloppy
        self.primary, self.secondary = Node("A"), Node("B")
        self.commits: list[tuple[Lease | None, int]] = []  # not yet applied on the secondary

    # --- the statements -----------------------------------------------------------------------------------------

    def acquire(self, parameters: Sequence[Any], true_time: float) -> Row:
        """MERGE: free, expired, or our own."""
        _, owner, _, _, dur_s, dur_us, hold_s, hold_us, grace_s, grace_us, last, keep = parameters
        node = self.primary
        now, row = node.now(true_time), node.row
        expires = now + dur_s * TICKS + dur_us * 10
        hold, grace = hold_s * TICKS + hold_us * 10, grace_s * TICKS + grace_us * 10
        last_ticks = ticks(last) if last else -1
        if row is not None and row.owner != owner and row.expires > now - grace:
            return self._answer(0, None, None, now, expires)
        if node.fenced_by:
            return self._answer(1222, None, None, now, expires)
        kept = row is not None and keep and row.acquired == last_ticks and row.expires > now
        if row is not None and kept:
            done = replace(row, owner=owner, expires=max(row.expires, expires, row.acquired + hold))
        else:
            begin = max(now, last_ticks + 1, row.acquired + 1 if row is not None else 0)
            done = Lease(owner, begin, max(expires, begin + hold), 0)
        previous = row.owner if row is not None else None
        return self._answer(0, self._write(done), previous, now, expires)

    def renew(self, parameters: Sequence[Any], true_time: float) -> Row:
        """UPDATE of this tenure, while it is unexpired."""
        _, owner, tenure, dur_s, dur_us = parameters
        node = self.primary
        now, row = node.now(true_time), node.row
        expires = now + dur_s * TICKS + dur_us * 10
        if row is None or not self._is(row, owner, tenure) or row.expires <= now:
            return self._answer(0, None, None, now, expires)
        if node.fenced_by:
            return self._answer(1222, None, None, now, expires)
        return self._answer(0, self._write(replace(row, expires=max(row.expires, expires))), None, now, expires)

    def release(self, parameters: Sequence[Any], true_time: float) -> Row:
        """DELETE of this tenure."""
        _, owner, tenure, *_ = parameters
        node = self.primary
        now, row = node.now(true_time), node.row
        if row is None or not self._is(row, owner, tenure):
            return self._answer(0, None, None, now, now)
        if node.fenced_by:
            return self._answer(1222, None, None, now, now)
        self._write(None)
        return self._answer(0, row, None, now, now)

    def get(self, parameters: Sequence[Any], true_time: float) -> list[Row]:
        """The row as a plain read sees it."""
        row = self.primary.row
        return [] if row is None else [self._seen(row, self.primary.now(true_time))]

    def look(self, parameters: Sequence[Any], true_time: float) -> Row:
        """The row as the secondary shows it."""
        row = self.secondary.row
        if row is None:
            return ("READ_ONLY", None, None, None, None)
        return ("READ_ONLY", self._name, row.owner, text(row.acquired), row.version)

    def fence(self, owner: str, tenure: str, link: str) -> bool:
        """The row of this tenure, locked for the transaction on this link until it commits or the link is cut."""
        row = self.primary.row
        if row is None or row.owner != owner or row.acquired != ticks(tenure):
            return False
        self.primary.fenced_by.add(link)
        return True

    def unlock(self, link: str) -> None:
        """The transaction on this link has ended."""
        self.primary.fenced_by.discard(link)

    # --- replication --------------------------------------------------------------------------------------------

    def apply_one(self) -> None:
        """The secondary applies the oldest commit that it has not."""
        if self.commits:
            self.secondary.row, self.secondary.counter = self.commits.pop(0)

    def fail_over(self, *, lose_tail: bool) -> None:
        """The secondary becomes the primary, with or without what it has not applied; the old one follows it anew."""
        while self.commits and not lose_tail:
            self.apply_one()
        self.commits.clear()
        # Row versions are reserved ahead, so an ordinary failover jumps forward.
        self.secondary.counter += 4_000
        self.primary, self.secondary = self.secondary, self.primary
        self.primary.fenced_by.clear()
        self.secondary.row, self.secondary.counter = self.primary.row, self.primary.counter

    # --- rows of the answer -------------------------------------------------------------------------------------

    def _is(self, row: Lease, owner: str, tenure: str) -> bool:
        return row.owner == owner and (self._sloppy or row.acquired == ticks(tenure))

    def _write(self, row: Lease | None) -> Lease:
        node = self.primary
        node.counter += 1
        node.row = None if row is None else replace(row, version=node.counter)
        self.commits.append((node.row, node.counter))
        return node.row if node.row is not None else Lease("", 0, 0, node.counter)

    def _answer(self, error: int, done: Lease | None, previous: str | None, now: int, expires: int) -> Row:
        if done is not None:
            acquired, until = text(done.acquired), text(expires)
            return (error, self._name, done.owner, previous, acquired, until, done.version, *_NOTHING)
        row = self.primary.row
        return (error, None, None, None, None, None, None, *(_NOTHING if row is None else self._seen(row, now)))

    def _seen(self, row: Lease, now: int) -> Row:
        expires = text(row.expires)
        return (self._name, row.owner, text(row.acquired), expires, expires, (row.expires - now) // 10, None)
