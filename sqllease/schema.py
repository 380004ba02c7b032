"""The lease table as an object of the database: its scripts, its provisioning, and whether an existing one will do.

Functions for those who have no ``LeaseStore`` at hand; a store has the same as methods.
"""

from __future__ import annotations

from .connection import Connect
from .ddl import create_script, drop_script, fence_script, grant_script
from .store import LeaseStore
from .verification import Check

__all__ = ["Check", "create_script", "drop_script", "ensure_created", "fence_script", "grant_script", "verify"]


def ensure_created(connection: str | Connect, schema: str = "lease", table: str = "Leases") -> None:
    """Creates schema, table and index where they are missing; does nothing, and needs no right to, where they are
    there.

    Safe when many processes start at once. Raises LeaseConfigurationError when a right is missing, LeaseStoreError
    when the server did not answer. It never changes a table that is there, except for adding a missing expiry index:
    ``verify`` says what such a table lacks.
    """
    store = LeaseStore(connection, schema=schema, table=table, max_connections=1)
    try:
        store.ensure_created()
    finally:
        store.close()


def verify(connection: str | Connect, schema: str = "lease", table: str = "Leases") -> list[Check]:
    """Compares columns, types, collation, key, index, triggers, rights and settings with what the library needs.

    Returns every check, also those that are well. Raises LeaseStoreError when the server did not answer,
    LeaseConfigurationError when the database cannot be opened.
    """
    store = LeaseStore(connection, schema=schema, table=table, max_connections=1)
    try:
        return store.verify()
    finally:
        store.close()
