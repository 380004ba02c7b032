"""The same rooms for asyncio: connection, store and lease. Thin twins; every rule stands in the rooms above."""

from .lease import AsyncSqlLease
from .store import AsyncLeaseStore

__all__ = ["AsyncLeaseStore", "AsyncSqlLease"]
