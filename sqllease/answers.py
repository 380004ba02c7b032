"""One row from the server, and what it means.

The statements of a lease all end in the same row (``sql/answer.sql``): what the locking statement did, and what an
unlocked read saw. Only the first part can make an answer True. Knows no clock, sends nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from .errors import LeaseConfigurationError, LeaseStoreError
from .names import RESTING_MARK

Row = Sequence[Any]

ANSWER_COLUMNS = (
    "ErrorNumber",
    "DoneName",
    "DoneOwner",
    "PreviousOwner",
    "DoneAcquiredAt",
    "DoneExpiresAt",
    "DoneVersion",
    "SeenName",
    "SeenOwner",
    "SeenAcquiredAt",
    "SeenRenewedAt",
    "SeenExpiresAt",
    "SeenRemainingUs",
    "SeenMetadata",
)
INFO_COLUMNS = ANSWER_COLUMNS[7:]
FENCE_COLUMNS = ("FencedVersion", "Unexpired")
REPLICA_COLUMNS = ("Updateability", "ShownName", "ShownOwner", "ShownAcquiredAt", "ShownVersion")


@dataclass(frozen=True, slots=True)
class LeaseInfo:
    """One row of the lease table as a plain read saw it: for people and for waiting, never a proof of who holds.

    remaining: seconds until expiry by the server's clock at the moment of the read, never negative. resting: nobody
    holds the lease, and nobody gets it before expires_at (hold-at-least); owner_id is then who held it last.
    """

    name: str
    owner_id: str
    acquired_at: datetime
    renewed_at: datetime
    expires_at: datetime
    remaining: float
    metadata: str | None
    resting: bool

    @property
    def expired(self) -> bool:
        """True when the server's clock had passed expires_at."""
        return self.remaining == 0.0


@dataclass(frozen=True, slots=True)
class Done:
    """What the locking statement did, by its own OUTPUT. tenure: AcquiredAtUtc exactly as the server wrote it,
    opaque.
    """

    tenure: str
    expires_at: datetime
    version: int
    previous_owner: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """error_number: 0, or the number of the contention that stopped the statement: then it changed nothing.

    seen_remaining: seconds until the seen row expires, negative once it has: LeaseInfo shows people no negative times.
    """

    error_number: int
    done: Done | None
    seen: LeaseInfo | None
    seen_remaining: float = 0.0


def moment(text: str) -> datetime:
    """An aware UTC datetime from ISO text with up to seven digits of a second; the seventh is cut."""
    return datetime.fromisoformat(text).astimezone(UTC)


def read_info(row: Row) -> LeaseInfo:
    """A row of INFO_COLUMNS."""
    name, owner, acquired, renewed, expires, remaining_us, metadata = row
    return LeaseInfo(
        name=name,
        owner_id=owner.removeprefix(RESTING_MARK),
        acquired_at=moment(acquired),
        renewed_at=moment(renewed),
        expires_at=moment(expires),
        remaining=max(0, remaining_us) / 1_000_000,
        metadata=metadata,
        resting=owner.startswith(RESTING_MARK),
    )


def read_answer(row: Row, name: str, owner_id: str) -> Answer:
    """A row of ANSWER_COLUMNS, compared exactly with the question.

    LeaseStoreError when it answers another question. LeaseConfigurationError when the table's collation takes another
    name for ours.
    """
    error_number, done_name, done_owner, previous, tenure, expires, version = row[:7]
    done = None
    if done_name is not None:
        if done_name != name or done_owner != owner_id:
            raise LeaseStoreError(f"the server answered for lease {done_name!r}, but {name!r} was asked")
        done = Done(tenure, moment(expires), version, previous)
    seen = None if row[7] is None else read_info(row[7:])
    if seen is not None and seen.name != name:
        raise LeaseConfigurationError(
            f"the lease table's collation takes {seen.name!r} for {name!r}; that row was left alone. "
            "Give LeaseName a binary collation (Latin1_General_100_BIN2, see create_script()), "
            "or use names that differ in more than case, width or accents"
        )
    return Answer(error_number, done, seen, 0.0 if seen is None else row[12] / 1_000_000)
