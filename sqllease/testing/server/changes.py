"""The writing half of INSERT, UPDATE, DELETE and MERGE: rows that are fit to store, OUTPUT, triggers.

Knows constraints that a single row can break (515, 547, 2628), what OUTPUT may show and when triggers fire. Knows
nothing of how the rows were found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from . import syntax
from .binding import Bound, Predicate
from .conversion import check, store
from .errortexts import sql_error
from .expressions import bind, bind_predicate
from .scopes import BoundRows, Frame, Named, OutColumn, Row, Scope, describe
from .sources import table_columns
from .sqltypes import ResultColumn, Value, nvarchar
from .storage import Table

Make = Callable[[Frame], Value]


@dataclass(slots=True)
class Check:
    """A CHECK constraint as a table keeps it."""

    name: str
    expr: syntax.Expr
    column: str | None = None  # when it was written behind a column
    id: int = 0


@dataclass(slots=True)
class Trigger:
    name: str
    schema: str
    instead_of: bool
    events: tuple[str, ...]
    statement: syntax.CreateTrigger
    id: int
    enabled: bool = True
    plan: Any = None  # compiled when it first fires


def full_name(table: Table) -> str:
    """As error messages have it."""
    return f"{table.database.name}.{table.schema}.{table.name}" if table.schema else table.name


class Target:
    """A table that a statement changes, bound."""

    def __init__(
        self, table: Table, find: Callable[[Frame], Table], scope: Scope, events: Sequence[str], verb: str
    ) -> None:
        self.table = table
        self.find = find
        self.binder = scope.binder
        self.events = events
        self.verb = verb
        self.old = Named(self.binder.slot(), table_columns(table), "deleted")
        self.new = Named(self.binder.slot(), table_columns(table), "inserted")
        check_scope = Scope(self.binder, None, [Named(self.new.slot, table_columns(table), None)])
        self.checks: list[tuple[Check, Predicate]] = [(c, bind_predicate(c.expr, check_scope)) for c in table.checks]
        self.scope = scope
        self.required = [
            (i, c.name) for i, c in enumerate(table.columns) if not c.nullable and c.type.name != "rowversion"
        ]

    def triggers(self, event: str) -> list[Trigger]:
        return [t for t in self.table.triggers if t.enabled and event in t.events]

    # --- values ----------------------------------------------------------------------------------

    def ordinal(self, name: str) -> int:
        for i, column in enumerate(self.table.columns):
            if column.name.lower() == name.lower():
                return i
        raise sql_error(207, name)

    def maker(self, ordinal: int, bound: Bound | None) -> Make:
        """What a column gets from an expression; None stands for DEFAULT."""
        column = self.table.columns[ordinal]
        if bound is None:
            bound = bind(column.default, Scope(self.binder)) if column.default is not None else None
            if bound is None:
                return lambda f: None
        elif column.type.name == "rowversion":
            if self.verb == "UPDATE":
                raise sql_error(272)
            raise sql_error(273)
        if bound.untyped_null:
            return lambda f: None
        evaluate, source, target = bound.evaluate, bound.type, column.type
        check(source, target)
        where = full_name(self.table)
        name = column.name
        return lambda f: store(
            evaluate(f), source, target, table=where, column=name, ansi_warnings=f.session.options.ansi_warnings
        )

    def insert_makers(self, ordinals: Sequence[int], given: Sequence[Bound | None]) -> list[Make]:
        """One maker for each column of the table, in its order."""
        makers: list[Make] = []
        chosen = dict(zip(ordinals, given, strict=True))
        for i, column in enumerate(self.table.columns):
            if column.identity is None:
                makers.append(self.maker(i, chosen.get(i)))
            elif i in chosen:
                makers.append(self._identity(i, self.maker(i, chosen[i])))
            else:
                makers.append(self._identity(i, None))
        return makers

    def _identity(self, ordinal: int, given: Make | None) -> Make:
        def make(frame: Frame) -> Value:
            session, table = frame.session, self.find(frame)
            allowed = session.options.identity_insert == (table.schema.lower(), table.name.lower())
            if given is None:
                if allowed:
                    raise sql_error(545, table.name)
                session.identity = frame.context.identity = value = table.next_identity()
                return value
            if not allowed:
                raise sql_error(544, table.name)
            explicit = given(frame)
            if isinstance(explicit, int):
                table.identity_last = max(
                    explicit, table.identity_last if table.identity_last is not None else explicit
                )
                session.identity = frame.context.identity = explicit
            return explicit

        return make

    def fit(self, frame: Frame, row: Row, verb: str) -> None:
        """NOT NULL and CHECK of one new row."""
        for at, name in self.required:
            if row[at] is None:
                raise sql_error(515, name, full_name(self.find(frame)), verb)
        if self.checks:
            frame.rows[self.new.slot] = row
            for constraint, passes in self.checks:
                if passes(frame) is False:
                    where = f", column '{constraint.column}'" if constraint.column else ""
                    raise sql_error(
                        547, verb, constraint.name, self.table.database.name, self.table.schema, self.table.name, where
                    )

    def moves(self, changes: Sequence[tuple[Any, Row, Row, Any]]) -> bool:
        """Whether any of these changes (key, old, new, ...) touches a unique key."""
        unique = {at for index in (self.table.clustered, *self.table.indexes) if index.unique for at in index.columns}
        return any(old[at] != new[at] for _, old, new, _ in changes for at in unique)

    def writable(self, frame: Frame) -> None:
        table, session = self.find(frame), frame.session
        if not table.schema:
            return
        if session.doomed:
            raise sql_error(3930)
        if not table.database.writable:
            raise sql_error(3906, table.database.name)


class _OutputScope(Scope):
    """Names in an OUTPUT clause. It has no parent: the changed table is known as inserted and deleted only."""

    def query(self, query: syntax.Query) -> BoundRows:
        raise sql_error(10705)


class Output:
    """An OUTPUT clause: rows for the client, or for a table."""

    def __init__(self, clause: syntax.OutputClause, target: Target, sources: Sequence[Named]) -> None:
        binder = target.binder
        self.action = Named(binder.slot(), [OutColumn("$action", nvarchar(10), target.scope.collation, False)], None)
        others = [s for s in sources if s.alias is None or s.alias.lower() not in ("inserted", "deleted")]
        images = {"INSERT": [target.new], "DELETE": [target.old]}.get(target.verb, [target.new, target.old])
        action = [self.action] if target.verb == "MERGE" else []
        scope = _OutputScope(binder, None, [*images, *action, *others])
        changed = (target.new.slot, target.old.slot)

        def guard(node: syntax.Column, slot: int, at: int) -> None:
            if node.qualifier is None and slot in changed:
                raise sql_error(207, node.name)

        scope.guard = guard
        self.items: list[Bound] = []
        self.columns: list[ResultColumn] = []
        for item in clause.items:
            if isinstance(item.expr, syntax.Star):
                if item.expr.qualifier is None:
                    raise sql_error(102, "*")
                prefix = syntax.ObjectName(item.expr.qualifier)
                source = next((source for source in scope.sources if source.answers_to(prefix)), None)
                if source is None:
                    raise sql_error(107, prefix.name)
                for column in source.columns:
                    self._add(bind(syntax.Column(column.name, prefix), scope), column.name)
                continue
            name = item.alias or (item.expr.name if isinstance(item.expr, syntax.Column) else "")
            self._add(bind(item.expr, scope), name)
        binder.rights.append((target.table, "SELECT"))
        self.into: Target | None = None
        self.makers: list[Make] = []
        triggers = [t for event in target.events for t in target.triggers(event)]
        if clause.into is None:
            if triggers:
                raise sql_error(334, target.table.name)
            return
        self.into = into = bind_target(clause.into, target.scope, ("insert",), "INSERT")
        if any(trigger.enabled for trigger in into.table.triggers):
            raise sql_error(331, describe(clause.into))
        # Microsoft says it of an output_table, not of a @table_variable.
        if into.table.checks and not clause.into.name.startswith("@"):
            raise sql_error(333, describe(clause.into), into.table.checks[0].name)
        ordinals = column_list(into, clause.into_columns, len(self.items))
        self.makers = into.insert_makers(ordinals, self.items)

    def _add(self, bound: Bound, name: str) -> None:
        self.items.append(bound)
        self.columns.append(ResultColumn(name, bound.type, bound.nullable))


class Writing:
    """One execution of a change: writes rows, gathers what OUTPUT and triggers need."""

    def __init__(self, frame: Frame, target: Target, output: Output | None) -> None:
        self.frame = frame
        self.target = target
        self.output = output
        self.table = target.find(frame)
        self.tx = frame.session.transaction_for(self.table)
        self.count = 0
        self.instead = {event: any(t.instead_of for t in target.triggers(event)) for event in target.events}
        self.fired: dict[str, tuple[list[Row], list[Row]]] = {e: ([], []) for e in target.events if target.triggers(e)}
        self.collected: list[Row] = []
        self.taken: set[Any] = set()
        if output is not None and output.into is None:
            frame.context.sink.columns(output.columns)

    def insert(self, row: Row) -> None:
        if not self.instead["insert"]:
            self.target.fit(self.frame, row, self.target.verb)
            row = self.table.insert(self.tx, tuple(row))[1]
        self._note("insert", row, None)

    def update(self, key: Any, old: Row, row: Row) -> None:
        if self.instead["update"]:
            self._note("update", row, old)
            return
        self.target.fit(self.frame, row, self.target.verb)
        done = (
            self.table.insert(self.tx, tuple(row)) if key in self.taken else self.table.update(self.tx, key, tuple(row))
        )
        if done is not None:
            self._note("update", done[1], old)

    def take(self, key: Any) -> None:
        """Takes a row away that update brings back: in one statement, rows may take each other's unique keys."""
        if not self.instead["update"] and self.table.delete(self.tx, key) is not None:
            self.taken.add(key)

    def delete(self, key: Any, old: Row) -> None:
        gone = old if self.instead["delete"] else self.table.delete(self.tx, key)
        if gone is not None:
            self._note("delete", None, gone)

    def _note(self, event: str, new: Row | None, old: Row | None) -> None:
        self.count += 1
        frame, target = self.frame, self.target
        self.tx.session.work.rows_written += 1
        if self.output is not None:
            frame.rows[target.new.slot] = new if new is not None else target.new.nulls
            frame.rows[target.old.slot] = old if old is not None else target.old.nulls
            frame.rows[self.output.action.slot] = (event.upper(),)
            if self.output.into is not None:
                self.collected.append(tuple([make(frame) for make in self.output.makers]))
            else:
                frame.context.sink.row([item.evaluate(frame) for item in self.output.items])
        if event in self.fired:
            inserted, deleted = self.fired[event]
            if new is not None:
                inserted.append(new)
            if old is not None:
                deleted.append(old)

    def finish(self) -> int:
        """Rows of OUTPUT INTO, then the triggers; the number of changed rows."""
        frame = self.frame
        if self.output is not None and self.output.into is not None:
            into = self.output.into
            table = into.find(frame)
            tx = frame.session.transaction_for(table)
            for row in self.collected:
                into.fit(frame, row, "INSERT")
                table.insert(tx, row)
        if self.output is not None and self.output.into is None:
            frame.context.sink.done(self.count, is_select=True)
        for event, (inserted, deleted) in self.fired.items():
            for trigger in self.target.triggers(event):
                frame.session.fire(trigger, self.table, inserted, deleted, self.count, frame.context)
        return self.count


def bind_target(name: syntax.ObjectName, scope: Scope, events: Sequence[str], verb: str) -> Target:
    binder = scope.binder
    if name.name.startswith("@"):
        key = name.name.lower()
        shape = binder.context.types.get(key)
        if not isinstance(shape, Table):
            raise sql_error(1087, name.name)
        return Target(shape, lambda f: f.context.tables[key], scope, events, verb)
    table = binder.session.find_table(name)
    binder.cacheable = binder.cacheable and not name.name.startswith("#")
    binder.reads_tables = True
    binder.rights.extend((table, event.upper()) for event in events)
    return Target(table, lambda f: table, scope, events, verb)


def column_list(target: Target, names: Sequence[str], count: int) -> list[int]:
    """The ordinals that a list of columns (or its absence) means; 213, 109, 110, 264 where it does not fit."""
    columns = target.table.columns
    if not names:
        ordinals = [i for i, c in enumerate(columns) if c.identity is None]
        if len(ordinals) != count:
            raise sql_error(213)
        return ordinals
    ordinals = [target.ordinal(name) for name in names]
    once(ordinals, names)
    if len(ordinals) != count:
        raise sql_error(109 if len(ordinals) > count else 110)
    return ordinals


def once(ordinals: Sequence[int], names: Sequence[str]) -> None:
    """Error 264 for a column that is named twice."""
    for i, at in enumerate(ordinals):
        if at in ordinals[:i]:
            raise sql_error(264, names[i])
