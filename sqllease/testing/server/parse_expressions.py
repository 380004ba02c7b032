"""Expressions and conditions. Knows operators, their order, and the forms that look like functions but are not.

Knows no function by what it does: a call is a name with arguments. T-SQL keeps conditions and values apart, so each
caller asks for the one that may stand there. A minus sign binds weaker than ``*`` and ``/``: ``-100 / -100 * 10`` is 0
(docs/t-sql/language-elements/operator-precedence-transact-sql.md).
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from math import isinf
from typing import Any

from . import syntax as s
from .lexer import Token
from .parse_reader import Reader
from .parse_types import data_type
from .sqltypes import FLOAT, INT, MAX, SqlError, SqlType

_CONDITIONS = (s.Compare, s.And, s.Or, s.Not, s.IsNull, s.Like, s.Between, s.InList, s.InQuery, s.Exists)
_COMPARISONS = ("=", "<>", "<", "<=", ">", ">=")
_WITHOUT_PARENTHESES = ("CURRENT_TIMESTAMP", "CURRENT_USER", "SESSION_USER", "SYSTEM_USER", "USER")
_KEYWORD_FUNCTIONS = ("COALESCE", "NULLIF", "LEFT", "RIGHT")
_REFUSED_CALLS = ("PARSE", "TRY_PARSE", "JSON_OBJECT", "JSON_ARRAY")


def expression(r: Reader) -> s.Expr:
    """A value."""
    return _value(r, _sum(r))


def condition(r: Reader) -> s.Expr:
    """Something true, false or unknown."""
    return _truth(r, _either(r))


def constant(r: Reader) -> s.Expr:
    """What EXEC, THROW and RAISERROR take: a constant, signed or not, or a variable; no operators."""
    if r.at_one("-", "+") and r.peek().kind == "number":
        sign: Any = r.take().key
        return s.Unary(sign, literal(r.take()))
    if r.token.kind in ("string", "nstring", "number", "binary", "variable") or r.at("NULL"):
        return _primary(r)
    raise r.wrong()


def literal(token: Token) -> s.Literal:
    text = token.text
    if token.kind == "string":
        return s.Literal(text, SqlType("varchar", _length(len(text), 8000)))
    if token.kind == "nstring":
        return s.Literal(text, SqlType("nvarchar", _length(len(text.encode("utf-16-le", "surrogatepass")) // 2, 4000)))
    if token.kind == "binary":
        value = bytes.fromhex("0" * (len(text) % 2) + text[2:])
        return s.Literal(value, SqlType("varbinary", _length(len(value), 8000)))
    if "e" in text.lower():
        number = float(text if text[-1].isdigit() else text + "0")
        if isinf(number):
            message = f"The floating point value '{text}' is out of the range of computer representation (8 bytes)."
            raise SqlError(168, message, severity=15, line=token.line)
        return s.Literal(number, FLOAT)
    whole, _, fraction = text.partition(".")
    precision = max(len(whole.lstrip("0")) + len(fraction), 1)
    if whole == text and precision <= 10 and int(text) < 2**31:
        return s.Literal(int(text), INT)
    if precision > 38:
        message = f"The number '{text}' is out of the range for numeric representation (maximum precision 38)."
        raise SqlError(1007, message, severity=15, line=token.line)
    return s.Literal(Decimal(text), SqlType("decimal", precision=precision, scale=len(fraction)))


def _length(length: int, limit: int) -> int:
    return max(length, 1) if length <= limit else MAX


# --- conditions ---


def _truth(r: Reader, node: s.Expr) -> s.Expr:
    if not isinstance(node, _CONDITIONS):
        text = "An expression of non-boolean type specified in a context where a condition is expected"
        raise r.error(4145, f"{text}, near '{r.token.text}'.")
    return node


def _value(r: Reader, node: s.Expr) -> s.Expr:
    if isinstance(node, _CONDITIONS):
        raise r.wrong()
    return node


def _either(r: Reader) -> s.Expr:
    items = [_both(r)]
    while r.at("OR"):
        _truth(r, items[-1])
        r.take()
        items.append(_truth(r, _both(r)))
    return items[0] if len(items) == 1 else s.Or(tuple(items))


def _both(r: Reader) -> s.Expr:
    items = [_negation(r)]
    while r.at("AND"):
        _truth(r, items[-1])
        r.take()
        items.append(_truth(r, _negation(r)))
    return items[0] if len(items) == 1 else s.And(tuple(items))


def _negation(r: Reader) -> s.Expr:
    return s.Not(_truth(r, _negation(r))) if r.accept("NOT") else _predicate(r)


def _predicate(r: Reader) -> s.Expr:
    if r.accept("EXISTS"):
        return s.Exists(r.parenthesised(r.subquery))
    r.refuse_at("CONTAINS", "FREETEXT", "UPDATE (")
    left = _sum(r)
    if isinstance(left, _CONDITIONS):
        return left
    if r.at_one(*_COMPARISONS):
        op: Any = r.take().key
        r.refuse_at("ANY", "SOME", "ALL")
        return s.Compare(op, left, expression(r))
    if r.accept("IS"):
        negated = r.accept("NOT")
        r.refuse_at("DISTINCT")
        r.expect("NULL")
        return s.IsNull(left, negated)
    negated = r.at("NOT") and r.peek().key in ("LIKE", "BETWEEN", "IN") and r.accept("NOT")
    if r.accept("LIKE"):
        return s.Like(left, expression(r), r.after("ESCAPE", expression), negated)
    if r.accept("BETWEEN"):
        low = expression(r)
        r.expect("AND")
        return s.Between(left, low, expression(r), negated)
    if r.accept("IN"):
        if r.at("(", "SELECT"):
            return s.InQuery(left, r.parenthesised(r.subquery), negated)
        return s.InList(left, r.list_in(expression), negated)
    return left


# --- values ---


def _chain(r: Reader, operand: Callable[[Reader], s.Expr], *ops: str) -> s.Expr:
    left = operand(r)
    while r.at_one(*ops):
        _value(r, left)
        op: Any = r.take().key
        left = s.Binary(op, left, _value(r, operand(r)))
    return left


def _sum(r: Reader) -> s.Expr:
    return _chain(r, _product, "+", "-", "&", "|", "^")


def _product(r: Reader) -> s.Expr:
    return _chain(r, _signed, "*", "/", "%")


def _signed(r: Reader) -> s.Expr:
    op: Any = r.accept_one("-", "+", "~")
    if op:
        return s.Unary(op, _value(r, _signed(r) if op == "~" else _product(r)))
    node = _primary(r)
    while r.accept("COLLATE"):
        node = s.Collate(_value(r, node), r.name())
    r.refuse_at("AT TIME ZONE")
    if r.at_one(".", "::"):
        raise r.refuse("method call")
    return node


def _primary(r: Reader) -> s.Expr:
    token = r.token
    if token.kind in ("string", "nstring", "number", "binary"):
        return literal(r.take())
    if token.kind == "variable":
        name = r.take().text
        return s.GlobalVariable(name.lower()) if name.startswith("@@") else s.Variable(name)
    if r.accept("$ACTION"):
        return s.Column("$action")
    if r.at_name():
        return _call(r) if token.kind == "word" and r.peek().key == "(" else _column(r)
    if r.at("(", "SELECT"):
        node = s.ScalarQuery(r.parenthesised(r.subquery))
        if r.at_one("UNION", "EXCEPT", "INTERSECT"):
            raise r.refuse(f"(SELECT) {r.key} in an expression")
        return node
    if r.at("("):
        return r.parenthesised(_either)
    if r.accept("NULL"):
        return s.Literal(None, INT)  # the type that the engine gives to a bare NULL
    if r.accept("CASE"):
        return _case(r)
    if r.at_one("CONVERT", "TRY_CONVERT"):
        return _convert(r)
    if r.at_one(*_WITHOUT_PARENTHESES):
        return s.Function(r.take().key)
    if r.at_one(*_KEYWORD_FUNCTIONS) and r.peek().key == "(":
        return _call(r)
    if token.kind == "dollar" or r.at_one("{", "IDENTITYCOL", "ROWGUIDCOL", "IDENTITY", "TSEQUAL", "CURSOR"):
        raise r.refuse()
    raise r.wrong()


def _column(r: Reader) -> s.Expr:
    r.refuse_at("NEXT VALUE FOR")
    *qualifiers, name = r.parts()
    if r.at("("):
        raise r.refuse(f"{'.'.join([*qualifiers, name])}()")  # a user-defined function or a method
    table, *rest = r.qualifiers(qualifiers, 3) or [None]
    return s.Column(name, s.ObjectName(table, *rest) if table else None)


def _call(r: Reader) -> s.Expr:
    if r.at_one(*_REFUSED_CALLS):
        raise r.refuse()
    name = r.take().key
    r.expect("(")
    if name in ("CAST", "TRY_CAST"):
        operand = expression(r)
        r.expect("AS")
        return _closed(r, s.Cast(operand, data_type(r, default_length=30), tolerant=name == "TRY_CAST"))
    if name == "IIF":
        test = condition(r)
        r.expect(",")
        then = expression(r)
        r.expect(",")
        return _closed(r, s.Case(None, ((test, then),), expression(r)))
    distinct = r.accept_one("DISTINCT", "ALL") == "DISTINCT"
    args: tuple[s.Expr, ...] = ()
    if r.accept("*"):
        args = (s.Star(),)
    elif distinct or not r.at(")"):
        args = r.list_of(expression)
    if r.at("FROM"):
        raise r.refuse(f"{name}(.. FROM ..)")
    node = _closed(r, s.Function(name, args, distinct))
    r.refuse_at("OVER", "WITHIN GROUP", "IGNORE NULLS", "RESPECT NULLS")
    return node


def _closed(r: Reader, node: s.Expr) -> s.Expr:
    r.expect(")")
    return node


def _convert(r: Reader) -> s.Expr:
    tolerant = r.take().key == "TRY_CONVERT"
    r.expect("(")
    target = data_type(r, default_length=30)
    r.expect(",")
    return _closed(r, s.Cast(expression(r), target, r.after(",", expression), tolerant))


def _case(r: Reader) -> s.Expr:
    operand = None if r.at("WHEN") else expression(r)
    whens = []
    while r.accept("WHEN"):
        test = condition(r) if operand is None else expression(r)
        r.expect("THEN")
        whens.append((test, expression(r)))
    if not whens:
        raise r.wrong()
    otherwise = r.after("ELSE", expression)
    r.expect("END")
    return s.Case(operand, tuple(whens), otherwise)
