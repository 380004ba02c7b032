"""For people's own tests: a stand-in SQL Server on loopback, and a clock that a test moves.

``LocalSqlServer`` speaks the real wire protocol to real drivers and has real locks and transactions. It is **not** SQL
Server: it runs a subset of T-SQL over rows in memory, and refuses the rest by name. Needs ``sqllease[testing]``.
"""

from .clock import ManualClock
from .server import LocalSqlServer

__all__ = ["LocalSqlServer", "ManualClock"]
