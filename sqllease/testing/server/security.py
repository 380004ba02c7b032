"""Logins, users, roles and rights: who may do what, and the statements that change it.

Rights are asked for by name on a table, a schema or the database, and cover what lies beneath. Knows nothing of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import syntax
from .errortexts import sql_error
from .sqltypes import SqlError, unsupported
from .storage import Database, Table

if TYPE_CHECKING:
    from .session import Session

_FIXED = {
    "db_owner": frozenset({"CONTROL"}),
    "db_datareader": frozenset({"SELECT"}),
    "db_datawriter": frozenset({"INSERT", "UPDATE", "DELETE"}),
    "db_ddladmin": frozenset({"ALTER", "CREATE TABLE", "CREATE SCHEMA"}),
    "db_securityadmin": frozenset({"ALTER ANY ROLE", "VIEW DEFINITION"}),
    "db_accessadmin": frozenset({"ALTER ANY USER", "CONNECT"}),
}
_DATABASE_ONLY = (
    "CREATE TABLE",
    "CREATE SCHEMA",
    "CONNECT",
    "ALTER ANY USER",
    "ALTER ANY ROLE",
    "ALTER ANY SCHEMA",
    "VIEW DATABASE STATE",
)
_OBJECT = (
    "SELECT",
    "INSERT",
    "UPDATE",
    "DELETE",
    "REFERENCES",
    "ALTER",
    "CONTROL",
    "VIEW DEFINITION",
    "EXECUTE",
    "TAKE OWNERSHIP",
)

Place = tuple[str, ...]
"""A securable: ('object', id), ('schema', name) or ('database',)."""


@dataclass(slots=True)
class Login:
    name: str
    password: str
    sysadmin: bool = False


@dataclass(slots=True)
class DatabaseSecurity:
    """Names are kept in lower case as keys; ids as sys.database_principals has them."""

    users: dict[str, tuple[str, str | None]] = field(default_factory=lambda: {"dbo": ("dbo", None)})  # name, login
    roles: dict[str, tuple[str, set[str]]] = field(
        default_factory=lambda: {name: (name, set()) for name in ("public", *_FIXED)}
    )  # name, members
    rights: dict[tuple[Place, str, str], str] = field(
        default_factory=dict
    )  # place, principal, right -> 'GRANT' or 'DENY'

    def known(self, name: str) -> str:
        """A principal's name as it was spelled; 15151 where there is none."""
        for group in (self.users, self.roles):
            if name.lower() in group:
                return str(group[name.lower()][0])
        raise missing("user", name)


def missing(kind: str, name: str) -> SqlError:
    return sql_error(15151, kind, name)


def of(database: Database) -> DatabaseSecurity:
    found: DatabaseSecurity = database.extra["security"]
    return found


# --- who ---------------------------------------------------------------------------------------------


def is_sysadmin(session: Session) -> bool:
    login = session.engine.logins.get(session.login.lower())
    return login is not None and login.sysadmin


def user_name(session: Session, database: Database) -> str | None:
    """The user of the login in a database; None: it may not enter."""
    if is_sysadmin(session):
        return "dbo"
    if database.name in ("master", "tempdb"):
        return "guest"
    for name, login in of(database).users.values():
        if login is not None and login.lower() == session.login.lower():
            return name
    return None


def enter(session: Session, name: str) -> Database:
    database = session.engine.instance.databases.get(name.lower())
    if database is None:
        raise sql_error(911, name)
    if user_name(session, database) is None:
        raise sql_error(916, session.login, database.name)
    return database


def principals(session: Session, database: Database) -> set[str]:
    """The user and all the roles it is in, in lower case."""
    found = {(user_name(session, database) or "").lower(), "public"}
    roles = of(database).roles
    while more := {role for role, (_, members) in roles.items() if role not in found and members & found}:
        found |= more
    return found


# --- may it ------------------------------------------------------------------------------------------


def _places(thing: Table | str | None) -> Iterator[Place]:
    """The securable and those around it. A string is a schema, None the database."""
    if isinstance(thing, Table):
        yield ("object", str(thing.id))
        thing = thing.schema
    if thing is not None:
        yield ("schema", thing.lower())
    yield ("database",)


def has(session: Session, right: str, thing: Table | str | None, database: Database | None = None) -> bool:
    database = database or (thing.database if isinstance(thing, Table) else session.database)
    if isinstance(thing, Table) and (not thing.schema or thing.name.startswith("#")):
        return True
    if is_sysadmin(session):
        return True
    mine = principals(session, database)
    rights = of(database).rights
    places = list(_places(thing))
    covering = (
        right,
        "CONTROL",
        *(("ALTER ANY SCHEMA",) if right == "ALTER" and not isinstance(thing, Table) and thing else ()),
    )
    if any(rights.get((place, who, name)) == "DENY" for place in places for who in mine for name in (right, "CONTROL")):
        return False
    if any({right, "CONTROL"} & _FIXED.get(role, frozenset()) for role in mine):
        return True
    schema = thing.schema if isinstance(thing, Table) else thing
    if schema is not None and database.schemas.get(schema.lower(), ("", 0, ""))[2].lower() in mine:
        return True
    return any(rights.get((place, who, name)) == "GRANT" for place in places for who in mine for name in covering)


def visible(session: Session, table: Table) -> bool:
    """Metadata of an object is seen by whoever has any right on it."""
    return any(
        has(session, right, table)
        for right in ("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER", "VIEW DEFINITION", "REFERENCES")
    )


def require(session: Session, right: str, table: Table) -> None:
    if not has(session, right, table):
        raise sql_error(229, right, table.name, table.database.name, table.schema)


def require_database(session: Session, right: str) -> None:
    if not has(session, right, None):
        raise sql_error(262, right, session.database.name)


def require_schema(session: Session, name: str) -> None:
    """ALTER on a schema that exists; else the one error for both."""
    if name.lower() not in session.database.schemas or not has(session, "ALTER", name):
        raise sql_error(2760, name)


# --- statements --------------------------------------------------------------------------------------


def execute(node: syntax.Statement, session: Session) -> None:
    database = session.database
    if isinstance(node, (syntax.CreatePrincipal, syntax.Drop)) and node.kind == "login":
        _change_logins(node, session)
        return
    before = of(database)
    database.extra["security"] = after = deepcopy(before)
    try:
        _change(node, session, after)
    except SqlError:
        database.extra["security"] = before
        raise
    session.current().ddl(
        database,
        lambda: database.extra.update(security=before),
        lambda replica: replica.extra.update(security=deepcopy(after)),
    )


def _change_logins(node: syntax.CreatePrincipal | syntax.Drop, session: Session) -> None:
    """Logins are the server's: they take no part in transactions."""
    logins = session.engine.logins
    if not is_sysadmin(session):
        raise sql_error(15247)
    if isinstance(node, syntax.CreatePrincipal):
        if node.name.lower() in logins:
            raise sql_error(15025, node.name)
        logins[node.name.lower()] = Login(node.name, node.password or "")
    elif logins.pop(node.name.name.lower(), None) is None and not node.if_exists:
        raise missing("login", node.name.name)


def _change(node: syntax.Statement, session: Session, state: DatabaseSecurity) -> None:
    if isinstance(node, syntax.CreatePrincipal):
        right = "ALTER ANY USER" if node.kind == "user" else "ALTER ANY ROLE"
        if not has(session, right, None):
            raise sql_error(15247)
        key = node.name.lower()
        if key in state.users or key in state.roles:
            raise sql_error(15023, node.name)
        if node.kind == "role":
            state.roles[key] = (node.name, set())
            return
        if node.login is not None and node.login.lower() not in session.engine.logins:
            raise sql_error(15007, node.login)
        state.users[key] = (node.name, node.login)
    elif isinstance(node, syntax.Drop):
        group: dict[str, Any] = state.users if node.kind == "user" else state.roles
        key = node.name.name.lower()
        if (
            key not in group
            or key == "dbo"
            or not has(session, "ALTER ANY USER" if node.kind == "user" else "ALTER ANY ROLE", None)
        ):
            if node.if_exists and key not in group:
                return
            raise missing(node.kind, node.name.name)
        del group[key]
        for _, members in state.roles.values():
            members.discard(key)
        state.rights = {place: state for place, state in state.rights.items() if place[1] != key}
    elif isinstance(node, syntax.AlterRole):
        role = state.roles.get(node.role.lower())
        if role is None or not has(session, "ALTER ANY ROLE", None):
            raise missing("role", node.role)
        member = state.known(node.member).lower()
        (role[1].add if node.add else role[1].discard)(member)
    elif isinstance(node, syntax.Permission):
        _permission(node, session, state)
    else:
        raise unsupported(type(node).__name__)


def _permission(node: syntax.Permission, session: Session, state: DatabaseSecurity) -> None:
    thing: Table | str | None = None
    if node.securable is not None and node.securable_kind == "object":
        thing = session.database.table(node.securable.schema or "dbo", node.securable.name)
        if thing is None or not has(session, "CONTROL", thing):
            raise missing("object", node.securable.name)
    elif node.securable is not None and node.securable_kind == "schema":
        thing = node.securable.name
        if thing.lower() not in session.database.schemas or not has(session, "CONTROL", thing):
            raise missing("schema", thing)
    elif not has(session, "CONTROL", None):
        raise sql_error(4613)
    place = next(_places(thing))
    for right in node.permissions:
        if right not in _OBJECT and not (right in _DATABASE_ONLY and thing is None) and right != "ALL":
            raise unsupported(right) if right not in _DATABASE_ONLY else sql_error(102, right)
        for name in node.principals:
            who = state.known(name).lower()
            for each in ("SELECT", "INSERT", "UPDATE", "DELETE", "REFERENCES") if right == "ALL" else (right,):
                state.rights.pop((place, who, each), None)
                if node.verb != "revoke":
                    state.rights[place, who, each] = node.verb.upper()
