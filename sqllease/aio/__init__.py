"""The same rooms for asyncio: connection, store, lease, hold, election. Thin twins; the rules stand above."""

from .applocks import AsyncAppLockProvider
from .election import AsyncLeaderElection
from .holding import AsyncHold
from .lease import AsyncSqlLease
from .providers import AsyncLockProvider, AsyncMemoryLockProvider, AsyncSqlLockProvider, async_locked
from .store import AsyncLeaseStore

__all__ = [
    "AsyncAppLockProvider",
    "AsyncHold",
    "AsyncLeaderElection",
    "AsyncLeaseStore",
    "AsyncLockProvider",
    "AsyncMemoryLockProvider",
    "AsyncSqlLease",
    "AsyncSqlLockProvider",
    "async_locked",
]
