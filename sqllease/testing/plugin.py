"""pytest fixtures for tests of code that works under a lease; there as soon as sqllease is installed.

Each is made when a test asks for it, and so is what it needs.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Protocol

import pytest

if TYPE_CHECKING:
    from . import AsyncMemoryLease, LocalSqlServer, ManualClock, MemoryLease, MemoryTable

pytest.register_assert_rewrite("sqllease.testing.contract")


class MakeMemoryLease(Protocol):
    """Makes a contender for one lease; keywords as for ``MemoryLease``."""

    def __call__(self, name: str = "lease", **keywords: Any) -> MemoryLease: ...


class MakeAsyncMemoryLease(Protocol):
    """Makes a contender for one lease; keywords as for ``AsyncMemoryLease``."""

    def __call__(self, name: str = "lease", **keywords: Any) -> AsyncMemoryLease: ...


@pytest.fixture
def sqllease_clock() -> ManualClock:
    """The clock of the test's leases and of their table: it stands still until the test calls ``advance(seconds)``."""
    from .clock import ManualClock

    return ManualClock()


@pytest.fixture
def memory_lease_table(sqllease_clock: ManualClock) -> MemoryTable:
    """The table of the test's leases in memory."""
    from .table import MemoryTable

    return MemoryTable(sqllease_clock)


@pytest.fixture
def memory_lease(memory_lease_table: MemoryTable) -> MakeMemoryLease:
    """Makes ``MemoryLease`` objects that contend with each other: ``memory_lease("job")``."""
    from .memory import MemoryLease

    return lambda name="lease", **keywords: MemoryLease(name, memory_lease_table, **keywords)


@pytest.fixture
def async_memory_lease(memory_lease_table: MemoryTable) -> MakeAsyncMemoryLease:
    """Makes ``AsyncMemoryLease`` objects that contend with each other and with those of ``memory_lease``."""
    from .memory import AsyncMemoryLease

    return lambda name="lease", **keywords: AsyncMemoryLease(name, memory_lease_table, **keywords)


@pytest.fixture
def local_sql_server() -> Iterator[LocalSqlServer]:
    """A fresh stand-in SQL Server, running. Needs ``sqllease[testing]``."""
    from . import LocalSqlServer

    with LocalSqlServer() as server:
        yield server
