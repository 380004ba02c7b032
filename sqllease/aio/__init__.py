"""The same rooms for asyncio: connection, store, lease and hold. Thin twins; every rule stands in the rooms above."""

from .holding import AsyncHold
from .lease import AsyncSqlLease
from .store import AsyncLeaseStore

__all__ = ["AsyncHold", "AsyncLeaseStore", "AsyncSqlLease"]
