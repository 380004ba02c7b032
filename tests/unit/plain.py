"""A lease without a connection, and the rows that a server would answer it with: the verbs can be tried step by step.

Knows the columns of an answer. Knows no I/O.
"""

from __future__ import annotations

from typing import Any

from sqllease import LeaseOptions, ReplicaOptions
from sqllease.answers import ANSWER_COLUMNS
from sqllease.base import LeaseBase, ReplicaMemory, SweepTimer
from sqllease.calls import Acquire
from sqllease.grants import Verdict
from sqllease.names import TableName
from sqllease.statements import Statements
from sqllease.testing import ManualClock

OPTIONS = LeaseOptions(duration=30, safety_margin=3, command_timeout=1, sweep_limit=0)
"""Belief for 27 s after the send, attempts for 10 s after the call."""

OLD = "2026-11-29T14:00:00.1234567+00:00"
NEW = "2026-11-29T14:05:00.1234567+00:00"
EXPIRES = "2026-11-29T14:00:30.1234567+00:00"

REPLICA = ReplicaOptions("DSN=replica", timeout=5, poll_interval=1)


def plain_lease(
    clock: ManualClock | None = None, options: LeaseOptions = OPTIONS, replica: ReplicaMemory | None = None
) -> LeaseBase:
    """The lease `nightly` of the owner `me`."""
    return LeaseBase(
        "nightly",
        owner_id="me",
        metadata=None,
        options=options,
        clock=clock or ManualClock(),
        statements=Statements(TableName()),
        sweep=SweepTimer(),
        replica=replica,
    )


def answer(**values: Any) -> list[list[Any]]:
    """The one row of an answer; columns that are not named are NULL."""
    return [[{"ErrorNumber": 0, "DoneExpiresAt": EXPIRES, **values}.get(column) for column in ANSWER_COLUMNS]]


def done(tenure: str = OLD, version: int = 2001, **values: Any) -> list[list[Any]]:
    """The locking statement did it, for us."""
    ours = {"DoneName": "nightly", "DoneOwner": "me", "DoneAcquiredAt": tenure, "DoneVersion": version}
    return answer(**{**ours, **values})


def seen(owner: str = "other", remaining: float = 20.0, error: int = 0) -> list[list[Any]]:
    """The locking statement did nothing (error: what stopped it); a plain read saw this owner in the row."""
    return answer(
        ErrorNumber=error,
        SeenName="nightly",
        SeenOwner=owner,
        SeenAcquiredAt=OLD,
        SeenRenewedAt=OLD,
        SeenExpiresAt=EXPIRES,
        SeenRemainingUs=round(remaining * 1_000_000),
    )


def begun(call: Acquire) -> Acquire:
    """The call, as a shell begins it and sends its first attempt."""
    call.begin()
    call.prepare()
    return call


def win(lease: LeaseBase, tenure: str = OLD, version: int = 2001) -> Verdict:
    """An acquire that is sent and won at once."""
    return begun(Acquire(lease)).settle(done(tenure, version))
