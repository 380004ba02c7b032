"""The lease table as an object of the database: its scripts, its provisioning, and whether an existing one will do.

The scripts are the very text that ``ensure_created`` runs, and the one in the top-level folder ``sql``: what a DBA
reads is what happens.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from .faults import Retry
from .names import TableName, quote_identifier, quote_literal
from .statements import Statement, render

if TYPE_CHECKING:
    from .connection import Connect, Connection

SCHEMA_VERSION = 1
_BINARY_SUFFIXES = ("_BIN2", "_BIN")
_ALREADY_THERE = frozenset({2714, 2759, 1913})
_COMMAND_TIMEOUT_S = 30

_COLUMNS = {
    "LeaseName": ("nvarchar", 400, 0, False),
    "OwnerInstanceId": ("nvarchar", 256, 0, False),
    "AcquiredAtUtc": ("datetimeoffset", 10, 7, False),
    "RenewedAtUtc": ("datetimeoffset", 10, 7, False),
    "ExpiresAtUtc": ("datetimeoffset", 10, 7, False),
    "Metadata": ("nvarchar", 2048, 0, True),
    "RowVersion": ("timestamp", 8, 0, False),
}
"""Type, bytes, scale, nullable. The catalogue calls rowversion timestamp."""


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked at. failure: leases are not safe, or do not work; warning: they are, but read the
    text.
    """

    name: str
    status: Literal["ok", "warning", "failure"]
    text: str


def create_script(schema: str = "lease", table: str = "Leases") -> str:
    """T-SQL that creates schema, table and index where they are missing. The same text that ``ensure_created`` runs.
    Safe to run again.
    """
    return _script("create", TableName(schema, table))


def grant_script(schema: str = "lease", table: str = "Leases", *, role: str = "sqllease_user") -> str:
    """T-SQL that makes a role with all the rights an application needs at run time. Safe to run again."""
    return _script("grant", TableName(schema, table), role=role)


def drop_script(schema: str = "lease", table: str = "Leases") -> str:
    """T-SQL that removes the table with every lease in it, and leaves the schema. Safe to run again."""
    return _script("drop", TableName(schema, table))


def ensure_created(connection: str | Connect, schema: str = "lease", table: str = "Leases") -> None:
    """Creates schema, table and index where they are missing; does nothing, and needs no right to, where they are
    there.

    Safe when many processes start at once. Raises LeaseConfigurationError when a right is missing, LeaseStoreError
    when the server did not answer. It never changes a table that is there, except for adding a missing expiry index:
    ``verify`` says what such a table lacks.
    """
    from .store import LeaseStore

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
    from .store import LeaseStore

    store = LeaseStore(connection, schema=schema, table=table, max_connections=1)
    try:
        return store.verify()
    finally:
        store.close()


def ensure_created_in(connection: Connection, table: TableName) -> None:
    """``ensure_created`` on an open connection. Raises Retry with the fault."""
    try:
        connection.run(_script("create", table), _COMMAND_TIMEOUT_S)
    except Retry as retry:
        # An installer without the lock (the .NET package) may have come first: then all is well, and the next look
        # says so.
        if retry.fault.number not in _ALREADY_THERE:
            raise


def verify_in(connection: Connection, table: TableName) -> list[Check]:
    """``verify`` on an open connection. Raises Retry with the fault."""

    def rows(room: str, *columns: str) -> list[Sequence[Any]]:
        return connection.ask(Statement(_script(f"verify_{room}", table), columns=columns), _COMMAND_TIMEOUT_S)

    columns = rows(
        "columns", "ObjectType", "ColumnName", "TypeName", "MaxLength", "Scale", "IsNullable", "CollationName"
    )
    if not columns:
        return [
            Check(
                "table",
                "failure",
                f"{table} is missing, or the login has no right on it: run create_script() or grant_script()",
            )
        ]
    indexes = rows("indexes", "IndexName", "IsUnique", "IsDisabled", "HasFilter", "KeyOrdinal", "ColumnName")
    triggers = rows("triggers", "TriggerName", "IsInsteadOf")
    (database,) = rows(
        "database",
        *("Updateability", "DelayedDurability", "RowVersioning", "MaySelect", "MayInsert", "MayUpdate", "MayDelete"),
        *("LockEscalation", "SchemaVersion"),
    )
    return [
        _check_table(columns),
        *_check_columns(columns),
        _check_collation(columns),
        _check_key(indexes),
        _check_index(indexes),
        _check_triggers(triggers),
        *_check_database(database),
    ]


def _script(room: str, table: TableName, role: str = "sqllease_user") -> str:
    schema, role_name = quote_identifier(table.schema), quote_identifier(role)
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


def _check_table(columns: list[Sequence[Any]]) -> Check:
    kind = str(columns[0][0]).strip()
    if kind == "U":
        return Check("table", "ok", "it is a table")
    return Check("table", "failure", f"it is no table (sys.objects.type is {kind}): leases need a table of their own")


def _check_columns(columns: list[Sequence[Any]]) -> list[Check]:
    found = {row[1]: (row[2], row[3], row[4], bool(row[5])) for row in columns}
    checks = []
    for name, wanted in _COLUMNS.items():
        if name not in found:
            checks.append(Check("columns", "failure", f"column {name} is missing: see create_script()"))
        elif found[name] != wanted:
            checks.append(
                Check("columns", "failure", f"column {name} is {_shape(*found[name])}, it should be {_shape(*wanted)}")
            )
    checks += [
        Check("columns", "warning", f"column {name} is unknown and not nullable: inserts fail unless it has a default")
        for name in found.keys() - _COLUMNS.keys()
        if not found[name][3]
    ]
    return checks or [Check("columns", "ok", "all columns and types are as they should be")]


def _shape(kind: str, size: int, scale: int, nullable: bool) -> str:
    name = {
        "nvarchar": f"nvarchar({size // 2 if size >= 0 else 'max'})",
        "datetimeoffset": f"datetimeoffset({scale})",
        "timestamp": "rowversion",
    }
    return f"{name.get(kind, kind)} {'NULL' if nullable else 'NOT NULL'}"


def _check_collation(columns: list[Sequence[Any]]) -> Check:
    other = [
        f"{row[1]} {row[6]}"
        for row in columns
        if row[1] in ("LeaseName", "OwnerInstanceId") and not str(row[6]).endswith(_BINARY_SUFFIXES)
    ]
    if not other:
        return Check("collation", "ok", "names compare byte for byte")
    return Check(
        "collation",
        "warning",
        f"{', '.join(other)}: not binary, so names that differ only in case, width or accents share one row. "
        "A lease whose name meets another one's row raises LeaseConfigurationError. "
        "create_script() shows the columns with Latin1_General_100_BIN2",
    )


def _check_key(indexes: list[Sequence[Any]]) -> Check:
    for name in {row[0] for row in indexes if row[1] and not row[2] and not row[3]}:
        if [row[5] for row in indexes if row[0] == name] == ["LeaseName"]:
            return Check("key", "ok", f"{name} makes LeaseName unique")
    return Check(
        "key",
        "failure",
        "nothing makes LeaseName unique, so two owners could hold one lease: add PRIMARY KEY CLUSTERED (LeaseName)",
    )


def _check_index(indexes: list[Sequence[Any]]) -> Check:
    if any(row[5] == "ExpiresAtUtc" and row[4] == 1 and not row[2] for row in indexes):
        return Check("index", "ok", "expired rows are found by an index")
    return Check(
        "index", "warning", "no index on ExpiresAtUtc: each sweep reads the whole table; ensure_created() adds it"
    )


def _check_triggers(triggers: list[Sequence[Any]]) -> Check:
    instead = [row[0] for row in triggers if row[1]]
    if instead:
        return Check(
            "triggers",
            "failure",
            f"INSTEAD OF trigger {', '.join(instead)}: a statement may seem to succeed and change nothing; drop it",
        )
    if triggers:
        return Check(
            "triggers",
            "warning",
            f"trigger {', '.join(row[0] for row in triggers)}: it runs within each lease call, keep it short",
        )
    return Check("triggers", "ok", "no triggers")


def _check_database(row: Sequence[Any]) -> list[Check]:
    updateability, durability, versioning, *rights, escalation, version = row
    missing = [
        right for right, given in zip(("SELECT", "INSERT", "UPDATE", "DELETE"), rights, strict=True) if given != 1
    ]
    known = version is None or str(version) == str(SCHEMA_VERSION)
    return [
        Check("read-only", "ok", "the database takes writes")
        if updateability == "READ_WRITE"
        else Check("read-only", "failure", f"the database is {updateability}: connect to the primary"),
        Check(
            "durability",
            "failure",
            "DELAYED_DURABILITY is FORCED: a crash undoes leases that were granted; set it to ALLOWED or DISABLED",
        )
        if durability == 2
        else Check("durability", "ok", "commits are durable"),
        Check("row versioning", "ok", f"READ_COMMITTED_SNAPSHOT is {'on' if versioning else 'off'}: both work"),
        Check("rights", "failure", f"the login lacks {', '.join(missing)} on the table: give a DBA grant_script()")
        if missing
        else Check("rights", "ok", "SELECT, INSERT, UPDATE, DELETE"),
        Check("lock escalation", "ok", "disabled")
        if escalation == "DISABLE"
        else Check(
            "lock escalation",
            "warning",
            "not disabled: ALTER TABLE ... SET (LOCK_ESCALATION = DISABLE) is cheap insurance",
        ),
        Check(
            "version",
            "ok",
            f"version {version}" if version is not None else "no version property: made by the .NET package or by hand",
        )
        if known
        else Check(
            "version",
            "warning",
            f"version {version} of the table is newer than this library's {SCHEMA_VERSION}: upgrade sqllease",
        ),
    ]
