"""The same rooms for asyncio: connection, store, lease, hold, election. Thin twins; the rules stand above."""

from .election import AsyncLeaderElection
from .holding import AsyncHold
from .lease import AsyncSqlLease
from .store import AsyncLeaseStore

__all__ = ["AsyncHold", "AsyncLeaderElection", "AsyncLeaseStore", "AsyncSqlLease"]
