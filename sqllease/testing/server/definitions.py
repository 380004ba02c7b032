"""Definitions made of what CREATE and ALTER say, and what every change of one has to ask first.

Knows which definitions are possible (2705, 8110, 1911 ...). When they are made and undone is the business of ddl.py and
altering.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from . import security, syntax
from .changes import Check
from .collation import known
from .contexts import Context
from .errortexts import sql_error
from .expressions import bind, bind_predicate
from .query import has_aggregate
from .scopes import Binder, Named, Scope, describe
from .sources import table_columns
from .sqltypes import SqlError, unsupported
from .storage import Column, Database, Index, Table, Transaction

if TYPE_CHECKING:
    from .session import Session


def lock_name(session: Session, schema: str, name: str) -> Transaction:
    tx = session.current()
    tx.lock(("NAME", session.database.id, schema.lower(), name.lower()), "X", keep=True)
    return tx


def taken(name: str) -> SqlError:
    return sql_error(2714, name)


def alterable(session: Session, name: syntax.ObjectName, number: int = 4902) -> Table:
    """A table whose definition the user may change; one error for missing and forbidden."""
    if name.name.startswith("#"):
        return session.find_table(name)
    table = session.database_named(name.database).table(name.schema or "dbo", name.name)
    if table is None or not security.has(session, "ALTER", table):
        raise sql_error(number, describe(name))
    return table


def set_part(tx: Transaction, table: Table, attribute: str, value: Any) -> None:
    """Replaces an attribute of a table's definition, with its way back and forward."""
    before = getattr(table, attribute)
    setattr(table, attribute, value)

    def redo(replica: Database) -> None:
        setattr(replica.by_id(table.id), attribute, value)

    tx.ddl(table.database, lambda: setattr(table, attribute, before), redo)


# --- tables ---


def table_variable(session: Session, node: syntax.DeclareTable) -> Table:
    return build_table(session, session.engine.private, "", node.name, node.columns, node.constraints, ())


def build_table(
    session: Session,
    database: Database,
    schema: str,
    name: str,
    definitions: Sequence[syntax.ColumnDef],
    constraints: Sequence[syntax.TableConstraint],
    indexes: Sequence[syntax.IndexDef],
) -> Table:
    id = session.engine.instance.new_id()
    columns: list[Column] = []
    every: list[tuple[syntax.TableConstraint, str | None]] = [(c, None) for c in constraints]
    for item in definitions:
        columns.append(make_column(session, item, id, columns))
        every.extend((c, item.name) for c in item.constraints)
    if sum(c.type.name == "rowversion" for c in columns) > 1:
        raise sql_error(2738, name)
    keys = [(c, at) for c, at in every if c.kind != "check"]
    if sum(c.kind == "primary key" for c, _ in keys) > 1:
        raise sql_error(8110, name)
    clustered_taken = any(c.clustered for c, _ in keys) or any(i.clustered for i in indexes)
    clustered: Index | None = None
    others: list[Index] = []
    for constraint, _ in keys:
        ordinals = ordinals_of(columns, constraint.columns, name)
        primary = constraint.kind == "primary key"
        if primary:
            for at in ordinals:
                item = definitions[at]
                if item.nullable:
                    raise sql_error(8111, name)
                columns[at].nullable = False
        leads = bool(constraint.clustered or (primary and constraint.clustered is None and not clustered_taken))
        if leads and clustered is not None:
            raise sql_error(8112, name)
        label = constraint.name or f"{'PK' if primary else 'UQ'}__{name[:9]}__{id * 1000 + len(others):016X}"
        index = Index(
            1 if leads else len(others) + 2, label, ordinals, unique=True, clustered=leads,
            constraint="PRIMARY KEY" if primary else "UNIQUE KEY",
        )  # fmt: skip
        clustered = index if leads else clustered
        others += [] if leads else [index]
    for wanted in indexes:
        if wanted.clustered:
            if clustered is not None:
                raise sql_error(1902, name, clustered.name)
            clustered = Index(
                1, wanted.name, ordinals_of(columns, wanted.columns, name), unique=wanted.unique, clustered=True
            )
        else:
            others.append(make_index(wanted, columns, name, len(others) + 2))
    table = Table(database, id, schema, name, columns, clustered)
    for index in others:
        if any(index.name.lower() == other.name.lower() for other in (table.clustered, *table.indexes)):
            raise index_taken(index.name, table)
        table.attach(index)
    for constraint, column in every:
        if constraint.kind == "check":
            table.checks.append(make_check(session, table, constraint, column))
    return table


def make_column(session: Session, item: syntax.ColumnDef, table_id: int, before: Sequence[Column]) -> Column:
    if any(c.name.lower() == item.name.lower() for c in before):
        raise sql_error(2705, item.name)
    text = item.type.name in ("char", "varchar", "nchar", "nvarchar")
    collation = (known(item.collation).name if item.collation else session.database.collation) if text else None
    nullable = item.nullable if item.nullable is not None else item.type.name != "rowversion" and item.identity is None
    default_name = item.default_name or (f"DF__{table_id}__{item.name[:9]}" if item.default is not None else "")
    if item.default is not None:
        if has_aggregate(item.default):
            raise unsupported("an aggregate in DEFAULT")
        bind(item.default, Scope(Binder(session, Context.bare(session))))
    return Column(item.name, item.type, nullable, collation, item.identity, item.default, default_name)


def ordinals_of(columns: Sequence[Column], names: Sequence[str], table: str) -> list[int]:
    places = {c.name.lower(): i for i, c in enumerate(columns)}
    for name in names:
        if name.lower() not in places:
            raise sql_error(1911, name)
    return [places[name.lower()] for name in names]


def make_index(item: syntax.IndexDef, columns: Sequence[Column], table: str, id: int) -> Index:
    included = ordinals_of(columns, item.include, table)
    return Index(id, item.name, ordinals_of(columns, item.columns, table), unique=item.unique, included=included)


def index_taken(name: str, table: Table) -> SqlError:
    return sql_error(1913, name, table.schema, table.name)


def make_check(session: Session, table: Table, constraint: syntax.TableConstraint, column: str | None) -> Check:
    assert constraint.check is not None
    scope = Scope(Binder(session, Context.bare(session)), None, [Named(0, table_columns(table), None)])
    bind_predicate(constraint.check, scope)
    id = session.engine.instance.new_id()
    return Check(constraint.name or f"CK__{table.name[:9]}__{id:08X}", constraint.check, column, id)
