"""Texts become plans: parsed, variables declared, statements bound as far as their tables are there.

A batch is compiled as a whole before its first statement runs; what names a table that is not there is bound when its
turn comes (deferred name resolution), and everything anew after a change of definitions.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from . import definitions, syntax
from .contexts import NULL_SINK, Compiled, Context, Plan, Pseudo
from .errortexts import sql_error
from .expressions import bind
from .parser import parse_batch, parse_declarations
from .scopes import Binder, Scope
from .sqltypes import SqlError
from .statements import COMPILERS, STARTS_TRANSACTION

if TYPE_CHECKING:
    from .session import Session

_KEPT_PLANS = 500
_DEFERRED = frozenset({208, 911, 916})
"""A name that is not there yet: found out when its statement runs."""


def plan_for(session: Session, text: str, declarations: str = "") -> Plan:
    """Parsed, declared and bound as far as its tables are there; raises what ends a batch before it begins."""
    plans, key = session.engine.plans, (text, declarations, *_place(session))
    known: Plan | None = plans.get(key)
    if known is not None:
        return known
    plan = Plan(parse_batch(text), parse_declarations(declarations))
    for parameter in plan.parameters:
        plan.types[parameter.name.lower()] = parameter.type
    prepare(session, plan)
    if len(plans) >= _KEPT_PLANS:
        plans.clear()
    plans[key] = plan
    return plan


def _place(session: Session) -> tuple[str, int]:
    return session.database.name, session.engine.version


def prepare(session: Session, plan: Plan, pseudo: Pseudo | None = None) -> None:
    _declare_and_bind(plan.statements, Context(session, plan, NULL_SINK, pseudo))


def _declare_and_bind(statements: Sequence[syntax.Statement], context: Context) -> None:
    for node in statements:
        if isinstance(node, syntax.Declare):
            for item in node.items:
                if item.name.lower() in context.types:
                    raise sql_error(134, item.name, line=node.line)
                if isinstance(item, syntax.DeclareTable):
                    context.types[item.name.lower()] = definitions.table_variable(context.session, item)
                else:
                    context.types[item.name.lower()] = item.type
        if isinstance(node, (syntax.Block, syntax.TryCatch)):
            _declare_and_bind(node.body, context)
            _declare_and_bind(node.handler if isinstance(node, syntax.TryCatch) else (), context)
            continue
        if isinstance(node, (syntax.Execute, syntax.ExecuteText)):
            _check_call(node, Scope(Binder(context.session, context)))
        if type(node) in COMPILERS:
            try:
                compile_statement(node, context)
            except SqlError as error:
                if error.number not in _DEFERRED:
                    error.line = node.line
                    raise
        for part in (getattr(node, "then", None), getattr(node, "otherwise", None), getattr(node, "body", None)):
            if isinstance(part, syntax.Statement):
                _declare_and_bind((part,), context)


def _check_call(node: syntax.Execute | syntax.ExecuteText, scope: Scope) -> None:
    """The variables of an EXEC must be declared; 137."""
    exprs = [arg.expr for arg in node.args] if isinstance(node, syntax.Execute) else [node.text]
    if isinstance(node, syntax.Execute) and node.result is not None:
        scope.variable(node.result)
    for expr in exprs:
        if expr is not None:
            bind(expr, scope)


def compile_statement(node: syntax.Statement, context: Context) -> Compiled:
    session = context.session
    known = context.plan.compiled.get(id(node))
    if known is not None and known.place == _place(session):
        return known
    while True:
        place, binder = _place(session), Binder(session, context)
        run = COMPILERS[type(node)](node, Scope(binder))
        if place == _place(session):  # else, while it waited for one table, another one may have changed
            break
    starts = type(node) in STARTS_TRANSACTION or (isinstance(node, syntax.SelectStatement) and binder.reads_tables)
    compiled = Compiled(run, binder.slots, binder.rights, starts, place)
    if binder.cacheable:
        context.plan.compiled[id(node)] = compiled
    return compiled
