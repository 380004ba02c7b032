"""The same rooms for asyncio: connection, store, lease and hold. Thin twins; every rule stands in the rooms above."""

from .applocks import AsyncAppLockProvider
from .holding import AsyncHold
from .lease import AsyncSqlLease
from .providers import AsyncLockProvider, AsyncMemoryLockProvider, AsyncSqlLockProvider, async_locked
from .store import AsyncLeaseStore

__all__ = [
    "AsyncAppLockProvider",
    "AsyncHold",
    "AsyncLeaseStore",
    "AsyncLockProvider",
    "AsyncMemoryLockProvider",
    "AsyncSqlLease",
    "AsyncSqlLockProvider",
    "async_locked",
]
