"""sqllease: leases in your own SQL Server, for work that exactly one instance must do.

>>> lease = SqlLease("nightly-invoices", connection_string)
>>> if lease.try_acquire():
...     try:
...         for invoice in due():
...             lease.check()
...             send(invoice)
...             lease.try_renew()
...     finally:
...         lease.try_release()

Not guaranteed: fairness (there is no queue), and that a paused process notices the end of its lease before it goes on.
"""

from . import schema
from .aio import (
    AsyncAppLockProvider,
    AsyncHold,
    AsyncLeaderElection,
    AsyncLeaseStore,
    AsyncLockProvider,
    AsyncMemoryLockProvider,
    AsyncSqlLease,
    AsyncSqlLockProvider,
    async_locked,
)
from .answers import LeaseInfo
from .applocks import AppLockProvider
from .candidacy import ElectionState
from .clock import SYSTEM_CLOCK, Clock
from .election import LeaderElection, Leading
from .errors import (
    LeaseConfigurationError,
    LeaseError,
    LeaseInUse,
    LeaseLost,
    LeaseNotAcquired,
    LeaseStoreError,
    LeaseValueError,
)
from .guarding import guarded
from .hold import Outcome, assert_held
from .holding import Hold
from .lease import SqlLease
from .options import LeaseOptions, ReplicaOptions
from .protocols import AsyncLease, Lease
from .providers import LockProvider, MemoryLockProvider, SqlLockProvider, locked
from .store import LeaseStore

__version__ = "0.1.0"

__all__ = [
    "SYSTEM_CLOCK",
    "AppLockProvider",
    "AsyncAppLockProvider",
    "AsyncHold",
    "AsyncLeaderElection",
    "AsyncLease",
    "AsyncLeaseStore",
    "AsyncLockProvider",
    "AsyncMemoryLockProvider",
    "AsyncSqlLease",
    "AsyncSqlLockProvider",
    "Clock",
    "ElectionState",
    "Hold",
    "LeaderElection",
    "Leading",
    "Lease",
    "LeaseConfigurationError",
    "LeaseError",
    "LeaseInUse",
    "LeaseInfo",
    "LeaseLost",
    "LeaseNotAcquired",
    "LeaseOptions",
    "LeaseStore",
    "LeaseStoreError",
    "LeaseValueError",
    "LockProvider",
    "MemoryLockProvider",
    "Outcome",
    "ReplicaOptions",
    "SqlLease",
    "SqlLockProvider",
    "assert_held",
    "async_locked",
    "guarded",
    "locked",
    "schema",
]
