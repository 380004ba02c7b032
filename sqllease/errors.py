"""The errors of sqllease: one tree, every kind with the question that it answers.

``LeaseConfigurationError`` says "change something", ``LeaseStoreError`` says "nobody knows", ``LeaseLost`` says "stop".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .answers import LeaseInfo


class LeaseError(Exception):
    """Everything that sqllease raises on purpose."""


class LeaseConfigurationError(LeaseError):
    """The surroundings can never work as they are: table, right, driver, login, read-only database. The text says what
    to change.
    """


class LeaseValueError(LeaseConfigurationError, ValueError):
    """An argument can never work: a name, an owner, a number, a contradiction. Raised before any I/O."""


class LeaseStoreError(LeaseError):
    """The database could not be asked, or did not answer: **the outcome is unknown**.

    number: SQL Server's error number, 0 when the error is the driver's or ours. sqlstate: the driver's five letters,
    or "". transient: True when the same call may succeed later without any change.
    """

    def __init__(self, message: str, *, number: int = 0, sqlstate: str = "", transient: bool = False) -> None:
        super().__init__(message)
        self.number = number
        self.sqlstate = sqlstate
        self.transient = transient


class LeaseNotAcquired(LeaseError, TimeoutError):
    """A waiting acquire ran out of time. holder: who has the lease, when that is known."""

    def __init__(self, message: str, holder: LeaseInfo | None = None) -> None:
        super().__init__(message)
        self.holder = holder


class LeaseInUse(LeaseError, RuntimeError):
    """This lease object is in use by somebody else: a hold that is entered, or the process that forked this one."""


class LeaseLost(LeaseError):
    """The lease ended under the work: stop touching what it protects. reason: one plain sentence."""

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.reason = reason or message
