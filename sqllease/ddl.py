"""The scripts of the lease table: rendered from ``sql/*.sql``, printed for a DBA or run as they are.

What a DBA reads is what happens: ``ensure_created`` runs the very text of ``create_script``.
"""

from __future__ import annotations

from dataclasses import replace

from .connection import Connection
from .faults import Retry
from .names import TableName, check_identifier, quote_identifier, quote_literal
from .statements import render

COMMAND_TIMEOUT_S = 30
"""DDL may have to wait for others: the applock alone for 15 seconds."""
_ALREADY_THERE = frozenset({1750, 1913, 2714, 2759})


def create_script(schema: str = "lease", table: str = "Leases") -> str:
    """T-SQL that creates schema, table and index where they are missing. The same text that ``ensure_created`` runs.
    Safe to run again.
    """
    return script("create", TableName(schema, table))


def grant_script(schema: str = "lease", table: str = "Leases", *, role: str = "sqllease_user") -> str:
    """T-SQL that makes a role with all the rights an application needs at run time. Safe to run again."""
    return script("grant", TableName(schema, table), role=role)


def fence_script(schema: str = "lease", table: str = "Leases") -> str:
    """T-SQL for a transaction of your own: throws when the tenure is over, else keeps it from being taken over."""
    return script("fence_script", TableName(schema, table))


def drop_script(schema: str = "lease", table: str = "Leases") -> str:
    """T-SQL that removes the table with every lease in it, and leaves the schema. Safe to run again."""
    return script("drop", TableName(schema, table))


def ensure_created_in(connection: Connection, table: TableName) -> None:
    """``ensure_created`` on an open connection. Raises Retry with the fault."""
    try:
        _create(connection, table)
    except Retry as retry:
        # An installer without the lock (the .NET package) may have come first: then the next look finds all in place.
        # A fault that comes again is one: something else has the name.
        if retry.fault.number not in _ALREADY_THERE:
            raise
    else:
        return
    _create(connection, table)


def _create(connection: Connection, table: TableName) -> None:
    fault = None
    try:
        connection.run(script("create", table), COMMAND_TIMEOUT_S)
    except Retry as retry:
        fault = retry.fault
    if fault is not None:
        raise Retry(replace(fault, text=f"{table}: {fault.text}"))


def script(room: str, table: TableName, role: str = "sqllease_user") -> str:
    """The script of ``sql/room.sql`` for this table. Raises LeaseValueError for a role that can be no name."""
    schema, role_name = quote_identifier(table.schema), quote_identifier(check_identifier("a role name", role))
    return render(
        room,
        table=table,
        table_literal=quote_literal(str(table)),
        schema_literal=quote_literal(table.schema),
        table_name_literal=quote_literal(table.table),
        create_schema_literal=quote_literal(f"CREATE SCHEMA {schema}"),
        primary_key=quote_identifier(table.part("PK")),
        check=quote_identifier(table.part("CK", "_Names")),
        index=quote_identifier(table.part("IX", "_ExpiresAtUtc")),
        role=role_name,
        role_literal=quote_literal(role),
        create_role_literal=quote_literal(f"CREATE ROLE {role_name}"),
    )
