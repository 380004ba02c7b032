"""Binding of expressions: a tree becomes closures with static types.

``bind`` gives values, ``bind_predicate`` three-valued tests; names, variables, sub-queries and aggregates are asked of
the Scope (see binding.py, whose protocols are offered here too). Knows nothing of rows, tables or statements.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from . import syntax
from .binding import Bound, BoundColumn, BoundQuery, Evaluate, Frame, Label, Predicate, Rank, Scope, Session
from .collation import known, like
from .conversion import converter
from .datefunctions import DATE_FUNCTIONS, bind_date_function
from .families import CHAR_TYPES, UNICODE_TYPES, common_type, kind_of
from .functions import AGGREGATES, as_text, bind_function, counted, recognized
from .operators import arithmetic, coerce, compare, invert, merge_labels, negate, one_collation
from .signatures import GLOBALS
from .sqltypes import SqlError, SqlType, Value, unsupported

__all__ = [
    "Bound", "BoundColumn", "BoundQuery", "Evaluate", "Frame", "Label", "Predicate", "Rank", "Scope", "Session", "bind",
    "bind_predicate", "coerce", "compare",
]  # fmt: skip

_PREDICATES = (
    syntax.Compare, syntax.And, syntax.Or, syntax.Not, syntax.IsNull, syntax.Like, syntax.Between, syntax.InList,
    syntax.InQuery, syntax.Exists,
)  # fmt: skip


def bind(expr: syntax.Expr, scope: Scope) -> Bound:
    """The expression as a value."""
    known_already = scope.computed(expr)
    if known_already is not None:
        return _column(known_already, scope)
    match expr:
        case syntax.Literal(value, kind):
            return Bound(kind, lambda frame: value, _default(kind, scope), value is None, expr)
        case syntax.Column():
            return _column(scope.column(expr), scope)
        case syntax.Variable(name):
            kind, get = scope.variable(name)
            return Bound(kind, get, _default(kind, scope))
        case syntax.GlobalVariable(name):
            return _global(name.upper(), scope)
        case syntax.Unary(op, operand):
            bound = bind(operand, scope)
            return bound if op == "+" or bound.untyped_null else negate(bound) if op == "-" else invert(bound)
        case syntax.Binary(op, left, right):
            return arithmetic(op, bind(left, scope), bind(right, scope), scope.collation)
        case syntax.Case():
            return _case(expr, scope)
        case syntax.Cast():
            return _cast(expr, scope)
        case syntax.Function():
            return _function(expr, scope)
        case syntax.Collate(operand, collation):
            bound = bind(operand, scope)
            if kind_of(bound.type) != "char":
                raise SqlError(447, f"Expression type {bound.type.name} is invalid for COLLATE clause.")
            label = (known(collation).name, Rank.EXPLICIT)
            return Bound(bound.type, bound.evaluate, label, bound.nullable, bound.literal)
        case syntax.ScalarQuery(query):
            return _scalar(query, scope)
        case _ if isinstance(expr, _PREDICATES):
            raise unsupported("a condition as a value")
        case _:
            raise unsupported(type(expr).__name__)


def _default(kind: SqlType, scope: Scope) -> Label | None:
    return (scope.collation, Rank.COERCIBLE) if kind.name in CHAR_TYPES else None


def _column(column: BoundColumn, scope: Scope) -> Bound:
    label = None
    if column.type.name in CHAR_TYPES:
        label = (column.collation, Rank.IMPLICIT) if column.collation else _default(column.type, scope)
    return Bound(column.type, column.get, label, column.nullable)


def _global(name: str, scope: Scope) -> Bound:
    kind = GLOBALS.get(name)
    if kind is None:
        raise unsupported(name)
    return Bound(kind, lambda frame: frame.session.intrinsic(name, ()), _default(kind, scope), name == "@@IDENTITY")


def _case(expr: syntax.Case, scope: Scope) -> Bound:
    operand = bind(expr.operand, scope) if expr.operand is not None else None
    tests: list[Predicate] = []
    for when, _ in expr.whens:
        tests.append(bind_predicate(when, scope) if operand is None else compare("=", operand, bind(when, scope)))
    results = [bind(then, scope) for _, then in expr.whens]
    if expr.otherwise is not None:
        results.append(bind(expr.otherwise, scope))
    return _choice(tests, results, scope)


def _choice(tests: Sequence[Predicate], results: Sequence[Bound], scope: Scope) -> Bound:
    """The first result whose test is true; one result more than tests is ELSE."""
    if all(bound.untyped_null for bound in results):
        rule = "must be an expression other than the NULL constant."
        raise SqlError(8133, f"At least one of the result expressions in a CASE specification {rule}")
    target = common_type(results)
    parts = [coerce(bound, target, collation=scope.collation) for bound in results]
    pairs = [(test, part.evaluate) for test, part in zip(tests, parts, strict=False)]
    otherwise = parts[-1].evaluate if len(parts) > len(tests) else None

    def run(frame: Frame) -> Value:
        for test, evaluate in pairs:
            if test(frame) is True:
                return evaluate(frame)
        return otherwise(frame) if otherwise is not None else None

    return Bound(
        target, run, merge_labels(parts, "case"), otherwise is None or any(bound.nullable for bound in results)
    )


def _cast(expr: syntax.Cast, scope: Scope) -> Bound:
    bound = bind(expr.operand, scope)
    style = None
    if expr.style is not None:
        literal = expr.style
        if not isinstance(literal, syntax.Literal) or not isinstance(literal.value, int):
            raise unsupported("CONVERT with a style that is not a constant")
        style = literal.value
    result = coerce(bound, expr.type, style=style, explicit=True, collation=scope.collation)
    if not expr.tolerant:
        return result
    evaluate, attempt = bound.evaluate, converter(bound.type, expr.type, style, True)

    def run(frame: Frame) -> Value:
        value = evaluate(frame)  # errors of the operand itself are not forgiven
        try:
            return attempt(value)
        except SqlError as error:
            if error.number in _CONVERSION_ERRORS:
                return None
            raise

    return Bound(result.type, run, result.collation, True)


_CONVERSION_ERRORS = (220, 232, 241, 242, 244, 245, 248, 8114, 8115, 8169, 8170)


def _function(expr: syntax.Function, scope: Scope) -> Bound:
    name, args = expr.name.upper(), expr.args
    if name in AGGREGATES:
        message = (
            "An aggregate may not appear in the WHERE clause unless it is in a subquery contained in a HAVING clause or"
            " a select list, and the column being aggregated is an outer reference."
        )
        raise SqlError(147, message)
    if name in DATE_FUNCTIONS:
        counted(name, len(args), DATE_FUNCTIONS[name], DATE_FUNCTIONS[name])
        part = args[0]
        if not isinstance(part, syntax.Column) or part.qualifier is not None:
            raise SqlError(1023, f"Invalid parameter 1 specified for {name.lower()}.", severity=15)
        return bind_date_function(name, part.name, [bind(arg, scope) for arg in args[1:]])
    if name == "IIF":
        counted(name, len(args), 3, 3)
        return _choice([bind_predicate(args[0], scope)], [bind(args[1], scope), bind(args[2], scope)], scope)
    if name == "NULLIF":
        counted(name, len(args), 2, 2)
        return _nullif(*(bind(arg, scope) for arg in args))
    recognized(name)  # before the arguments: their columns are not what is wrong
    return bind_function(name, [bind(arg, scope) for arg in args], scope.collation)


def _nullif(first: Bound, second: Bound) -> Bound:
    if first.untyped_null:
        message = (
            "The type of the first argument to NULLIF cannot be the NULL constant because the type of the first"
            " argument has to be known."
        )
        raise SqlError(4151, message)
    same = compare("=", first, second)
    return Bound(first.type, lambda frame: None if same(frame) else first.evaluate(frame), first.collation, True)


def _one_column(query: BoundQuery) -> Bound:
    if len(query.types) != 1:
        raise SqlError(
            116,
            "Only one expression can be specified in the select list when the subquery is not introduced with EXISTS.",
        )
    collation = query.collations[0]
    return Bound(query.types[0], lambda frame: None, (collation, Rank.IMPLICIT) if collation else None)


def _scalar(query: syntax.Query, scope: Scope) -> Bound:
    bound = scope.query(query)
    column = _one_column(bound)

    def run(frame: Frame) -> Value:
        found: Value = None
        for i, row in enumerate(bound.rows(frame)):
            if i:
                message = (
                    "Subquery returned more than 1 value. This is not permitted when the subquery follows =, !=, <,"
                    " <= , >, >= or when the subquery is used as an expression."
                )
                raise SqlError(512, message)
            found = row[0]
        return found

    return Bound(column.type, run, column.collation)


# --- predicates ----------------------------------------------------------------------------------


def bind_predicate(expr: syntax.Expr, scope: Scope) -> Predicate:
    """The expression as a test: True, False, or None for unknown."""
    match expr:
        case syntax.Compare(op, left, right):
            return compare(op, bind(left, scope), bind(right, scope))
        case syntax.And(items):
            return _all([bind_predicate(item, scope) for item in items], False)
        case syntax.Or(items):
            return _all([bind_predicate(item, scope) for item in items], True)
        case syntax.Not(operand):
            return _not(bind_predicate(operand, scope))
        case syntax.IsNull(operand, negated):
            evaluate = bind(operand, scope).evaluate
            return lambda frame: (evaluate(frame) is None) is not negated
        case syntax.Between(operand, low, high, negated):
            bound = bind(operand, scope)
            inside = _all([compare(">=", bound, bind(low, scope)), compare("<=", bound, bind(high, scope))], False)
            return _not(inside) if negated else inside
        case syntax.InList(operand, items, negated):
            bound = bind(operand, scope)
            found = _all([compare("=", bound, bind(item, scope)) for item in items], True)
            return _not(found) if negated else found
        case syntax.InQuery():
            return _in_query(expr, scope)
        case syntax.Exists(query):
            rows = scope.query(query)
            return lambda frame: next(iter(rows.rows(frame)), None) is not None
        case syntax.Like():
            return _like(expr, scope)
        case _:
            raise SqlError(
                4145,
                "An expression of non-boolean type specified in a context where a condition is expected.",
                severity=15,
            )


def _all(tests: Sequence[Predicate], decisive: bool) -> Predicate:
    """AND (decisive False) and OR (decisive True): the decisive value wins, else unknown, else the other."""

    def run(frame: Frame) -> bool | None:
        result: bool | None = not decisive
        for test in tests:
            outcome = test(frame)
            if outcome is decisive:
                return decisive
            if outcome is None:
                result = None
        return result

    return run


def _not(test: Predicate) -> Predicate:
    def run(frame: Frame) -> bool | None:
        outcome = test(frame)
        return None if outcome is None else not outcome

    return run


def _in_query(expr: syntax.InQuery, scope: Scope) -> Predicate:
    operand, query = bind(expr.operand, scope), scope.query(expr.query)
    column = _one_column(query)
    evaluate = operand.evaluate
    # both values are handed over in place of a frame: other sessions may run this closure meanwhile
    equal: Callable[[Any], bool | None] = compare(
        "=",
        Bound(operand.type, lambda pair: pair[0], operand.collation),  # type: ignore[index]
        Bound(column.type, lambda pair: pair[1], column.collation),  # type: ignore[index]
    )

    def run(frame: Frame) -> bool | None:
        unknown, value = False, evaluate(frame)
        for row in query.rows(frame):
            outcome = equal((value, row[0]))
            if outcome:
                return True
            unknown = unknown or outcome is None
        return None if unknown else False

    return _not(run) if expr.negated else run


def _like(expr: syntax.Like, scope: Scope) -> Predicate:
    text, pattern = (
        as_text(bind(expr.operand, scope), scope.collation),
        as_text(bind(expr.pattern, scope), scope.collation),
    )
    escape = as_text(bind(expr.escape, scope), scope.collation) if expr.escape is not None else None
    collation = one_collation((text, pattern), "like") or scope.collation
    blanks = not {text.type.name, pattern.type.name} & set(UNICODE_TYPES)

    def run(frame: Frame) -> bool | None:
        value: Any = text.evaluate(frame)
        wanted: Any = pattern.evaluate(frame)
        if value is None or wanted is None:
            return None
        mark: Any = None
        if escape is not None:
            mark = escape.evaluate(frame)
            if mark is None:
                return None
            if len(mark) != 1:
                raise SqlError(506, f'The invalid escape character "{mark}" was specified in a LIKE predicate.')
        return like(wanted, mark, collation, blanks)(value) is not expr.negated

    return run
