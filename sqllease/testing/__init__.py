"""For people's own tests: leases in memory, a clock that a test moves, and a stand-in SQL Server on loopback.

``MemoryLease`` and ``AsyncMemoryLease`` need no extra and no driver. ``sqllease.testing.contract`` has the tests that
any lease must pass, ``sqllease.testing.plugin`` the pytest fixtures.

``LocalSqlServer`` speaks the real wire protocol to real drivers and has real locks and transactions. It is **not** SQL
Server: it runs a subset of T-SQL over rows in memory, and refuses the rest by name. Needs ``sqllease[testing]``.
"""

from typing import TYPE_CHECKING, Any

from .clock import ManualClock
from .memory import AsyncMemoryLease, AsyncMemoryLeaseStore, MemoryLease, MemoryLeaseStore
from .table import MemoryTable

if TYPE_CHECKING:
    from .server import LocalSqlServer

__all__ = [
    "AsyncMemoryLease",
    "AsyncMemoryLeaseStore",
    "LocalSqlServer",
    "ManualClock",
    "MemoryLease",
    "MemoryLeaseStore",
    "MemoryTable",
]

_EXTRA = ("cryptography", "greenlet", "sortedcontainers")


def __getattr__(name: str) -> Any:
    # When it is first asked for: all else here works without the extra.
    if name != "LocalSqlServer":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from .server import LocalSqlServer
    except ImportError as error:
        if (error.name or "").split(".")[0] not in _EXTRA:
            raise
        raise ImportError(
            f"LocalSqlServer needs {error.name}: pip install 'sqllease[testing]'", name=error.name
        ) from None
    return LocalSqlServer
