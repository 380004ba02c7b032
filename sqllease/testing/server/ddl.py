"""CREATE, ALTER and DROP: definitions checked, made in place, and recorded so that a rollback (and a replica) follows.

A new or changed object is locked with Sch-M to the end of the transaction, its name before. Knows nothing of how rows
are read.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from . import catalog, security, syntax
from .altering import alter_table
from .changes import Trigger
from .definitions import alterable, build_table, index_taken, lock_name, make_index, set_part, taken
from .errortexts import sql_error
from .scopes import Frame, describe
from .sqltypes import unsupported
from .storage import Database, Table, Transaction

if TYPE_CHECKING:
    from .session import Session

STATEMENTS = (
    syntax.CreateTable, syntax.AlterTable, syntax.CreateIndex, syntax.CreateSchema, syntax.CreateTrigger, syntax.Drop,
    syntax.AlterDatabase, syntax.CreatePrincipal, syntax.AlterRole, syntax.Permission, syntax.Truncate,
)  # fmt: skip
_PRINCIPALS = ("role", "user", "login")


def execute(node: Any, frame: Frame) -> None:
    session = frame.session
    if session.doomed:
        raise sql_error(3930)
    temporary = isinstance(getattr(node, "name", None), syntax.ObjectName) and node.name.name.startswith("#")
    if not session.database.writable and not temporary and not isinstance(node, syntax.AlterDatabase):
        raise sql_error(3906, session.database.name)
    try:
        if isinstance(node, (syntax.CreatePrincipal, syntax.AlterRole, syntax.Permission)) or (
            isinstance(node, syntax.Drop) and node.kind in _PRINCIPALS
        ):
            security.execute(node, session)
        else:
            _DO[type(node)](node, session, frame)
    finally:
        session.defines = True
        session.engine.changed()


# --- tables ------------------------------------------------------------------------------------------


def _create_table(node: syntax.CreateTable, session: Session, frame: Frame) -> None:
    name = node.name.name
    if name.startswith("#"):
        if name.lower() in session.temporary:
            raise taken(name)
        tempdb = session.engine.instance.databases["tempdb"]
        table = build_table(session, tempdb, "dbo", name, node.columns, node.constraints, node.indexes)
        session.temporary[name.lower()] = table
        session.current().ddl(tempdb, lambda: session.temporary.pop(name.lower(), None) and None, lambda replica: None)
        return
    schema = node.name.schema or "dbo"
    security.require_database(session, "CREATE TABLE")
    security.require_schema(session, schema)
    tx = lock_name(session, schema, name)
    if catalog.object_named(session.database, schema, name) is not None:
        raise taken(name)
    table = build_table(session, session.database, schema, name, node.columns, node.constraints, node.indexes)
    for constraint in (table.clustered, *table.indexes):
        if constraint.constraint and catalog.object_named(session.database, schema, constraint.name) is not None:
            raise taken(constraint.name)
    table.lock(tx, "Sch-M")
    session.database.create_table(tx, table)


def _create_index(node: syntax.CreateIndex, session: Session, frame: Frame) -> None:
    table = alterable(session, node.table, 1088)
    tx = session.current()
    table.lock(tx, "Sch-M")
    if any(node.index.name.lower() == index.name.lower() for index in (table.clustered, *table.indexes)):
        raise index_taken(node.index.name, table)
    if node.index.clustered:
        raise unsupported("CREATE CLUSTERED INDEX on a table that exists")
    id = max([1, *(index.id for index in table.indexes)]) + 1
    table.add_index(tx, make_index(node.index, table.columns, table.name, id))


def _truncate(node: syntax.Truncate, session: Session, frame: Frame) -> None:
    table = alterable(session, node.target, 4701)
    table.truncate(session.current())


# --- schemas, triggers, databases ------------------------------------------------------------------------


def _create_schema(node: syntax.CreateSchema, session: Session, frame: Frame) -> None:
    database, key = session.database, node.name.lower()
    security.require_database(session, "CREATE SCHEMA")
    tx = lock_name(session, key, "")
    if key in database.schemas:
        raise sql_error(2714, node.name)
    owner = security.of(database).known(node.owner) if node.owner else security.user_name(session, database) or "dbo"
    entry = (node.name, session.engine.instance.new_id() % 10_000 + 5, owner)
    database.schemas[key] = entry
    tx.ddl(
        database, lambda: database.schemas.pop(key, None) and None, lambda replica: replica.schemas.update({key: entry})
    )


def _create_trigger(node: syntax.CreateTrigger, session: Session, frame: Frame) -> None:
    table = alterable(session, node.table, 8197)
    tx = lock_name(session, table.schema, node.name.name)
    table.lock(tx, "Sch-M")
    if catalog.object_named(session.database, table.schema, node.name.name) is not None:
        raise taken(node.name.name)
    if node.instead_of and any(t.instead_of and set(t.events) & set(node.events) for t in table.triggers):
        raise sql_error(2111, node.name.name, table.schema, table.name)
    trigger = Trigger(
        node.name.name, table.schema, node.instead_of, node.events, node, session.engine.instance.new_id()
    )
    set_part(tx, table, "triggers", [*table.triggers, trigger])


def _drop(node: syntax.Drop, session: Session, frame: Frame) -> None:
    tx = session.current()
    found = _DROPS[node.kind](node, session, tx)
    if not found and not node.if_exists:
        shown = f"{node.table.name}.{node.name.name}" if node.table is not None else describe(node.name)
        raise sql_error(3701, node.kind, shown)


def _mine(session: Session, table: Table | None) -> Table | None:
    """The table, if the user may change it; who may not does not find it either."""
    return table if table is not None and security.has(session, "ALTER", table) else None


def _drop_table(node: syntax.Drop, session: Session, tx: Transaction) -> bool:
    name, key = node.name, node.name.name.lower()
    if key.startswith("#"):
        if (gone := session.temporary.pop(key, None)) is None:
            return False
        tx.ddl(gone.database, lambda: session.temporary.update({key: gone}), lambda replica: None)
        return True
    table = _mine(session, session.database.table(name.schema or "dbo", name.name))
    if table is None:
        return False
    table.lock(tx, "Sch-M")
    session.database.drop_table(tx, table)
    return True


def _drop_index(node: syntax.Drop, session: Session, tx: Transaction) -> bool:
    assert node.table is not None
    table = _mine(session, session.database.table(node.table.schema or "dbo", node.table.name))
    for index in table.indexes if table is not None else ():
        if table is not None and index.name.lower() == node.name.name.lower() and not index.constraint:
            table.lock(tx, "Sch-M")
            table.drop_index(tx, index)
            return True
    return False


def _drop_trigger(node: syntax.Drop, session: Session, tx: Transaction) -> bool:
    found = catalog.object_named(session.database, node.name.schema or "dbo", node.name.name)
    table = _mine(session, found.table) if found is not None and found.kind == "TR" else None
    if table is None or found is None:
        return False
    table.lock(tx, "Sch-M")
    set_part(tx, table, "triggers", [trigger for trigger in table.triggers if trigger.id != found.id])
    return True


def _drop_schema(node: syntax.Drop, session: Session, tx: Transaction) -> bool:
    database, key = session.database, node.name.name.lower()
    entry = database.schemas.get(key)
    if entry is None and node.if_exists:
        return False
    if entry is None or not security.has(session, "CONTROL", key):
        raise security.missing("schema", node.name.name)
    inside = next((table for table in database.tables.values() if table.schema.lower() == key), None)
    if inside is not None:
        raise sql_error(3729, node.name.name, inside.name)
    _put_schema(database, key, None)
    tx.ddl(database, lambda: _put_schema(database, key, entry), lambda replica: _put_schema(replica, key, None))
    return True


def _put_schema(database: Database, key: str, entry: tuple[str, int, str] | None) -> None:
    if entry is None:
        database.schemas.pop(key, None)
    else:
        database.schemas[key] = entry


def _alter_database(node: syntax.AlterDatabase, session: Session, frame: Frame) -> None:
    attribute: str
    value: object
    if session.tx is not None:
        raise sql_error(226)
    database = session.engine.instance.databases.get((node.database or session.database.name).lower())
    if database is None or not security.has(session, "ALTER", None, database):
        raise sql_error(5011, node.database)
    if database.secondary:
        raise unsupported("ALTER DATABASE on a secondary")
    if node.option in ("READ_ONLY", "READ_WRITE"):
        attribute, value = "read_only", node.option == "READ_ONLY"
    elif node.option in _SWITCHES:
        attribute, value = _SWITCHES[node.option], node.value == "ON"
    elif node.option == "DELAYED_DURABILITY" and node.value in ("DISABLED", "ALLOWED", "FORCED"):
        attribute, value = "delayed_durability", node.value
    else:
        raise unsupported(f"ALTER DATABASE SET {node.option}")
    before = getattr(database, attribute)
    setattr(database, attribute, value)
    session.current().ddl(
        database, lambda: setattr(database, attribute, before), lambda replica: setattr(replica, attribute, value)
    )


_SWITCHES = {"READ_COMMITTED_SNAPSHOT": "rcsi", "ALLOW_SNAPSHOT_ISOLATION": "allow_snapshot"}
_DROPS: dict[str, Callable[[syntax.Drop, Any, Transaction], bool]] = {
    "table": _drop_table,
    "index": _drop_index,
    "trigger": _drop_trigger,
    "schema": _drop_schema,
}
_DO: dict[type, Callable[[Any, Any, Frame], None]] = {
    syntax.CreateTable: _create_table,
    syntax.AlterTable: alter_table,
    syntax.CreateIndex: _create_index,
    syntax.CreateSchema: _create_schema,
    syntax.CreateTrigger: _create_trigger,
    syntax.Drop: _drop,
    syntax.AlterDatabase: _alter_database,
    syntax.Truncate: _truncate,
}
