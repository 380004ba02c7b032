"""The stand-in SQL Server: a TDS wire, and an engine of its own behind it."""

from .server import LocalSqlServer

__all__ = ["LocalSqlServer"]
