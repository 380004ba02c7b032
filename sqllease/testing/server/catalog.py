"""What there is in a database: tables, constraints and triggers as objects with numbers, and facts about types.

Knows definitions; knows nothing of who may see them.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from .sqltypes import MAX, SqlType
from .storage import Database, Table

SYSTEM_TYPES = {  # name: system_type_id, max_length
    "tinyint": (48, 1), "smallint": (52, 2), "int": (56, 4), "bigint": (127, 8), "bit": (104, 1), "decimal": (106, 17),
    "float": (62, 8), "real": (59, 4), "date": (40, 3), "time": (41, 5), "datetime2": (42, 8),
    "datetimeoffset": (43, 10), "datetime": (61, 8), "smalldatetime": (58, 4), "uniqueidentifier": (36, 16),
    "varbinary": (165, 8000), "binary": (173, 8000), "varchar": (167, 8000), "char": (175, 8000),
    "nvarchar": (231, 8000), "nchar": (239, 8000), "rowversion": (189, 8), "sql_variant": (98, 8016),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Object:
    """A row of sys.objects: a table, a constraint or a trigger."""

    id: int
    name: str
    schema: str
    kind: str
    table: Table
    parent: int = 0
    thing: Any = None


def objects(database: Database) -> Iterator[Object]:
    for table in list(database.tables.values()):
        yield Object(table.id, table.name, table.schema, "U", table)
        for index in (table.clustered, *table.indexes):
            if index.constraint:
                kind = "PK" if index.constraint == "PRIMARY KEY" else "UQ"
                yield Object(table.id * 1000 + index.id, index.name, table.schema, kind, table, table.id, index)
        for at, column in enumerate(table.columns):
            if column.default is not None:
                yield Object(
                    table.id * 1000 + 500 + at, column.default_name, table.schema, "D", table, table.id, column
                )
        for check in table.checks:
            yield Object(check.id, check.name, table.schema, "C", table, table.id, check)
        for trigger in table.triggers:
            yield Object(trigger.id, trigger.name, table.schema, "TR", table, table.id, trigger)


def object_named(database: Database, schema: str, name: str) -> Object | None:
    place = schema.lower(), name.lower()
    return next((o for o in objects(database) if (o.schema.lower(), o.name.lower()) == place), None)


def storage_length(type: SqlType) -> int:
    """Bytes, as COL_LENGTH and max_length tell them; -1 for (max)."""
    if type.length == MAX:
        return -1
    if type.name in ("nvarchar", "nchar"):
        return type.length * 2
    if type.name in ("varchar", "char", "varbinary", "binary"):
        return type.length
    if type.name == "decimal":
        return 5 if type.precision <= 9 else 9 if type.precision <= 19 else 13 if type.precision <= 28 else 17
    if type.name in ("time", "datetime2", "datetimeoffset"):
        return SYSTEM_TYPES[type.name][1] - (2 if type.scale <= 2 else 1 if type.scale <= 4 else 0)
    return SYSTEM_TYPES[type.name][1]


NUMBER_PRECISIONS = {
    "bit": 1,
    "tinyint": 3,
    "smallint": 5,
    "int": 10,
    "bigint": 19,
    "float": 53,
    "real": 24,
    "date": 10,
    "datetime": 23,
    "smalldatetime": 16,
}
DATE_WIDTHS = {"time": 8, "datetime2": 19, "datetimeoffset": 26}


def precision_and_scale(type: SqlType) -> tuple[int, int]:
    if type.name in DATE_WIDTHS:
        return DATE_WIDTHS[type.name] + (type.scale + 1 if type.scale else 0), type.scale
    return type.precision or NUMBER_PRECISIONS.get(type.name, 0), 3 if type.name == "datetime" else type.scale


def database_id(database: Database) -> int:
    """Databases are numbered from 1, master first."""
    return list(database.instance.databases.values()).index(database) + 1
