"""What a driver's exception means, decided by native number or SQLSTATE, never by text or class; and the one retry
policy.

Sources: EF Core's SqlServerTransientExceptionDetector, SqlClient's SqlConfigurableRetryFactory, Microsoft's page on
Azure SQL connection errors;
-1, 0, 2, 26, 53, 258, 596, 913, 922, 955, 956, 1219, 3961, 6005, 10061, 17142 and 3906 are additions of ours. An
exception is turned into a ``Fault``, plain data, and dropped: a driver's exception in a chain could carry a piece of a
connection string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from tenacity import RetryCallState, retry_if_exception
from tenacity.stop import stop_base
from tenacity.wait import wait_exponential, wait_fixed, wait_random

from .clock import Clock
from .errors import LeaseConfigurationError, LeaseError, LeaseStoreError
from .odbc import scrub

OPEN_TRANSACTION = 51000
"""Our own THROW: the connection arrived with an open transaction."""

CONTENTION = frozenset(
    {601, 617, 669, 1203, 1204, 1205, 1221, 1222, 2601, 2627, 3960, 3961, 3966, 8628, 8645, 8651, 10922, 42029}
)
MOVED = frozenset(
    {
        -2,
        -1,
        2,
        20,
        26,
        53,
        64,
        121,
        203,
        233,
        258,
        596,
        615,
        913,
        921,
        922,
        926,
        927,
        941,
        952,
        955,
        956,
        976,
        978,
        979,
        982,
        983,
        988,
    }
    | {
        997,
        1219,
        3906,
        3947,
        3948,
        3980,
        4060,
        4221,
        6005,
        10053,
        10054,
        10060,
        10061,
        11001,
        17142,
        17197,
        17889,
        18401,
        40143,
        40166,
        40197,
    }
    | {40540, 40613, 42108, 42109}
)
THROTTLED = frozenset({10928, 10929, 10930, 10936, 40189, 40501, 40642, 40648, 40675, 49918, 49919, 49920})

_SET_UP = {
    208: "the lease table is missing: run ensure_created(), or give a DBA create_script()",
    229: "a right is missing: give a DBA grant_script()",
    230: "a right is missing: give a DBA grant_script()",
    262: "a right is missing: give a DBA create_script(), or the login CREATE TABLE (and CREATE SCHEMA); where the "
    "table is there, the login has no right on it: give a DBA grant_script()",
    1750: "the table could not be created: a constraint of that name is in the schema already, see create_script()",
    1913: "an index of that name is there already: see create_script()",
    2714: "an object of that name is there already, though not this table: rename or drop it, see create_script()",
    2759: "the schema could not be created: see create_script()",
    2760: "the schema is missing or out of reach: give a DBA create_script(), or the login ALTER on the schema; where "
    "the table is there, the login has no right on it: give a DBA grant_script()",
    916: "the login has no user in this database: give a DBA grant_script()",
    207: "the lease table has other columns than it should: verify() says which",
    213: "the lease table has other columns than it should: verify() says which",
    8622: "the lease table has no unique key on LeaseName, so two owners could hold one lease: see verify()",
    468: "the lease table's collation meets another one: see verify()",
    547: "a check on the lease table refuses the row",
    2628: "a column of the lease table is too short: see verify()",
    8152: "a column of the lease table is too short: see verify()",
    3906: "the database is read-only: connect to the primary, or look why it does not accept writes",
    4060: "the database does not exist, or the login may not open it: look at DATABASE= in the connection string",
    4064: "the login's default database cannot be opened: name one with DATABASE= in the connection string",
    18456: "the login failed: look at UID, PWD and DATABASE in the connection string, and whether the login is enabled",
    18452: "the login failed: this server does not accept it",
    40615: "the server's firewall does not let this machine in",
    40914: "the server's firewall does not let this machine in",
    OPEN_TRANSACTION: "each connection arrives with a transaction open: look at the callable or pool it comes from",
}
_LASTING = frozenset({3906, 4060, OPEN_TRANSACTION})
"""Asked again like MOVED, since a failover shows them for moments; when they last, somebody has to change something."""
_NOT_LOADED = (
    "the ODBC driver is not installed or cannot be loaded: `odbcinst -q -d` lists those that are; where DRIVER= names "
    "a file, look whether it is there, and the libraries that it needs"
)
_NO_DRIVER = {
    "IM002": "the ODBC driver is not installed, or DRIVER= does not name it: `odbcinst -q -d` lists those that are",
    "01000": _NOT_LOADED,
    "IM003": _NOT_LOADED,
}
_QUOTABLE = ("08", "HYT", "28", "42", "40", "25", "23", "22", "IM002", "01000", "IM003")
"""SQLSTATEs whose text tells of the server or the network; others may quote the connection string."""


class Kind(Enum):
    """What to do about a fault."""

    CONTENTION = auto()  # ask again on the same connection
    MOVED = auto()  # the link is in doubt: ask again on a fresh one
    THROTTLED = auto()  # as MOVED, after a longer wait
    BUSY = auto()  # nothing was asked: every connection of the store is in use
    SET_UP = auto()  # no use to ask again: somebody has to change something


@dataclass(frozen=True, slots=True)
class Fault:
    """One failure of the database or of the way to it. sent: the statement may have reached the server."""

    kind: Kind
    number: int = 0
    sqlstate: str = ""
    text: str = ""
    sent: bool = True

    @property
    def refused(self) -> bool:
        """True when it is known that the server did nothing of what was asked."""
        return self.kind is Kind.SET_UP and self.sent and self.number in _SET_UP

    @property
    def breaks_connection(self) -> bool:
        """True when the connection must not be used again, and its siblings are suspect."""
        return self.kind in (Kind.MOVED, Kind.THROTTLED)

    def error(self) -> LeaseError:
        """The same as an exception for the caller, with what to do about it."""
        code = f"error {self.number}" if self.number else f"SQLSTATE {self.sqlstate}" if self.sqlstate else ""
        told = ", ".join(part for part in (self.text, code) if part)
        advice = _SET_UP.get(self.number) or (_NO_DRIVER.get(self.sqlstate) if not self.sent else None)
        if self.kind is Kind.SET_UP or self.number in _LASTING:
            return LeaseConfigurationError(f"{advice or 'the database refused the statement'} ({told})")
        if self.kind is Kind.BUSY:
            return LeaseStoreError(f"no connection was free ({self.text}): raise max_connections", transient=True)
        if self.kind is Kind.CONTENTION:
            what = "the lease row was busy for too long"
        elif not self.sent:
            what = (
                advice
                or "the server could not be reached: look whether it runs, and at SERVER= in the connection string"
            )
        else:
            what = "the server did not answer, so the outcome is unknown"
        return LeaseStoreError(f"{what} ({told})", number=self.number, sqlstate=self.sqlstate, transient=True)


class Retry(Exception):
    """Carries a fault through tenacity; never reaches a caller."""

    def __init__(self, fault: Fault) -> None:
        super().__init__(fault)
        self.fault = fault


def read_fault(error: Exception, hidden: tuple[str, ...], *, sent: bool) -> Fault:
    """What a pyodbc error says. Its args are (SQLSTATE, text) or, for errors of its own, the other way round."""
    first, second = ([str(arg) for arg in error.args] + ["", ""])[:2]
    if re.fullmatch(r"[0-9A-Z]{5}", second) and not re.fullmatch(r"[0-9A-Z]{5}", first):
        first, second = second, first
    state = first if re.fullmatch(r"[0-9A-Z]{5}", first) else ""
    numbers = re.findall(r"\((-?\d+)\) \(SQL", second)
    number = int(numbers[0]) if numbers else 0
    told = re.sub(r"^(\[[^\]]*\]\s*)+", "", second).split(f" ({number}) (SQL")[0].split(f"({number}) (SQL")[0].strip()
    text = scrub(told, hidden) if state.startswith(_QUOTABLE) else ""
    return Fault(_kind(number, state, sent=sent), number, state, text, sent)


def _kind(number: int, state: str, *, sent: bool) -> Kind:
    if number in CONTENTION:
        return Kind.CONTENTION
    if number in THROTTLED:
        return Kind.THROTTLED
    if number in MOVED or number == OPEN_TRANSACTION:
        return Kind.MOVED
    if not sent and not number and state in _NO_DRIVER:
        return Kind.SET_UP
    if state.startswith(("08", "HYT", "IMC")) and number not in _SET_UP:
        return Kind.MOVED  # the way to the server: Microsoft's driver then gives the system's errno as the number
    if number > 0 and number < 20_000 or number > 40_000 or number in _SET_UP:
        return Kind.SET_UP  # the server spoke, and it is none of the above
    # FreeTDS numbers its own troubles from 20000; HY000 and 01000: a link cut (FreeTDS).
    return Kind.MOVED if state.startswith(("HY", "01")) or 20_000 <= number < 21_000 else Kind.SET_UP


class StopBefore(stop_base):
    """Stops when the next attempt would start later than ``budget`` seconds after the call began.

    On the lease's own clock, and in real time as well: a clock that a test has stopped must not make a call endless.
    """

    def __init__(self, clock: Clock, budget: float, began: float, unwanted: Callable[[], bool]) -> None:
        self._clock, self._budget, self._began, self._unwanted = clock, budget, began, unwanted

    def __call__(self, retry_state: RetryCallState) -> bool:
        passed = max(self._clock.now() - self._began, retry_state.seconds_since_start or 0.0)
        return passed + retry_state.upcoming_sleep > self._budget or self._unwanted()


_WAIT = wait_exponential(multiplier=0.05, max=1.0) + wait_random(0, 0.05)
_WAIT_THROTTLED = wait_fixed(10.0)


def wait(retry_state: RetryCallState) -> float:
    """50 ms, doubling to 1 s, with jitter; 10 s where the server asks for less load (Microsoft's advice for 40501)."""
    outcome = retry_state.outcome
    error = outcome.exception() if outcome is not None else None
    throttled = isinstance(error, Retry) and error.fault.kind is Kind.THROTTLED
    return (_WAIT_THROTTLED if throttled else _WAIT)(retry_state)


def retry_policy(
    clock: Clock, budget: float, began: float | None = None, unwanted: Callable[[], bool] = lambda: False
) -> dict[str, Any]:
    """Tenacity's arguments, the same for Retrying and AsyncRetrying: only listed faults are tried again, nothing else
    is caught. began: when the call began on this clock, None for now. unwanted: whether nobody wants another attempt.
    """
    return {
        "retry": retry_if_exception(lambda error: isinstance(error, Retry) and error.fault.kind is not Kind.SET_UP),
        "stop": StopBefore(clock, budget, clock.now() if began is None else began, unwanted),
        "wait": wait,
        "reraise": True,
    }
