"""System procedures, however they are called: by EXEC or by a remote procedure call.

A table of names to functions; each takes a Call and gives the return status. Knows nothing of the wire.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from . import applocks, batch, driverinfo, security, syntax
from .compiling import plan_for
from .conversion import convert
from .errortexts import sql_error
from .expressions import bind
from .families import UNICODE_TYPES
from .parser import parse_declarations
from .scopes import Binder, Frame, Scope, describe
from .sqltypes import (
    INT,
    MAX,
    PROC_IDS,
    RpcParameter,
    Sink,
    SqlError,
    SqlType,
    Value,
    nvarchar,
    unsupported,
)  # fmt: skip

if TYPE_CHECKING:
    from .contexts import Context
    from .session import Session

SYSNAME = nvarchar(128)


@dataclass(slots=True)
class Arg:
    name: str  # lower case with its @; '' when positional
    type: SqlType
    value: Value
    output: bool = False
    give: Callable[[SqlType, Value], None] | None = None  # where an output value goes


@dataclass(slots=True)
class Call:
    """One call of a procedure. names: its parameters in order, as far as the procedure declares them."""

    session: Session
    sink: Sink
    procedure: str
    args: list[Arg]
    taken: dict[str, Arg] = field(default_factory=dict)
    mismatch: SqlError | None = None  # error 266, due after the status and the output values

    def bind(self, *names: str) -> list[Arg]:
        """Gives the arguments these names, by name or by place; returns those that are left."""
        rest = []
        for at, arg in enumerate(self.args):
            name = arg.name if arg.name in names else names[at] if not arg.name and at < len(names) else ""
            if name:
                self.taken[name] = arg
            else:
                rest.append(arg)
        return rest

    def only(self, *names: str) -> None:
        if rest := self.bind(*names):
            name = rest[0].name
            if name:
                raise sql_error(8145, name, self.procedure)
            raise sql_error(8144, self.procedure)

    def text(self, name: str, default: str | None = None) -> str | None:
        arg = self.taken.get(name)
        if arg is None:
            return default
        value = convert(arg.value, arg.type, nvarchar(MAX))
        return None if value is None else str(value)

    def needed(self, name: str) -> str:
        if name not in self.taken:
            raise sql_error(201, self.procedure, name)
        return self.text(name) or ""

    def number(self, name: str, default: int | None = None) -> int | None:
        arg = self.taken.get(name)
        if arg is None:
            return default
        value = convert(arg.value, arg.type, INT)
        return value if isinstance(value, int) else None


# --- calling -------------------------------------------------------------------------------------------


def _find(name: syntax.ObjectName) -> tuple[str, Callable[[Call], int]]:
    key = name.name.lower()
    function = _PROCEDURES.get(key) if (name.schema or "sys").lower() in ("sys", "dbo") else None
    if function is None:
        if key.startswith(("sp_", "xp_")):
            raise unsupported(name.name)
        raise sql_error(2812, describe(name))
    return key, function


def call(node: syntax.Execute, context: Context) -> None:
    """EXEC [@rc =] procedure ..."""
    session = context.session
    name, function = _find(node.procedure)
    binder = Binder(session, context)
    scope = Scope(binder)
    args = []
    for item in node.args:
        if item.expr is None:
            continue  # DEFAULT
        bound = bind(item.expr, scope)
        give = _giver(item.expr, context) if item.output else None
        value = bound.evaluate(Frame(context, binder.slots))
        args.append(Arg((item.name or "").lower(), bound.type, value, item.output, give))
    made = Call(session, context.sink, name, args)
    try:
        status = function(made)
    except SqlError as error:
        if (failed := _FAILED.get(error.number)) is not None and node.result is not None:
            _giver(syntax.Variable(node.result), context)(INT, failed)
        raise
    if node.result is not None:
        _giver(syntax.Variable(node.result), context)(INT, status)
    if made.mismatch is not None:
        raise made.mismatch


def _giver(expr: syntax.Expr, context: Context) -> Callable[[SqlType, Value], None]:
    assert isinstance(expr, syntax.Variable)
    key = expr.name.lower()

    def give(type: SqlType, value: Value) -> None:
        target = context.types[key]
        assert isinstance(target, SqlType)
        context.variables[key] = convert(value, type, target)

    return give


_FAILED = dict.fromkeys((1202, 1223, 1224, 1230), applocks.INVALID)
"""What a procedure returns beside an error."""


def call_remote(session: Session, procedure: str | int, parameters: Sequence[RpcParameter], sink: Sink) -> None:
    """A remote procedure call; numbers are those of MS-TDS."""
    if isinstance(procedure, int):
        if procedure not in PROC_IDS:
            raise unsupported(f"procedure {procedure}")
        procedure = PROC_IDS[procedure]
    parts = [part.strip("[]") for part in procedure.split(".")]
    name, function = _find(syntax.ObjectName(parts[-1], parts[-2] or None if len(parts) > 1 else None))
    args = [Arg(p.name.lower(), p.type, p.value, p.output) for p in parameters]
    returned: list[tuple[str, SqlType, Value]] = []

    def giver(name: str) -> Callable[[SqlType, Value], None]:
        return lambda type, value: returned.append((name, type, value))

    for arg, parameter in zip(args, parameters, strict=True):
        if parameter.output:
            arg.give = giver(parameter.name)
    made = Call(session, sink, name, args)
    status = function(made)
    if made.mismatch is not None:
        session.report(made.mismatch, sink)
    sink.return_status(status)
    for item in returned:
        sink.return_value(*item)


# --- texts with parameters -------------------------------------------------------------------------------


def _run(call: Call, text: str, declarations: str, args: Sequence[Arg]) -> int:
    """Runs a parameterised text and hands back its output parameters."""
    declared = parse_declarations(declarations)
    chosen: dict[str, Arg] = {}
    for at, arg in enumerate(args):
        if not arg.name and at >= len(declared):
            raise sql_error(8144, "")
        name = arg.name or declared[at].name.lower()
        if all(name != parameter.name.lower() for parameter in declared):
            raise sql_error(8145, name, "")
        chosen[name] = arg
    values: dict[str, Value] = {}
    for parameter in declared:
        key = parameter.name.lower()
        if (given := chosen.get(key)) is not None:
            values[key] = convert(given.value, given.type, parameter.type)
        elif parameter.default is not None:
            raise unsupported("a default in a parameter declaration")
        else:
            raise sql_error(8178, declarations, text[:60], parameter.name)
    inner = batch.run_text(call.session, text, call.sink, declarations, values)
    for parameter in declared:
        key = parameter.name.lower()
        if (given := chosen.get(key)) is not None and given.output and given.give is not None and parameter.output:
            given.give(parameter.type, inner.variables[key])
    call.mismatch = inner.mismatch
    return inner.status or call.session.error


def _execute_sql(call: Call) -> int:
    rest = call.bind("@stmt", "@params") if not _named(call.args) else _loose(call)
    for name, shown, state in (("@stmt", "@statement", 2), ("@params", "@params", 3)):
        arg = call.taken.get(name)
        # NULL is the default of @params
        if arg and arg.type.name not in UNICODE_TYPES and (name == "@stmt" or arg.value is not None):
            error = sql_error(214, shown, "ntext/nchar/nvarchar")
            error.state = state
            raise error
    return _run(call, call.needed("@stmt"), call.text("@params") or "", rest)


def _named(args: Sequence[Arg]) -> bool:
    return bool(args) and bool(args[0].name)


def _loose(call: Call) -> list[Arg]:
    """@stmt and @params by name, or under other names as drivers send them: the first two are meant."""
    names = [arg.name for arg in call.args]
    if "@stmt" in names:
        return call.bind("@stmt", "@params")
    call.taken["@stmt"] = call.args[0]
    if len(call.args) > 1:
        call.taken["@params"] = call.args[1]
    return call.args[2:]


def _placed(call: Call, at: int, name: str) -> Arg:
    """An argument that counts by its place; 201 where it is missing."""
    if at >= len(call.args):
        raise sql_error(201, call.procedure, name)
    return call.args[at]


def _prepare(call: Call) -> int:
    handle, declarations = _placed(call, 0, "@handle"), _placed(call, 1, "@params")
    text = _placed(call, 2, "@stmt")
    prepared = call.session.prepared
    key = call.session.next_handle()
    prepared[key] = (str(text.value or ""), str(declarations.value or ""))
    plan_for(call.session, *prepared[key])
    if handle.give is not None:
        handle.give(INT, key)
    return 0


def _execute_prepared(call: Call) -> int:
    return _run(call, *_by_handle(call), call.args[1:])


def _by_handle(call: Call) -> tuple[str, str]:
    handle = _placed(call, 0, "@handle").value
    if not isinstance(handle, int) or handle not in call.session.prepared:
        raise sql_error(8179, handle)
    return call.session.prepared[handle]


def _prepare_and_execute(call: Call) -> int:
    """The old handle, where one is given, is dropped."""
    old = _placed(call, 0, "@handle").value
    if isinstance(old, int):
        call.session.prepared.pop(old, None)
    _prepare(call)
    text, declarations = str(call.args[2].value or ""), str(call.args[1].value or "")
    return _run(call, text, declarations, call.args[3:])


def _unprepare(call: Call) -> int:
    _by_handle(call)
    del call.session.prepared[call.args[0].value]  # type: ignore[arg-type]
    return 0


# --- application locks, extended properties ----------------------------------------------------------------


def _get_lock(call: Call) -> int:
    call.only("@resource", "@lockmode", "@lockowner", "@locktimeout", "@dbprincipal")
    owner = call.text("@lockowner", "Transaction") or "Transaction"
    timeout = call.number("@locktimeout", call.session.options.lock_timeout)
    mode = call.needed("@lockmode")
    call.needed("@resource")
    return applocks.acquire(
        call.session, call.text("@resource"), mode, owner, timeout, call.text("@dbprincipal", "public")
    )


def _release_lock(call: Call) -> int:
    call.only("@resource", "@lockowner", "@dbprincipal")
    owner = call.text("@lockowner", "Transaction") or "Transaction"
    call.needed("@resource")
    return applocks.release(call.session, call.text("@resource"), owner, call.text("@dbprincipal", "public"))


_LEVELS = ("@level0type", "@level0name", "@level1type", "@level1name", "@level2type", "@level2name")


def _property(action: str) -> Callable[[Call], int]:
    def change(call: Call) -> int:
        call.only(*(("@name", "@value") if action != "drop" else ("@name",)), *_LEVELS)
        session, name = call.session, call.needed("@name")
        kinds = tuple((call.text(f"@level{n}type") or "").upper() for n in range(3))
        if kinds != ("SCHEMA", "TABLE", ""):
            raise unsupported("an extended property of anything but a table")
        schema, table_name = call.text("@level0name") or "", call.text("@level1name") or ""
        table = session.database.table(schema, table_name)
        if table is None or not security.has(session, "ALTER", table):
            shown = f"{schema}.{table_name}"
            raise sql_error(15135, shown)
        if not table.database.writable:
            raise sql_error(3906, table.database.name)
        there = next((key for key in table.properties if key.lower() == name.lower()), None)
        if action == "add" and there is not None:
            raise sql_error(15233, name, schema, table_name)
        if action != "add" and there is None:
            raise sql_error(15217, name, schema, table_name)
        before, after = table.properties, dict(table.properties)
        if action == "drop":
            del after[there or name]
        else:
            after[there or name] = call.taken["@value"].value if "@value" in call.taken else None
        table.properties = after
        tx = session.current()

        def undo() -> None:
            table.properties = before

        tx.ddl(table.database, undo, lambda replica: setattr(replica.by_id(table.id), "properties", after))
        session.end_statement()
        return 0

    return change


_PROCEDURES: dict[str, Callable[[Call], int]] = {
    "sp_executesql": _execute_sql,
    "sp_prepare": _prepare,
    "sp_execute": _execute_prepared,
    "sp_prepexec": _prepare_and_execute,
    "sp_unprepare": _unprepare,
    "sp_getapplock": _get_lock,
    "sp_releaseapplock": _release_lock,
    "sp_addextendedproperty": _property("add"),
    "sp_updateextendedproperty": _property("update"),
    "sp_dropextendedproperty": _property("drop"),
    "sp_datatype_info_100": driverinfo.datatype_info,
    "sp_describe_undeclared_parameters": driverinfo.describe_undeclared,
}
