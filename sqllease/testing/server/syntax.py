"""The syntax tree of the supported T-SQL: plain frozen data, nothing else.

Knows what a statement looks like once parsed. Knows neither how it was written nor what it does.
Every node that a client can write carries what the client wrote and no more; names keep their spelling.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from typing import Literal as OneOf

from .sqltypes import SqlType

# --- names ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ObjectName:
    """``[database.][schema.]name``; parts not written are None. Temp tables keep their ``#``."""

    name: str
    schema: str | None = None
    database: str | None = None


# --- expressions ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Expr:
    """Any expression; a predicate is an expression too (three-valued)."""


@dataclass(frozen=True, slots=True)
class Literal(Expr):
    """A constant with its T-SQL type (``1`` int, ``1.5`` decimal(2,1), ``N'a'`` nvarchar(1), ``0xFF`` varbinary(1))."""

    value: int | Decimal | float | str | bytes | None
    type: SqlType


@dataclass(frozen=True, slots=True)
class Variable(Expr):
    name: str  # with its @, as written; variables compare without case


@dataclass(frozen=True, slots=True)
class GlobalVariable(Expr):
    name: str  # lower case, with its @@


@dataclass(frozen=True, slots=True)
class Column(Expr):
    """``[qualifier.]name``; ``$action`` is a Column of that name; qualifier may be inserted or deleted."""

    name: str
    qualifier: ObjectName | None = None


@dataclass(frozen=True, slots=True)
class Star(Expr):
    qualifier: str | None = None


@dataclass(frozen=True, slots=True)
class Unary(Expr):
    op: OneOf["-", "+", "~"]
    operand: Expr


@dataclass(frozen=True, slots=True)
class Binary(Expr):
    op: OneOf["+", "-", "*", "/", "%", "&", "|", "^"]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Compare(Expr):
    op: OneOf["=", "<>", "<", "<=", ">", ">="]
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class And(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Or(Expr):
    items: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Not(Expr):
    operand: Expr


@dataclass(frozen=True, slots=True)
class IsNull(Expr):
    operand: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Like(Expr):
    operand: Expr
    pattern: Expr
    escape: Expr | None = None
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Between(Expr):
    operand: Expr
    low: Expr
    high: Expr
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InList(Expr):
    operand: Expr
    items: tuple[Expr, ...]
    negated: bool = False


@dataclass(frozen=True, slots=True)
class InQuery(Expr):
    operand: Expr
    query: Query
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Exists(Expr):
    query: Query


@dataclass(frozen=True, slots=True)
class ScalarQuery(Expr):
    query: Query


@dataclass(frozen=True, slots=True)
class Case(Expr):
    operand: Expr | None
    whens: tuple[tuple[Expr, Expr], ...]
    otherwise: Expr | None = None


@dataclass(frozen=True, slots=True)
class Cast(Expr):
    """CAST, TRY_CAST, CONVERT and TRY_CONVERT."""

    operand: Expr
    type: SqlType
    style: Expr | None = None
    tolerant: bool = False  # TRY_


@dataclass(frozen=True, slots=True)
class Function(Expr):
    """A call ``name(args)``; ``COUNT(*)`` has one Star. Date parts (``second``) arrive as Column(name='second')."""

    name: str  # upper case, e.g. DATEADD, COUNT
    args: tuple[Expr, ...] = ()
    distinct: bool = False


@dataclass(frozen=True, slots=True)
class Collate(Expr):
    operand: Expr
    collation: str


# --- table sources -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Source:
    """Anything that can stand in FROM."""


@dataclass(frozen=True, slots=True)
class TableRef(Source):
    """A table, view of the catalogue, CTE name, ``inserted``/``deleted``, or table variable (name begins with @)."""

    name: ObjectName
    alias: str | None = None
    hints: tuple[str, ...] = ()  # upper case, e.g. UPDLOCK, INDEX(PK_X), FORCESEEK


@dataclass(frozen=True, slots=True)
class DerivedTable(Source):
    query: Query
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ValuesTable(Source):
    rows: tuple[tuple[Expr, ...], ...]
    alias: str
    columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Join(Source):
    kind: OneOf["inner", "left", "right", "full", "cross", "cross apply", "outer apply"]
    left: Source
    right: Source
    on: Expr | None = None


# --- queries -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Top:
    count: Expr
    percent: bool = False
    with_ties: bool = False


@dataclass(frozen=True, slots=True)
class SelectItem:
    expr: Expr
    alias: str | None = None


@dataclass(frozen=True, slots=True)
class SelectAssign:
    """``SELECT @v = expr``; op as in ``=``, ``+=``."""

    variable: str
    op: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class OrderItem:
    expr: Expr
    descending: bool = False


@dataclass(frozen=True, slots=True)
class Query:
    """A select or a set operation."""


@dataclass(frozen=True, slots=True)
class Select(Query):
    items: tuple[SelectItem | SelectAssign, ...]
    source: Source | None = None
    where: Expr | None = None
    group_by: tuple[Expr, ...] = ()
    having: Expr | None = None
    order_by: tuple[OrderItem, ...] = ()
    distinct: bool = False
    top: Top | None = None
    offset: Expr | None = None
    fetch: Expr | None = None


@dataclass(frozen=True, slots=True)
class SetOperation(Query):
    op: OneOf["union", "union all", "except", "intersect"]
    left: Query
    right: Query
    order_by: tuple[OrderItem, ...] = ()


@dataclass(frozen=True, slots=True)
class CommonTable:
    name: str
    query: Query
    columns: tuple[str, ...] = ()


# --- statements ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Statement:
    """Any statement; line is that of its first word in the batch, from 1."""

    line: int = field(kw_only=True, default=1)


@dataclass(frozen=True, slots=True)
class SelectStatement(Statement):
    query: Query
    ctes: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class OutputClause:
    items: tuple[SelectItem, ...]
    into: ObjectName | None = None  # table, or @table variable
    into_columns: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Insert(Statement):
    target: ObjectName
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[Expr | None, ...], ...] = ()  # VALUES; None stands for DEFAULT
    query: Query | None = None
    default_values: bool = False
    output: OutputClause | None = None
    hints: tuple[str, ...] = ()
    ctes: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Assignment:
    """One item of SET in an UPDATE: ``col = e``, ``@v = e``, ``@v = col = e``; op as in ``=``, ``+=``."""

    column: str | None
    expr: Expr | None  # None stands for DEFAULT
    variable: str | None = None
    op: str = "="


@dataclass(frozen=True, slots=True)
class Update(Statement):
    """target is a table or an alias that ``source`` defines."""

    target: ObjectName
    assignments: tuple[Assignment, ...]
    source: Source | None = None
    where: Expr | None = None
    output: OutputClause | None = None
    top: Top | None = None
    hints: tuple[str, ...] = ()
    ctes: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Delete(Statement):
    target: ObjectName
    source: Source | None = None
    where: Expr | None = None
    output: OutputClause | None = None
    top: Top | None = None
    hints: tuple[str, ...] = ()
    ctes: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class MergeWhen:
    kind: OneOf["matched", "not matched", "not matched by source"]
    condition: Expr | None
    action: OneOf["update", "delete", "insert"]
    assignments: tuple[Assignment, ...] = ()
    columns: tuple[str, ...] = ()
    values: tuple[Expr | None, ...] = ()


@dataclass(frozen=True, slots=True)
class Merge(Statement):
    target: TableRef
    source: Source
    on: Expr
    whens: tuple[MergeWhen, ...]
    output: OutputClause | None = None
    top: Top | None = None
    ctes: tuple[CommonTable, ...] = ()


@dataclass(frozen=True, slots=True)
class Truncate(Statement):
    target: ObjectName


# variables and control of flow


@dataclass(frozen=True, slots=True)
class DeclareVariable:
    name: str
    type: SqlType
    init: Expr | None = None


@dataclass(frozen=True, slots=True)
class ParameterDef:
    """One parameter in the declaration that sp_executesql and its kin receive as text."""

    name: str
    type: SqlType
    default: Expr | None = None
    output: bool = False


@dataclass(frozen=True, slots=True)
class DeclareTable:
    name: str
    columns: tuple[ColumnDef, ...]
    constraints: tuple[TableConstraint, ...] = ()


@dataclass(frozen=True, slots=True)
class Declare(Statement):
    items: tuple[DeclareVariable | DeclareTable, ...]


@dataclass(frozen=True, slots=True)
class SetVariable(Statement):
    name: str
    op: str
    expr: Expr


@dataclass(frozen=True, slots=True)
class SetOption(Statement):
    """``SET name value``: name upper case; value 'ON', 'OFF', an isolation level in upper case, or an Expr."""

    name: str  # NOCOUNT, LOCK_TIMEOUT, ROWCOUNT, 'TRANSACTION ISOLATION LEVEL', 'IDENTITY_INSERT', ...
    value: str | Expr
    table: ObjectName | None = None  # of IDENTITY_INSERT


@dataclass(frozen=True, slots=True)
class Block(Statement):
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class If(Statement):
    condition: Expr
    then: Statement
    otherwise: Statement | None = None


@dataclass(frozen=True, slots=True)
class While(Statement):
    condition: Expr
    body: Statement


@dataclass(frozen=True, slots=True)
class Break(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Continue(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Return(Statement):
    value: Expr | None = None


@dataclass(frozen=True, slots=True)
class TryCatch(Statement):
    body: tuple[Statement, ...]
    handler: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Throw(Statement):
    """Bare THROW has all three None."""

    number: Expr | None = None
    message: Expr | None = None
    state: Expr | None = None


@dataclass(frozen=True, slots=True)
class RaiseError(Statement):
    args: tuple[Expr, ...]
    options: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Print(Statement):
    expr: Expr


@dataclass(frozen=True, slots=True)
class WaitFor(Statement):
    delay: Expr  # WAITFOR DELAY 'hh:mm:ss.mmm'


@dataclass(frozen=True, slots=True)
class Use(Statement):
    database: str


# transactions


@dataclass(frozen=True, slots=True)
class BeginTransaction(Statement):
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Commit(Statement):
    pass


@dataclass(frozen=True, slots=True)
class Rollback(Statement):
    """The name is a savepoint's or the transaction's. Here, in BEGIN and SAVE it may be a variable, with its @."""

    name: str | None = None


@dataclass(frozen=True, slots=True)
class SaveTransaction(Statement):
    name: str


# procedures


@dataclass(frozen=True, slots=True)
class Argument:
    name: str | None
    expr: Expr | None  # None stands for DEFAULT
    output: bool = False


@dataclass(frozen=True, slots=True)
class Execute(Statement):
    """``EXEC [@rc =] procedure args``."""

    procedure: ObjectName
    args: tuple[Argument, ...] = ()
    result: str | None = None


@dataclass(frozen=True, slots=True)
class ExecuteText(Statement):
    """``EXEC (N'...')``."""

    text: Expr


# definition of data


@dataclass(frozen=True, slots=True)
class ColumnDef:
    name: str
    type: SqlType
    nullable: bool | None = None  # None: not written
    collation: str | None = None
    identity: tuple[int, int] | None = None
    default: Expr | None = None
    default_name: str | None = None
    constraints: tuple[TableConstraint, ...] = ()  # written behind the column: PRIMARY KEY, UNIQUE, CHECK
    with_values: bool = False  # ALTER TABLE ADD: present rows get the default too


@dataclass(frozen=True, slots=True)
class TableConstraint:
    kind: OneOf["primary key", "unique", "check"]
    name: str | None = None
    columns: tuple[str, ...] = ()
    clustered: bool | None = None  # None: not written
    check: Expr | None = None


@dataclass(frozen=True, slots=True)
class IndexDef:
    name: str
    columns: tuple[str, ...]
    unique: bool = False
    clustered: bool = False
    include: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CreateTable(Statement):
    name: ObjectName
    columns: tuple[ColumnDef, ...]
    constraints: tuple[TableConstraint, ...] = ()
    indexes: tuple[IndexDef, ...] = ()


@dataclass(frozen=True, slots=True)
class AlterTable(Statement):
    """One of: add columns/constraints, drop constraint, drop column, set option, enable or disable triggers."""

    name: ObjectName
    add_columns: tuple[ColumnDef, ...] = ()
    add_constraints: tuple[TableConstraint, ...] = ()
    drop_constraint: str | None = None
    drop_column: str | None = None
    options: tuple[tuple[str, str], ...] = ()  # e.g. ('LOCK_ESCALATION', 'DISABLE')


@dataclass(frozen=True, slots=True)
class CreateIndex(Statement):
    table: ObjectName
    index: IndexDef


@dataclass(frozen=True, slots=True)
class CreateSchema(Statement):
    name: str
    owner: str | None = None


@dataclass(frozen=True, slots=True)
class CreateTrigger(Statement):
    name: ObjectName
    table: ObjectName
    instead_of: bool
    events: tuple[OneOf["insert", "update", "delete"], ...]
    body: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class Drop(Statement):
    kind: OneOf["table", "schema", "index", "trigger", "role", "user", "login"]
    name: ObjectName
    if_exists: bool = False
    table: ObjectName | None = None  # of an index


@dataclass(frozen=True, slots=True)
class AlterDatabase(Statement):
    """``ALTER DATABASE name|CURRENT SET option value``; name None is CURRENT. Both in upper case."""

    database: str | None
    option: str  # READ_COMMITTED_SNAPSHOT, ALLOW_SNAPSHOT_ISOLATION, READ_ONLY, READ_WRITE, DELAYED_DURABILITY
    value: str | None = None
    termination: str | None = None  # behind WITH, upper case: NO_WAIT, ROLLBACK IMMEDIATE


# principals and rights


@dataclass(frozen=True, slots=True)
class CreatePrincipal(Statement):
    kind: OneOf["login", "user", "role"]
    name: str
    password: str | None = None  # of a login
    # Of a user: where FOR LOGIN is not written, the login of its own name; None: WITHOUT LOGIN.
    login: str | None = None


@dataclass(frozen=True, slots=True)
class AlterRole(Statement):
    role: str
    member: str
    add: bool = True


@dataclass(frozen=True, slots=True)
class Permission(Statement):
    """GRANT, DENY or REVOKE; securable None is the database."""

    verb: OneOf["grant", "deny", "revoke"]
    permissions: tuple[str, ...]  # upper case, e.g. SELECT, CREATE TABLE
    securable_kind: OneOf["object", "schema", "database"]
    securable: ObjectName | None
    principals: tuple[str, ...]
