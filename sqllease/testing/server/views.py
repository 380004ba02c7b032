"""The system views: sys.* and INFORMATION_SCHEMA, made of what is there at the moment of reading.

A user without any right on an object does not see it. Knows definitions; knows nothing of queries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from . import security, syntax
from .catalog import (
    DATE_WIDTHS,
    NUMBER_PRECISIONS,
    SYSTEM_TYPES,
    Object,
    database_id,
    objects,
    precision_and_scale,
    storage_length,
)
from .errortexts import sql_error
from .scopes import OutColumn, Row
from .sqltypes import BIT, INT, SMALLINT, TINYINT, SqlType, nvarchar, unsupported

if TYPE_CHECKING:
    from .session import Session

NAME = nvarchar(128)
_TEXT = "SQL_Latin1_General_CP1_CI_AS"
_KINDS = {
    "U": "USER_TABLE", "PK": "PRIMARY_KEY_CONSTRAINT", "UQ": "UNIQUE_CONSTRAINT", "C": "CHECK_CONSTRAINT",
    "D": "DEFAULT_CONSTRAINT", "TR": "SQL_TRIGGER",
}  # fmt: skip
_LEVELS = ("", "READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE", "SNAPSHOT")


def _seen(session: Session) -> Iterator[Object]:
    """The objects that the user may know of."""
    known: dict[int, bool] = {}
    for item in objects(session.database):
        if item.table.id not in known:
            known[item.table.id] = security.visible(session, item.table)
        if known[item.table.id]:
            yield item


def _schema_id(session: Session, name: str) -> int:
    return int(session.database.schemas.get(name.lower(), ("", 0, ""))[1])


def _schemas(session: Session) -> Iterator[Row]:
    for name, id, _ in session.database.schemas.values():
        yield name, id, 1


def _object(session: Session, o: Object) -> Row:
    return o.name, o.id, None, _schema_id(session, o.schema), o.parent, o.kind.ljust(2), _KINDS[o.kind], 0


def _objects(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        yield _object(session, o)


def _tables(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            escalation = ("TABLE", "DISABLE", "AUTO").index(o.table.lock_escalation)
            yield *_object(session, o), escalation, o.table.lock_escalation, 0, 0, "NON_TEMPORAL_TABLE", 0


def _columns(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            for at, c in enumerate(o.table.columns):
                id, _ = SYSTEM_TYPES[c.type.name]
                default = o.id * 1000 + 500 + at if c.default is not None else 0
                precision, scale = precision_and_scale(c.type)
                identity = int(c.identity is not None)
                yield (
                    o.id,
                    c.name,
                    at + 1,
                    id,
                    id,
                    storage_length(c.type),
                    precision,
                    scale,
                    c.collation,
                    int(c.nullable),
                    identity,
                    0,
                    default,
                )


def types(session: Session) -> Iterator[Row]:
    for name, (id, length) in SYSTEM_TYPES.items():
        shown = "timestamp" if name == "rowversion" else name
        yield (
            shown,
            id,
            id,
            4,
            length,
            *precision_and_scale(SqlType(name)),
            _TEXT if "char" in name else None,
            int(name != "rowversion"),
            0,
        )
    yield "sysname", 231, 256, 4, 256, 0, 0, _TEXT, 0, 0


def _indexes(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            for index in (o.table.clustered, *o.table.indexes):
                heap = not index.columns
                kind = 0 if heap else 1 if index.clustered else 2
                text = ("HEAP", "CLUSTERED", "NONCLUSTERED")[kind]
                primary, constraint = index.constraint == "PRIMARY KEY", index.constraint == "UNIQUE KEY"
                yield (
                    o.id, index.name or None, 0 if heap else index.id, kind, text, int(index.unique), int(primary),
                    int(constraint), 0, 0, None, 0, 1, 1,
                )  # fmt: skip


def _index_columns(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            for index in (o.table.clustered, *o.table.indexes):
                for at, ordinal in enumerate((*index.columns, *index.included)):
                    key = at < len(index.columns)
                    yield o.id, index.id, at + 1, ordinal + 1, at + 1 if key else 0, 0, int(not key)


def _key_constraints(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind in ("PK", "UQ"):
            yield *_object(session, o), o.thing.id, 0


def _check_constraints(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "C":
            columns = [c.name.lower() for c in o.table.columns]
            at = columns.index(o.thing.column.lower()) + 1 if o.thing.column else 0
            yield *_object(session, o), 0, 0, at


def _triggers(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "TR":
            yield (
                o.name,
                o.id,
                1,
                "OBJECT_OR_COLUMN",
                o.parent,
                "TR",
                "SQL_TRIGGER",
                0,
                int(not o.thing.enabled),
                int(o.thing.instead_of),
            )


def _trigger_events(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "TR":
            for event in o.thing.events:
                yield o.id, ("insert", "update", "delete").index(event) + 1, event.upper()


def _properties(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            for name, value in o.table.properties.items():
                yield 1, "OBJECT_OR_COLUMN", o.id, 0, name, value


def _databases(session: Session) -> Iterator[Row]:
    for number, d in enumerate(session.engine.instance.databases.values(), 1):
        durability = ("DISABLED", "ALLOWED", "FORCED").index(d.delayed_durability)
        snapshot = int(d.allow_snapshot)
        yield (
            d.name, number, d.collation, int(d.read_only), 0, "ONLINE", snapshot, "ON" if snapshot else "OFF",
            int(d.rcsi), durability, d.delayed_durability, 160, 1, "FULL", 0,
        )  # fmt: skip


def principals(session: Session) -> Iterator[Row]:
    state = security.of(session.database)
    for number, (name, _) in enumerate(state.roles.values()):
        yield name, 16384 + number if name != "public" else 0, "R", "DATABASE_ROLE", None, int(name.startswith("db_"))
    for number, (name, login) in enumerate(state.users.values(), 1):
        yield name, number, "S", "SQL_USER", "dbo" if login is None else None, 0


def _sessions(session: Session) -> Iterator[Row]:
    everybody = security.has(session, "VIEW DATABASE STATE", None)
    for other in list(session.engine.sessions.values()):
        if everybody or other is session:
            level = _LEVELS.index(other.options.isolation)
            database = database_id(other.database)
            yield (
                other.id,
                other.login,
                other.requested.host,
                other.requested.application,
                database,
                level,
                other.options.lock_timeout,
                other.trancount,
                1,
                "running",
            )


def _locks(session: Session) -> Iterator[Row]:
    if not security.has(session, "VIEW DATABASE STATE", None):
        raise sql_error(300)
    manager = session.engine.instance.locks
    for other in list(session.engine.sessions.values()):
        found: dict[Any, str] = {}
        for owner in (other.owner, other.tx, other.running):
            found.update(owner.held if owner is not None else {})
        listed = [(place, mode, "GRANT") for place, mode in found.items()]
        if (wait := manager.waiting(other)) is not None:
            listed.append((*wait, "WAIT"))
        for place, mode, status in listed:
            yield _lock(session, other.id, place, mode, status)


def _lock(session: Session, id: int, place: Any, mode: str, status: str) -> Row:
    head = place[0] if isinstance(place[0], tuple) else place
    kind = {"KEY": "KEY", "OBJECT": "OBJECT", "APP": "APPLICATION"}.get(head[0], "METADATA")
    databases = list(session.engine.instance.databases.values())
    number = next((n for n, d in enumerate(databases, 1) if d.id == head[1]), 0)
    entity = head[2] if kind in ("KEY", "OBJECT") else 0
    text = str(place[-1]) if kind != "OBJECT" else ""
    return kind, number, text, entity, mode, "LOCK", status, id


def _information_tables(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            yield session.database.name, o.schema, o.name, "BASE TABLE"


def _information_columns(session: Session) -> Iterator[Row]:
    for o in _seen(session):
        if o.kind == "U":
            for at, c in enumerate(o.table.columns, 1):
                text = c.type.length if c.type.length and c.type.name != "rowversion" else None
                number = (
                    precision_and_scale(c.type)
                    if c.type.name in NUMBER_PRECISIONS or c.type.name == "decimal"
                    else (None, None)
                )
                date = c.type.scale if c.type.name in DATE_WIDTHS else None
                name = "timestamp" if c.type.name == "rowversion" else c.type.name
                yield (
                    session.database.name,
                    o.schema,
                    o.name,
                    c.name,
                    at,
                    "YES" if c.nullable else "NO",
                    name,
                    text,
                    *number,
                    date,
                    c.collation,
                )


_COLUMNS = """
sys.schemas: name n, schema_id i, principal_id i
sys.objects: name n, object_id i, principal_id i, schema_id i, parent_object_id i, type c2, type_desc n, is_ms_shipped b
sys.tables: OBJECT, lock_escalation t, lock_escalation_desc n, temporal_type t, is_memory_optimized b,
  temporal_type_desc n, is_replicated b
sys.columns: object_id i, name n, column_id i, system_type_id t, user_type_id i, max_length s, precision t, scale t,
  collation_name n, is_nullable b, is_identity b, is_computed b, default_object_id i
sys.types: name n, system_type_id t, user_type_id i, schema_id i, max_length s, precision t, scale t,
  collation_name n, is_nullable b, is_user_defined b
sys.indexes: object_id i, name n, index_id i, type t, type_desc n, is_unique b, is_primary_key b,
  is_unique_constraint b, is_disabled b, has_filter b, filter_definition n, ignore_dup_key b, allow_row_locks b,
  allow_page_locks b
sys.index_columns: object_id i, index_id i, index_column_id i, column_id i, key_ordinal t, is_descending_key b,
  is_included_column b
sys.key_constraints: OBJECT, unique_index_id i, is_system_named b
sys.check_constraints: OBJECT, is_disabled b, is_not_trusted b, parent_column_id i
sys.triggers: name n, object_id i, parent_class t, parent_class_desc n, parent_id i, type c2, type_desc n,
  is_ms_shipped b, is_disabled b, is_instead_of_trigger b
sys.trigger_events: object_id i, type i, type_desc n
sys.extended_properties: class t, class_desc n, major_id i, minor_id i, name n, value v
sys.databases: name n, database_id i, collation_name n, is_read_only b, state t, state_desc n,
  snapshot_isolation_state t, snapshot_isolation_state_desc n, is_read_committed_snapshot_on b, delayed_durability i,
  delayed_durability_desc n, compatibility_level t, recovery_model t, recovery_model_desc n, is_auto_close_on b
sys.database_principals: name n, principal_id i, type c1, type_desc n, default_schema_name n, is_fixed_role b
sys.dm_exec_sessions: session_id s, login_name n, host_name n, program_name n, database_id s,
  transaction_isolation_level s, lock_timeout i, open_transaction_count i, is_user_process b, status n
sys.dm_tran_locks: resource_type n, resource_database_id i, resource_description n,
  resource_associated_entity_id i, request_mode n, request_type n, request_status n, request_session_id i
information_schema.tables: TABLE_CATALOG n, TABLE_SCHEMA n, TABLE_NAME n, TABLE_TYPE n
information_schema.columns: TABLE_CATALOG n, TABLE_SCHEMA n, TABLE_NAME n, COLUMN_NAME n, ORDINAL_POSITION i,
  IS_NULLABLE n, DATA_TYPE n, CHARACTER_MAXIMUM_LENGTH i, NUMERIC_PRECISION t, NUMERIC_SCALE i, DATETIME_PRECISION s,
  COLLATION_NAME n
"""  # n sysname, i int, s smallint, t tinyint, b bit, cN char(N), v sql_variant; OBJECT: the columns of sys.objects
_ROWS: dict[str, Callable[[Session], Iterator[Row]]] = {
    "sys.schemas": _schemas,
    "sys.objects": _objects,
    "sys.tables": _tables,
    "sys.columns": _columns,
    "sys.types": types,
    "sys.indexes": _indexes,
    "sys.index_columns": _index_columns,
    "sys.key_constraints": _key_constraints,
    "sys.check_constraints": _check_constraints,
    "sys.triggers": _triggers,
    "sys.trigger_events": _trigger_events,
    "sys.extended_properties": _properties,
    "sys.databases": _databases,
    "sys.database_principals": principals,
    "sys.dm_exec_sessions": _sessions,
    "sys.dm_tran_locks": _locks,
    "information_schema.tables": _information_tables,
    "information_schema.columns": _information_columns,
}
_LETTERS = {"n": NAME, "i": INT, "s": SMALLINT, "t": TINYINT, "b": BIT, "v": SqlType("sql_variant")}


def _parsed() -> dict[str, list[OutColumn]]:
    found: dict[str, list[OutColumn]] = {}
    for line in _COLUMNS.replace("\n  ", " ").strip().splitlines():
        name, _, text = line.partition(": ")
        columns = found[name] = []
        for part in text.split(", "):
            if part == "OBJECT":
                columns.extend(found["sys.objects"])
                continue
            label, letter = part.split()
            type = SqlType("char", int(letter[1:])) if letter[0] == "c" else _LETTERS[letter]
            columns.append(OutColumn(label, type, _TEXT if letter[0] in "nc" else None))
    return found


_VIEWS = _parsed()


def view(name: syntax.ObjectName) -> tuple[list[OutColumn], Callable[[Session], Iterator[Row]]] | None:
    """Columns and rows of a system view; None when the name is in neither of their schemas."""
    schema = (name.schema or "").lower()
    if schema not in ("sys", "information_schema"):
        return None
    key = f"{schema}.{name.name.lower()}"
    if key not in _VIEWS or name.database is not None:
        raise unsupported(f"{name.schema}.{name.name}")
    return _VIEWS[key], _ROWS[key]
