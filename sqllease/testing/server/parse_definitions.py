"""CREATE, ALTER and DROP, databases, principals and rights. Knows the form of definitions; of queries only expressions.

CREATE TRIGGER is not here: its body is made of statements. Options that only say how rows are stored are dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from . import syntax as s
from .lexer import words
from .parse_expressions import condition, expression
from .parse_reader import Reader
from .parse_types import data_type

_STORAGE_OPTIONS = words(
    """PAD_INDEX FILLFACTOR STATISTICS_NORECOMPUTE SORT_IN_TEMPDB ONLINE MAXDOP DATA_COMPRESSION ALLOW_PAGE_LOCKS
    OPTIMIZE_FOR_SEQUENTIAL_KEY ALLOW_ROW_LOCKS=ON IGNORE_DUP_KEY=OFF DROP_EXISTING=OFF"""
)
_DROPPED = ("TABLE", "SCHEMA", "INDEX", "TRIGGER", "ROLE", "USER", "LOGIN")
_DATABASE_OPTIONS = {
    "READ_COMMITTED_SNAPSHOT": ("ON", "OFF"),
    "ALLOW_SNAPSHOT_ISOLATION": ("ON", "OFF"),
    "DELAYED_DURABILITY": ("DISABLED", "ALLOWED", "FORCED"),
    "READ_ONLY": (),
    "READ_WRITE": (),
}


# --- tables ---


@dataclass(slots=True)
class TableBody:
    """What stands between the parentheses of CREATE TABLE."""

    columns: list[s.ColumnDef] = field(default_factory=list)
    constraints: list[s.TableConstraint] = field(default_factory=list)
    indexes: list[s.IndexDef] = field(default_factory=list)


def table_body(r: Reader) -> TableBody:
    body = TableBody()
    r.list_in(lambda r: _table_element(r, body))
    return body


def _table_element(r: Reader, body: TableBody) -> None:
    r.refuse_at("PERIOD FOR SYSTEM_TIME")
    constraint = _constraint(r, ())
    if constraint:
        body.constraints.append(constraint)
    elif r.accept("INDEX"):
        body.indexes.append(_inline_index(r, ()))
    elif r.at("CONSTRAINT"):
        raise r.refuse("DEFAULT .. FOR")
    else:
        body.columns.append(_column(r, body))


def _constraint(r: Reader, column: tuple[str, ...]) -> s.TableConstraint | None:
    """A constraint with its name; column: the one that it stands behind, () in the table's own list."""
    start = r.position
    name = r.after("CONSTRAINT", Reader.name)
    r.refuse_at("FOREIGN KEY", "REFERENCES", "CHECK NOT FOR REPLICATION")
    if r.accept("CHECK"):
        return s.TableConstraint("check", name, column, check=r.parenthesised(condition))
    word = r.accept_one("PRIMARY", "UNIQUE")
    if word is None:
        r.position = start  # CONSTRAINT name DEFAULT .. belongs to the column
        return None
    if word == "PRIMARY":
        r.expect("KEY")
    clustered = _clustered(r)
    columns = column or r.list_in(_key_column)
    _storage(r)
    return s.TableConstraint("unique" if word == "UNIQUE" else "primary key", name, columns, clustered)


def _clustered(r: Reader) -> bool | None:
    word = r.accept_one("CLUSTERED", "NONCLUSTERED")
    r.refuse_at("COLUMNSTORE", "HASH")
    return word == "CLUSTERED" if word else None


def _key_column(r: Reader) -> str:
    name = r.name()
    r.accept("ASC")
    r.refuse_at("DESC")
    return name


def _storage(r: Reader) -> None:
    """``WITH (..)`` and ``ON [PRIMARY]`` behind tables, indexes and constraints."""
    if r.at("WITH", "(") and r.accept("WITH"):
        r.list_in(_storage_option)
    while r.accept_one("ON", "TEXTIMAGE_ON"):
        if r.name().upper() != "PRIMARY":
            raise r.refuse("ON filegroup")


def _storage_option(r: Reader) -> None:
    option = r.take().key
    r.expect("=")
    value = r.take()
    if not _STORAGE_OPTIONS & {option, f"{option}={value.key}"}:
        raise r.refuse(f"{option} = {value.text}")


def _column(r: Reader, body: TableBody) -> s.ColumnDef:
    name = r.name()
    if r.at("AS"):
        raise r.refuse("computed column")
    column = s.ColumnDef(name, data_type(r))
    while True:
        constraint = _constraint(r, (name,))
        if constraint:
            column = replace(column, constraints=(*column.constraints, constraint))
        elif r.accept("INDEX"):
            body.indexes.append(_inline_index(r, (name,)))
        elif changes := _column_option(r):
            column = replace(column, **changes)
        else:
            return column


def _column_option(r: Reader) -> dict[str, Any]:
    r.refuse_at("SPARSE", "ROWGUIDCOL", "MASKED", "ENCRYPTED", "FILESTREAM", "GENERATED", "NOT FOR REPLICATION")
    if r.accept("NULL"):
        return {"nullable": True}
    if r.accept("NOT", "NULL"):
        return {"nullable": False}
    if r.accept("COLLATE"):
        return {"collation": r.name()}
    if r.accept("IDENTITY"):
        seed_and_step = r.list_in(Reader.whole) if r.at("(") else (1, 1)
        if len(seed_and_step) != 2:
            raise r.wrong()
        return {"identity": seed_and_step}
    name = r.after("CONSTRAINT", Reader.name)
    if r.accept("DEFAULT"):
        return {"default": expression(r), "default_name": name, "with_values": r.accept("WITH", "VALUES")}
    if name is not None:
        raise r.wrong()
    return {}


def _inline_index(r: Reader, columns: tuple[str, ...]) -> s.IndexDef:
    name, unique = r.name(), r.accept("UNIQUE")
    return _index(r, name, unique, bool(_clustered(r)), columns)


def _index(r: Reader, name: str, unique: bool, clustered: bool, columns: tuple[str, ...] = ()) -> s.IndexDef:
    columns = columns or r.list_in(_key_column)
    include = r.names() if r.accept("INCLUDE") else ()
    if r.at("WHERE"):
        raise r.refuse("filtered index")
    _storage(r)
    return s.IndexDef(name, columns, unique, clustered, include)


# --- CREATE, ALTER, DROP: the word itself is read ---


def create(r: Reader, line: int) -> s.Statement:
    """Anything but CREATE SCHEMA and CREATE TRIGGER, which depend on the place in the batch."""
    if r.accept("TABLE"):
        name, body = r.object_name(), table_body(r)
        _storage(r)
        return s.CreateTable(name, tuple(body.columns), tuple(body.constraints), tuple(body.indexes), line=line)
    if r.at_one("UNIQUE", "CLUSTERED", "NONCLUSTERED", "INDEX"):
        unique, clustered = r.accept("UNIQUE"), bool(_clustered(r))
        r.expect("INDEX")
        index = r.name()
        r.expect("ON")
        return s.CreateIndex(r.object_name(), _index(r, index, unique, clustered), line=line)
    if r.accept("ROLE"):
        return s.CreatePrincipal("role", _owned_by_dbo(r, r.name(), "AUTHORIZATION"), line=line)
    if r.accept("LOGIN"):
        return _create_login(r, line)
    if r.accept("USER"):
        user = r.name()
        login: str | None = None if r.accept("WITHOUT", "LOGIN") else user
        if r.accept_one("FOR", "FROM"):
            r.expect("LOGIN")
            login = r.name()
        return s.CreatePrincipal("user", _owned_by_dbo(r, user, "WITH", "DEFAULT_SCHEMA", "="), login=login, line=line)
    raise r.refuse(f"CREATE {r.token.text.upper()}")


def create_schema(r: Reader, line: int) -> s.Statement:
    r.refuse_at("AUTHORIZATION")
    name, owner = r.name(), r.after("AUTHORIZATION", Reader.name)
    if not r.at(";") and not r.finished:
        raise r.refuse("CREATE SCHEMA with elements")
    return s.CreateSchema(name, owner, line=line)


def _owned_by_dbo(r: Reader, name: str, *clause: str) -> str:
    if r.accept(*clause) and r.name().lower() != "dbo":
        raise r.refuse(" ".join(clause))
    return name


def _create_login(r: Reader, line: int) -> s.Statement:
    name = r.name()
    r.refuse_at("FROM")
    r.expect("WITH", "PASSWORD", "=")
    if not r.at_string():
        raise r.wrong()
    password = r.take().text
    while r.accept(","):
        if not (r.accept("CHECK_POLICY", "=", "OFF") or r.accept("CHECK_EXPIRATION", "=", "OFF")):
            raise r.refuse()
    return s.CreatePrincipal("login", name, password, line=line)


def alter(r: Reader, line: int) -> s.Statement:
    if r.accept("TABLE"):
        return _alter_table(r, s.AlterTable(r.object_name(), line=line))
    if r.accept("DATABASE"):
        return _alter_database(r, line)
    if r.accept("ROLE"):
        role = r.name()
        r.refuse_at("WITH")
        verb = r.one_of("ADD", "DROP")
        r.expect("MEMBER")
        return s.AlterRole(role, r.name(), verb == "ADD", line=line)
    raise r.refuse(f"ALTER {r.token.text.upper()}")


def _alter_table(r: Reader, node: s.AlterTable) -> s.Statement:
    if r.accept("WITH", "CHECK", "ADD") or r.accept("ADD"):  # WITH CHECK is the default
        body = TableBody()
        r.list_of(lambda r: _table_element(r, body))
        if body.indexes:
            raise r.refuse("ALTER TABLE ADD INDEX")
        return replace(node, add_columns=tuple(body.columns), add_constraints=tuple(body.constraints))
    if r.accept("DROP"):
        kind = "drop_column" if r.accept("COLUMN") else "drop_constraint"
        if kind == "drop_constraint":
            r.accept("CONSTRAINT")
        r.refuse_at("IF EXISTS")
        changes: dict[str, Any] = {kind: r.name()}
        r.refuse_at(",", "WITH (")
        return replace(node, **changes)
    if r.accept("SET", "(", "LOCK_ESCALATION", "="):
        level = r.one_of("AUTO", "TABLE", "DISABLE")
        r.expect(")")
        return replace(node, options=(("LOCK_ESCALATION", level),))
    verb = r.accept_one("ENABLE", "DISABLE")
    if verb and r.accept("TRIGGER"):
        trigger = "ALL" if r.accept("ALL") else r.name()
        r.refuse_at(",")
        return replace(node, options=((f"{verb} TRIGGER", trigger),))
    raise r.refuse(f"ALTER TABLE {r.token.text.upper()}")


def _alter_database(r: Reader, line: int) -> s.Statement:
    r.refuse_at("SCOPED")
    name = None if r.accept("CURRENT") else r.name()
    if not r.accept("SET") or r.key not in _DATABASE_OPTIONS:
        raise r.refuse(f"ALTER DATABASE {r.token.text.upper()}")
    option = r.take().key
    if option == "DELAYED_DURABILITY":
        r.expect("=")
    values = _DATABASE_OPTIONS[option]
    value, termination = r.one_of(*values) if values else None, None
    if r.accept("WITH"):
        r.refuse_at("ROLLBACK AFTER")
        termination = "NO_WAIT" if r.accept("NO_WAIT") else "ROLLBACK IMMEDIATE"
        if termination != "NO_WAIT":
            r.expect("ROLLBACK", "IMMEDIATE")
    r.refuse_at(",")
    return s.AlterDatabase(name, option, value, termination, line=line)


def drop(r: Reader, line: int) -> s.Statement:
    if not r.at_one(*_DROPPED):
        raise r.refuse(f"DROP {r.token.text.upper()}")
    kind = r.take().key.lower()
    if_exists = r.accept("IF", "EXISTS")
    items = r.list_of(lambda r: _dropped(r, kind, if_exists, line))
    r.refuse_at("WITH (", "ON")
    return items[0] if len(items) == 1 else s.Block(items, line=line)


def _dropped(r: Reader, kind: Any, if_exists: bool, line: int) -> s.Drop:
    name, table = r.object_name(), None
    if kind == "index":
        if name.schema is not None:
            raise r.refuse("DROP INDEX table.index")
        r.expect("ON")
        table = r.object_name()
    return s.Drop(kind, name, if_exists, table, line=line)


# --- rights ---


def permission(r: Reader, verb: Any, line: int) -> s.Statement:
    r.refuse_at("GRANT OPTION FOR")
    permissions = r.list_of(_permission_name)
    kind: Any = "database"
    securable = None
    if r.accept("ON"):
        kind = "object"
        if r.peek().key == "::":
            if not r.at_one("OBJECT", "SCHEMA", "DATABASE"):
                raise r.refuse(f"{r.token.text.upper()}::")
            kind = r.take().key.lower()
            r.expect("::")
        securable = r.object_name()
    r.one_of("TO", "FROM" if verb == "revoke" else "TO")
    principals = r.list_of(lambda r: r.take().text if r.at("PUBLIC") else r.name())
    r.refuse_at("WITH GRANT OPTION", "CASCADE", "AS")
    return s.Permission(verb, permissions, kind, securable, principals, line=line)


def _permission_name(r: Reader) -> str:
    taken = []
    while r.token.kind in ("keyword", "word") and not r.at_one("ON", "TO", "FROM"):
        taken.append(r.take().key)
    if not taken:
        raise r.wrong()
    if r.at("("):
        raise r.refuse("rights on columns")
    return " ".join(taken)
