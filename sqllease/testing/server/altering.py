"""ALTER TABLE: columns and constraints added or dropped, options set, triggers switched.

Every change replaces a part of the definition and records the way back (rollback) and forth (a replica).
"""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

from . import catalog, syntax
from .conversion import convert
from .definitions import alterable, make_check, make_column, ordinals_of, set_part, taken
from .errortexts import sql_error
from .expressions import bind, bind_predicate
from .scopes import Binder, Frame, Named, Scope
from .sources import table_columns
from .sqltypes import Value, unsupported
from .storage import Index, Table, Transaction

if TYPE_CHECKING:
    from .session import Session


def alter_table(node: syntax.AlterTable, session: Session, frame: Frame) -> None:
    table = alterable(session, node.name)
    tx = session.current()
    table.lock(tx, "Sch-M")
    for name, value in node.options:
        if name == "LOCK_ESCALATION":
            set_part(tx, table, "lock_escalation", value)
        elif name in ("ENABLE TRIGGER", "DISABLE TRIGGER"):
            _switch_triggers(tx, table, value, name == "ENABLE TRIGGER")
        else:
            raise unsupported(f"ALTER TABLE {name}")
    for item in node.add_columns:
        _add_column(session, tx, table, item, frame)
    for constraint in (*node.add_constraints, *(c for item in node.add_columns for c in item.constraints)):
        _add_constraint(session, tx, table, constraint, frame)
    if node.drop_constraint is not None:
        _drop_constraint(tx, table, node.drop_constraint)
    if node.drop_column is not None:
        _drop_column(tx, table, node.drop_column)


def _switch_triggers(tx: Transaction, table: Table, name: str, enabled: bool) -> None:
    changed = []
    for trigger in table.triggers:
        other = copy(trigger)
        if name.upper() == "ALL" or trigger.name.lower() == name.lower():
            other.enabled = enabled
        changed.append(other)
    if name.upper() != "ALL" and not any(t.name.lower() == name.lower() for t in table.triggers):
        raise sql_error(4902, name)
    set_part(tx, table, "triggers", changed)


def _add_column(session: Session, tx: Transaction, table: Table, item: syntax.ColumnDef, frame: Frame) -> None:
    column = make_column(session, item, table.id, table.columns)
    if column.identity is not None or column.type.name == "rowversion":
        raise unsupported(f"ALTER TABLE ADD {item.name} {item.type}")
    value: Value = None
    if item.default is not None and (item.with_values or not column.nullable):
        bound = bind(item.default, Scope(Binder(session, frame.context)))
        value = convert(bound.evaluate(frame), bound.type, column.type)
    if value is None and not column.nullable and table.row_count():
        raise sql_error(4901, item.name, table.name)
    table.alter_columns(tx, [*table.columns, column], lambda row: (*row, value))


def _add_constraint(
    session: Session, tx: Transaction, table: Table, constraint: syntax.TableConstraint, frame: Frame
) -> None:
    if constraint.kind == "check":
        check = make_check(session, table, constraint, None)
        scope = Scope(Binder(session, frame.context), None, [Named(0, table_columns(table), None)])
        passes = bind_predicate(check.expr, scope)
        for record in table.clustered.entries.values():
            frame.rows = [record.row]
            if record.row is not None and passes(frame) is False:
                raise sql_error(547, "ALTER TABLE", check.name, table.database.name, table.schema, table.name, "")
        set_part(tx, table, "checks", [*table.checks, check])
        return
    if constraint.kind == "primary key" or constraint.clustered:
        raise unsupported(f"ALTER TABLE ADD {constraint.kind.upper()}")
    name = constraint.name or f"UQ__{table.name[:9]}__{session.engine.instance.new_id():016X}"
    if catalog.object_named(table.database, table.schema, name) is not None:
        raise taken(name)
    id = max([1, *(index.id for index in table.indexes)]) + 1
    table.add_index(
        tx,
        Index(
            id, name, ordinals_of(table.columns, constraint.columns, table.name), unique=True, constraint="UNIQUE KEY"
        ),
    )


def _drop_constraint(tx: Transaction, table: Table, name: str) -> None:
    lower = name.lower()
    if any(check.name.lower() == lower for check in table.checks):
        return set_part(tx, table, "checks", [check for check in table.checks if check.name.lower() != lower])
    for index in table.indexes:
        if index.constraint and index.name.lower() == lower:
            return table.drop_index(tx, index)
    for column in table.columns:
        if column.default_name.lower() == lower:
            columns = [copy(c) for c in table.columns]
            for c in columns:
                if c.name == column.name:
                    c.default, c.default_name = None, ""
            return table.alter_columns(tx, columns, lambda row: row)
    if table.clustered.name.lower() == lower:
        raise unsupported("dropping a clustered key")
    raise sql_error(3728, name)


def _drop_column(tx: Transaction, table: Table, name: str) -> None:
    at = next((i for i, c in enumerate(table.columns) if c.name.lower() == name.lower()), None)
    if at is None:
        raise sql_error(4924, name, table.name)
    used = any(at in (*index.columns, *index.included) for index in (table.clustered, *table.indexes))
    if used or table.checks or table.columns[at].default is not None:
        raise sql_error(4922, name)
    if any(max((*index.columns, *index.included), default=0) > at for index in (table.clustered, *table.indexes)):
        raise unsupported("dropping a column before one of an index")
    columns = [c for i, c in enumerate(table.columns) if i != at]
    table.alter_columns(tx, columns, lambda row: (*row[:at], *row[at + 1 :]))
