"""Whether an existing lease table will do: what the catalogue says of it, compared with what the library needs.

Knows what is needed and why. Changes nothing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from .connection import Connection
from .ddl import COMMAND_TIMEOUT_S, script
from .names import TableName
from .statements import Statement, render

SCHEMA_VERSION = 1
_BINARY_SUFFIXES = ("_BIN2", "_BIN", "_BIN2_UTF8")

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


def verify_in(connection: Connection, table: TableName) -> list[Check]:
    """``verify`` on an open connection. Raises Retry with the fault."""

    def rows(room: str, *columns: str) -> list[Sequence[Any]]:
        text = render("session", lock_timeout_ms=10_000) + script(f"verify_{room}", table)
        return connection.ask(Statement(text, columns=columns), COMMAND_TIMEOUT_S)

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
    if any(row[5] == "ExpiresAtUtc" and row[4] == 1 and not row[2] and not row[3] for row in indexes):
        return Check("index", "ok", "expired rows are found by an index")
    return Check(
        "index", "warning", "no usable index on ExpiresAtUtc: each sweep reads the whole table; see create_script()"
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
