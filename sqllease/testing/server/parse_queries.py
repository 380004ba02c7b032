"""SELECT and what stands in it: sources, joins, hints, common tables. Knows the form of queries; knows no writing.

Hints that only steer the optimizer (OPTION, LOOP JOIN) are read and dropped: there is none. Those of tables stay.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from . import syntax as s
from .lexer import words
from .parse_expressions import condition, expression
from .parse_reader import Reader
from .sqltypes import INT, SqlError

ASSIGNMENTS = ("=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=")
_SET_OPERATIONS = ("UNION", "EXCEPT", "INTERSECT")
_TABLE_HINTS = words(
    """NOLOCK READUNCOMMITTED UPDLOCK HOLDLOCK SERIALIZABLE ROWLOCK PAGLOCK TABLOCK TABLOCKX XLOCK READPAST NOWAIT
    SNAPSHOT READCOMMITTED READCOMMITTEDLOCK REPEATABLEREAD FORCESEEK FORCESCAN NOEXPAND INDEX
    KEEPIDENTITY KEEPDEFAULTS IGNORE_CONSTRAINTS IGNORE_TRIGGERS"""
)
_QUERY_HINTS = (  # n: a number follows
    "LOOP JOIN,MERGE JOIN,HASH JOIN,HASH GROUP,ORDER GROUP,CONCAT UNION,HASH UNION,MERGE UNION,FORCE ORDER,KEEP PLAN,"
    "KEEPFIXED PLAN,ROBUST PLAN,RECOMPILE,EXPAND VIEWS,OPTIMIZE FOR UNKNOWN,MAXDOP n,FAST n,QUERYTRACEON n"
).split(",")


# --- queries ---


def query(r: Reader) -> s.Query:
    """A query with its ORDER BY."""
    node = _union(r)
    if r.accept("ORDER", "BY"):
        order = r.list_of(_order_item)
        offset = fetch = None
        if r.accept("OFFSET"):
            offset = expression(r)
            r.one_of("ROW", "ROWS")
            if r.accept("FETCH"):
                r.one_of("NEXT", "FIRST")
                fetch = expression(r)
                r.one_of("ROW", "ROWS")
                r.expect("ONLY")
        if isinstance(node, s.Select):
            node = replace(node, order_by=order, offset=offset, fetch=fetch)
        elif offset is None and isinstance(node, s.SetOperation):
            node = replace(node, order_by=order)
        else:
            raise r.refuse("OFFSET behind a set operation")
    r.refuse_at("FOR XML", "FOR JSON", "FOR BROWSE", "COMPUTE")
    return node


def subquery(r: Reader) -> s.Query:
    """A query inside another one."""
    node = query(r)
    limited = isinstance(node, s.Select) and (node.top is not None or node.offset is not None)
    if isinstance(node, s.Select | s.SetOperation) and node.order_by and not limited:
        text = (
            "The ORDER BY clause is invalid in views, inline functions, derived tables, subqueries, and common table "
            "expressions, unless TOP, OFFSET or FOR XML is also specified."
        )
        raise r.error(1033, text)
    return node


def _order_item(r: Reader) -> s.OrderItem:
    return s.OrderItem(expression(r), r.accept_one("ASC", "DESC") == "DESC")


def _union(r: Reader) -> s.Query:
    left = _intersection(r)
    while word := r.accept_one("UNION", "EXCEPT"):
        op: Any = "union all" if word == "UNION" and r.accept("ALL") else word.lower()
        left = s.SetOperation(op, left, _intersection(r))
    return left


def _intersection(r: Reader) -> s.Query:
    left = _operand(r)
    while r.accept("INTERSECT"):
        left = s.SetOperation("intersect", left, _operand(r))
    return left


def _operand(r: Reader) -> s.Query:
    if r.at("("):
        return r.parenthesised(_union)
    r.expect("SELECT")
    distinct = r.accept_one("DISTINCT", "ALL") == "DISTINCT"
    top = top_clause(r, bare=True)
    items = r.list_of(select_item)
    if len({isinstance(item, s.SelectAssign) for item in items}) > 1:
        text = (
            "A SELECT statement that assigns a value to a variable must not be combined with data-retrieval operations."
        )
        raise r.error(141, text)
    if r.at("INTO"):
        raise r.refuse("SELECT INTO")
    source, where = r.after("FROM", sources), r.after("WHERE", condition)
    group_by: tuple[s.Expr, ...] = ()
    if r.accept("GROUP", "BY"):
        r.refuse_at("ALL", "ROLLUP (", "CUBE (", "GROUPING SETS", "( )")
        group_by = r.list_of(expression)
        r.refuse_at("WITH ROLLUP", "WITH CUBE")
    return s.Select(items, source, where, group_by, r.after("HAVING", condition), distinct=distinct, top=top)


def top_clause(r: Reader, *, bare: bool = False) -> s.Top | None:
    """bare: a number may stand without parentheses, in SELECT only."""
    if not r.accept("TOP"):
        return None
    count = s.Literal(r.whole(), INT) if bare and not r.at("(") else r.parenthesised(expression)
    return s.Top(count, r.accept("PERCENT"), r.accept("WITH", "TIES"))


def qualifiers(r: Reader) -> int:
    """How many tokens ``a.b.`` before the last part of a name takes here."""
    length = 0
    while r.at_name(length) and r.peek(length + 1).key == ".":
        length += 2
    return length


def select_item(r: Reader) -> s.SelectItem | s.SelectAssign:
    if r.token.kind == "variable" and r.peek().key in ASSIGNMENTS:
        return s.SelectAssign(r.variable(), r.take().key, expression(r))
    length = qualifiers(r)
    if r.peek(length).key == "*":
        if length > 2:
            raise r.refuse("schema.table.*")
        qualifier = r.name() if r.at_name() else None
        r.accept(".")
        r.expect("*")
        return s.SelectItem(s.Star(qualifier))
    if (r.at_name() or r.at_string()) and r.peek().key == "=":
        alias = r.take().text
        r.expect("=")
        return s.SelectItem(expression(r), alias)
    expr = expression(r)
    if r.accept("AS") and not r.at_string() and not r.at_name():
        raise r.wrong()
    return s.SelectItem(expr, r.take().text if r.at_string() or r.at_name() else None)


# --- sources ---


def sources(r: Reader) -> s.Source:
    """What follows FROM: a comma binds weaker than JOIN and means a cross join."""
    left = _joined(r, _source(r))
    while r.accept(","):
        left = s.Join("cross", left, _joined(r, _source(r)))
    return left


def _joined(r: Reader, left: s.Source) -> s.Source:
    while kind := _join_kind(r):
        right = _source(r)
        if kind in ("inner", "left", "right", "full"):
            right = _joined(r, right) if not r.at("ON") else right  # a JOIN b JOIN c ON .. ON ..: the inner pair first
            r.expect("ON")
            left = s.Join(kind, left, right, condition(r))
        else:
            left = s.Join(kind, left, right)
    return left


def _join_kind(r: Reader) -> Any:
    for first, second in (("CROSS", "JOIN"), ("CROSS", "APPLY"), ("OUTER", "APPLY")):
        if r.accept(first, second):
            return "cross" if second == "JOIN" else f"{first} {second}".lower()
    if r.accept("JOIN"):
        return "inner"
    word = r.accept_one("INNER", "LEFT", "RIGHT", "FULL")
    if word is None:
        return None
    if word != "INNER":
        r.accept("OUTER")
    r.accept_one("LOOP", "HASH", "MERGE")
    r.expect("JOIN")
    return word.lower()


def _source(r: Reader) -> s.Source:
    if r.at("("):
        return _source_in_parentheses(r)
    r.refuse_at("OPENROWSET", "OPENQUERY", "OPENXML", "OPENDATASOURCE", "CONTAINSTABLE", "FREETEXTTABLE")
    name = target_name(r)
    if r.at(".") or (r.at("(") and r.peek().key not in _TABLE_HINTS):
        raise r.refuse(f"{name.name}() in FROM")
    r.refuse_at("FOR SYSTEM_TIME", "TABLESAMPLE")
    alias = alias_name(r)
    r.refuse_at("PIVOT", "UNPIVOT", "TABLESAMPLE")
    return s.TableRef(name, alias, table_hints(r, bare=True))


def _source_in_parentheses(r: Reader) -> s.Source:
    r.expect("(")
    if r.at_one("INSERT", "UPDATE", "DELETE", "MERGE"):
        raise r.refuse(f"{r.key} in FROM")
    rows = r.after("VALUES", lambda r: r.list_of(lambda r: r.list_in(expression)))
    derived = subquery(r) if r.at("SELECT") else None
    joined = _joined(r, _source(r)) if rows is None and derived is None else None
    r.expect(")")
    if joined:
        return joined
    if r.at_one(*_SET_OPERATIONS):
        raise r.refuse(f"(SELECT) {r.key} in FROM")
    alias = alias_name(r)
    if alias is None:
        raise r.wrong()
    columns = r.names() if r.at("(") else ()
    r.refuse_at("PIVOT", "UNPIVOT")
    return s.DerivedTable(derived, alias, columns) if derived else s.ValuesTable(rows or (), alias, columns)


def alias_name(r: Reader) -> str | None:
    return r.name() if r.accept("AS") or (r.at_name() and not r.at_one("USING", "APPLY")) else None


def table_hints(r: Reader, *, bare: bool = False) -> tuple[str, ...]:
    """``WITH (a, b)``; bare: also the old form without WITH, which only a table in FROM has."""
    if r.accept("WITH"):
        if not r.at("("):
            raise with_is_wrong(r)
    elif not bare or not r.at("("):
        return ()
    r.expect("(")
    hints = [_table_hint(r)]
    while not r.accept(")"):
        r.accept(",")  # blanks separate hints too
        hints.append(_table_hint(r))
    return tuple(hints)


def with_is_wrong(r: Reader) -> SqlError:
    """The error of a WITH that begins no clause of the statement before it."""
    text = (
        "Incorrect syntax near the keyword 'with'. If this statement is a common table expression, an xmlnamespaces "
        "clause or a change tracking context clause, the previous statement must be terminated with a semicolon."
    )
    return r.error(319, text)


def _table_hint(r: Reader) -> str:
    if r.finished or r.token.kind == "sign":
        raise r.wrong()
    if r.key not in _TABLE_HINTS:
        raise r.error(321, f'"{r.token.text}" is not a recognized table hints option.')
    word = r.take().key
    if word == "INDEX":
        r.accept("=")
        return f"INDEX({', '.join(r.list_in(_index) if r.at('(') else [_index(r)])})"
    if word == "FORCESEEK" and r.accept("("):
        index, columns = _index(r), r.names()
        r.expect(")")
        return f"FORCESEEK({index}({', '.join(columns)}))"
    return word


def _index(r: Reader) -> str:
    return str(r.whole()) if r.token.kind == "number" else r.name()


def query_hint(r: Reader) -> None:
    if r.accept("USE", "HINT"):
        r.list_in(expression)
        return
    for hint in _QUERY_HINTS:
        if r.accept(*hint.removesuffix(" n").split()):
            if hint.endswith(" n"):
                r.whole()
            return
    raise r.refuse(f"OPTION ({r.token.text})")


def target_name(r: Reader) -> s.ObjectName:
    return s.ObjectName(r.variable()) if r.token.kind == "variable" else r.object_name()


def common_table(r: Reader) -> s.CommonTable:
    r.refuse_at("XMLNAMESPACES", "CHANGE_TRACKING_CONTEXT")
    name, columns = r.name(), r.names() if r.at("(") else ()
    r.expect("AS")
    return s.CommonTable(name, r.parenthesised(subquery), columns)
