"""INSERT, UPDATE, DELETE, MERGE and OUTPUT, and SELECT as a statement. Knows what writes rows; knows no definitions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from . import syntax as s
from .parse_expressions import condition, expression
from .parse_queries import (
    ASSIGNMENTS,
    alias_name,
    common_table,
    qualifiers,
    query,
    query_hint,
    select_item,
    sources,
    table_hints,
    target_name,
    top_clause,
)
from .parse_reader import Reader


class Lead(NamedTuple):
    """What the statement has read before its own grammar begins."""

    ctes: tuple[s.CommonTable, ...]
    line: int


def rows_statement(r: Reader) -> s.Statement:
    """A statement that reads or writes rows, with the common tables before it and the hints behind it."""
    line, ctes = r.line, r.after("WITH", lambda r: r.list_of(common_table)) or ()
    if r.at_one("SELECT", "("):
        node: s.Statement = s.SelectStatement(query(r), ctes, line=line)
    else:
        parse = {"INSERT": _insert, "UPDATE": _update, "DELETE": _delete, "MERGE": _merge}
        node = parse[r.one_of(*parse)](r, Lead(ctes, line))
    if r.accept("OPTION"):
        r.list_in(query_hint)
    if isinstance(node, s.Merge) and not r.at(";"):
        raise r.error(10713, "A MERGE statement must be terminated by a semi-colon (;).")
    return node


def _cell(r: Reader) -> s.Expr | None:
    return None if r.accept("DEFAULT") else expression(r)


def _where(r: Reader) -> s.Expr | None:
    r.refuse_at("WHERE CURRENT OF")
    return r.after("WHERE", condition)


def _output(r: Reader) -> s.OutputClause | None:
    if not r.accept("OUTPUT"):
        return None
    items = r.list_of(_output_item)
    if not r.accept("INTO"):
        return s.OutputClause(items)
    into = target_name(r)
    columns = r.names() if r.at("(") and r.peek().key not in ("SELECT", "(") else ()
    if r.at("OUTPUT"):
        raise r.refuse("two OUTPUT clauses")
    return s.OutputClause(items, into, columns)


def _output_item(r: Reader) -> s.SelectItem:
    item = select_item(r)
    if isinstance(item, s.SelectAssign):
        raise r.wrong()
    return item


def _insert(r: Reader, lead: Lead) -> s.Statement:
    if r.at("TOP"):
        raise r.refuse("INSERT TOP")
    r.accept("INTO")
    target, hints = target_name(r), table_hints(r)
    columns = r.names() if r.at("(") and r.peek().key not in ("SELECT", "(") else ()
    node = s.Insert(target, columns, output=_output(r), hints=hints, ctes=lead.ctes, line=lead.line)
    if r.accept("DEFAULT", "VALUES"):
        return replace(node, default_values=True)
    if r.accept("VALUES"):
        return replace(node, rows=r.list_of(lambda r: r.list_in(_cell)))
    if r.at_one("EXEC", "EXECUTE"):
        raise r.refuse("INSERT EXEC")
    return replace(node, query=query(r))


def _update(r: Reader, lead: Lead) -> s.Statement:
    r.refuse_at("STATISTICS")
    top, target, hints = top_clause(r), target_name(r), table_hints(r)
    r.expect("SET")
    assignments = r.list_of(lambda r: _assignment(r, target.name))
    output, source, where = _output(r), r.after("FROM", sources), _where(r)
    return s.Update(target, assignments, source, where, output, top, hints, lead.ctes, line=lead.line)


def _assignment(r: Reader, target: str) -> s.Assignment:
    variable = None
    if r.token.kind == "variable":
        variable, op = r.variable(), r.one_of(*ASSIGNMENTS)
        length = qualifiers(r)
        if op != "=" or not r.at_name(length) or r.peek(length + 1).key not in ASSIGNMENTS:
            return s.Assignment(None, expression(r), variable, op)
    *qualifier, column = r.parts()
    if r.at("("):
        raise r.refuse(f".{column}()")
    if qualifier and [part.lower() for part in qualifier] != [target.lower()]:
        raise r.refuse(f"SET {'.'.join([*qualifier, column])}")
    op = r.one_of(*ASSIGNMENTS)
    return s.Assignment(column, _cell(r), variable, op)


def _delete(r: Reader, lead: Lead) -> s.Statement:
    top = top_clause(r)
    r.accept("FROM")
    target, hints, output = target_name(r), table_hints(r), _output(r)
    source, where = r.after("FROM", sources), _where(r)
    return s.Delete(target, source, where, output, top, hints, lead.ctes, line=lead.line)


def _merge(r: Reader, lead: Lead) -> s.Statement:
    top = top_clause(r)
    r.accept("INTO")
    name, hints = target_name(r), table_hints(r)
    target = s.TableRef(name, alias_name(r), hints)
    r.expect("USING")
    source = sources(r)
    r.expect("ON")
    on, whens = condition(r), [_merge_when(r, target, [])]
    while r.at("WHEN"):
        whens.append(_merge_when(r, target, whens))
    return s.Merge(target, source, on, tuple(whens), _output(r), top, lead.ctes, line=lead.line)


def _merge_when(r: Reader, target: s.TableRef, before: list[s.MergeWhen]) -> s.MergeWhen:
    r.expect("WHEN")
    kind: Any = "not matched" if r.accept("NOT") else "matched"
    r.expect("MATCHED")
    if kind == "not matched" and r.accept("BY") and r.one_of("TARGET", "SOURCE") == "SOURCE":
        kind = "not matched by source"
    test = r.after("AND", condition)
    r.expect("THEN")
    action: Any = r.one_of("UPDATE", "DELETE", "INSERT").lower()
    what, clause = f"An action of type '{action.upper()}'", f"'WHEN {kind.upper()}' clause"
    if (action == "insert") != (kind == "not matched"):
        raise r.error(10711, f"{what} is not allowed in the {clause} of a MERGE statement.")
    if any((when.kind, when.action) == (kind, action) for when in before):
        raise r.error(10714, f"{what} cannot appear more than once in a {clause} of a MERGE statement.")
    if any(when.kind == kind and when.condition is None for when in before):
        text = f"a {clause} with a search condition cannot appear after a {clause} with no search condition."
        raise r.error(5324, f"In a MERGE statement, {text}")
    if action == "delete":
        return s.MergeWhen(kind, test, action)
    if action == "update":
        r.expect("SET")
        assigned = r.list_of(lambda r: _assignment(r, target.alias or target.name.name))
        return s.MergeWhen(kind, test, action, assigned)
    columns = r.names() if r.at("(") else ()
    r.refuse_at("DEFAULT VALUES")
    r.expect("VALUES")
    return s.MergeWhen(kind, test, action, columns=columns, values=r.list_in(_cell))
