"""MERGE: one pass over the join of source and target decides what becomes of each row, a second one writes.

Knows the clauses and which rows they are for. The writing is that of all changes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from itertools import islice
from typing import Any

from . import syntax
from .access import conjuncts
from .changes import Output, Target, Writing, column_list
from .dml import Run, assignment, capped
from .errortexts import sql_error
from .expressions import bind, bind_predicate
from .joins import plan
from .pipeline import row_count
from .scopes import Frame, Named, Row, Scope, describe
from .sources import Joined, TableLeaf, Tree, bind_source
from .sqltypes import unsupported


def bind_merge(node: syntax.Merge, root: Scope) -> Run:
    outer = root.with_ctes(node.ctes)
    scope = Scope(outer.binder, outer)
    tree: Tree = bind_source(node.source, scope)
    given = list(scope.sources)
    leaf = bind_source(node.target, scope, node.target, "merge")
    if not isinstance(leaf, TableLeaf):
        raise unsupported("MERGE into something that is not a table")
    events = tuple(dict.fromkeys(when.action for when in node.whens))
    target = Target(leaf.shape, leaf.find, scope, events, "MERGE")
    if leaf.shape.schema:
        scope.binder.rights.extend((leaf.shape, right) for right in ("SELECT", *(e.upper() for e in events)))
    on = conjuncts(node.on, scope)
    actions = [
        _when(when, target, leaf.named.alias, partial(_names, when.kind, scope, given, leaf.named))
        for when in node.whens
    ]
    output = Output(node.output, target, given) if node.output is not None else None
    each, _ = plan(Joined("left", tree, leaf, on), [])
    everything, _ = plan(leaf, []) if any(w.kind == "not matched by source" for w in node.whens) else (None, False)
    top = row_count(node.top.count, outer) if node.top is not None else None
    slots = [named.slot for named in given]

    def run(frame: Frame) -> int:
        target.writable(frame)
        todo: list[tuple[str, Any, Row, Any, list[Row]]] = []
        met = set()
        frame.rows[leaf.key_slot] = None
        for _ in each(frame):
            old = frame.rows[leaf.slot]
            key = frame.rows[leaf.key_slot] if old is not leaf.named.nulls else None
            met.add(key)
            kind = "not matched" if key is None else "matched"
            _choose(frame, actions, kind, key, old, slots, todo)
        if everything is not None:
            for named in given:
                frame.rows[named.slot] = named.nulls
            for _ in everything(frame):
                if (key := frame.rows[leaf.key_slot]) not in met:
                    _choose(frame, actions, "not matched by source", key, frame.rows[leaf.slot], slots, todo)
        changed = [key for action, key, *_ in todo if action != "insert"]
        if len(changed) != len(set(changed)):
            raise sql_error(8672)
        frame.session.pause()
        writing = Writing(frame, target, output)
        for action, key, old, row, rows in islice(todo, top(frame)) if top is not None else capped(iter(todo), frame):
            for slot, value in zip(slots, rows, strict=True):
                frame.rows[slot] = value
            if action == "insert":
                writing.insert(row)
            elif action == "update":
                writing.update(key, old, row)
            else:
                writing.delete(key, old)
        return writing.finish()

    return run


def _choose(frame: Frame, actions: Any, kind: str, key: Any, old: Row, slots: list[int], todo: list[Any]) -> None:
    for when_kind, condition, action, make in actions:
        if when_kind == kind and (condition is None or condition(frame) is True):
            row = make(frame, old)
            todo.append((action, key, old, row, [frame.rows[slot] for slot in slots]))
            return


def _names(kind: str, both: Scope, given: Sequence[Named], target: Named, refusal: int) -> Scope:
    """What a clause may name: both sides, or the only one that has a row. refusal: the error for the source's columns
    where there is no row of the source."""
    if kind == "matched":
        return both
    source = Scope(both.binder, both.parent, given)
    if kind == "not matched":
        return source

    def refuse(node: syntax.Column, slot: int, at: int) -> None:
        prefix = f"{describe(node.qualifier)}." if node.qualifier is not None and refusal != 207 else ""
        raise sql_error(refusal, prefix + node.name)

    source.guard = refuse
    return Scope(both.binder, source, [target])


def _when(when: syntax.MergeWhen, target: Target, alias: str | None, names_or: Callable[[int], Scope]) -> Any:
    condition = bind_predicate(when.condition, names_or(5334)) if when.condition is not None else None
    names = names_or(207)
    if when.action == "insert":
        values = [None if e is None else bind(e, names) for e in when.values]
        makers = target.insert_makers(column_list(target, when.columns, len(values)), values)
        return when.kind, condition, "insert", lambda f, old: [make(f) for make in makers]
    if when.action == "delete":
        return when.kind, condition, "delete", lambda f, old: None
    target.verb = "UPDATE"
    steps = [assignment(item, target, None, names, alias) for item in when.assignments]
    target.verb = "MERGE"

    def update(frame: Frame, old: Row) -> Row:
        row = list(old)
        for step in steps:
            step(frame, row)
        return row

    return when.kind, condition, "update", update
