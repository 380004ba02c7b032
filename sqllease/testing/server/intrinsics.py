"""Functions and global variables that depend on the session or the catalogue.

Their names and types are declared where functions are bound; here is what they answer.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

from . import applocks, catalog, security, syntax, views
from .sqltypes import SqlError, Value, unsupported
from .storage import Table

if TYPE_CHECKING:
    from .session import Session

VERSION = "Microsoft SQL Server 2019 (stand-in for tests, not the real engine) - 15.0.2000.5 (X64)"


def value(session: Session, name: str, args: tuple[Value, ...]) -> Value:
    if (get := _GLOBALS.get(name)) is not None:
        return get(session)
    if (function := _FUNCTIONS.get(name)) is not None:
        return function(session, *args)
    raise unsupported(name)


def parts(text: str) -> syntax.ObjectName:
    """A multi-part name in a string: ``[a].b``, ``"a".[b]]c]``."""
    found, at = [], 0
    while at <= len(text):
        close = {"[": "]", '"': '"'}.get(text[at : at + 1])
        if close is not None:
            part, at = "", at + 1
            while at < len(text):
                if text[at] == close:
                    at += 1
                    if text[at : at + 1] != close:
                        break
                part, at = part + text[at], at + 1
        else:
            end = text.find(".", at)
            end = len(text) if end < 0 else end
            part, at = text[at:end].strip(), end
        found.append(part)
        if text[at : at + 1] != ".":
            break
        at += 1
    names: list[str | None] = [part or None for part in reversed(found)]
    return syntax.ObjectName(str(names[0] or ""), *(names[1:3]))


def _find(session: Session, text: Value) -> Table | None:
    name = parts(str(text))
    if name.name.startswith("#"):
        return session.temporary.get(name.name.lower())
    try:
        database = session.database_named(name.database)
    except SqlError:
        return None
    table = session.settled(lambda: database.table(name.schema or "dbo", name.name))
    return table if table is not None and security.visible(session, table) else None


def _object_id(session: Session, text: Value, kind: Value = None) -> Value:
    if text is None:
        return None
    table = _find(session, text)
    wanted = str(kind).strip().upper() if kind is not None else None
    if table is not None:
        return table.id if wanted in (None, "U") else None
    name = parts(str(text))
    if name.database is not None and name.database.lower() != session.database.name.lower():
        return None
    found = catalog.object_named(session.database, name.schema or "dbo", name.name)
    if found is None or not security.visible(session, found.table) or found.kind == "U":
        return None
    return found.id if wanted in (None, found.kind) else None


def _object(session: Session, id: Value) -> catalog.Object | None:
    found = next((o for o in catalog.objects(session.database) if o.id == id), None)
    return found if found is not None and security.visible(session, found.table) else None


def _object_name(session: Session, id: Value, database: Value = None) -> Value:
    return o.name if (o := _object(session, id)) is not None else None


def _object_schema(session: Session, id: Value, database: Value = None) -> Value:
    return o.schema if (o := _object(session, id)) is not None else None


def _schema_id(session: Session, name: Value = "dbo") -> Value:
    key = str(name).lower()
    session.current().lock(("NAME", session.database.id, key, ""), "S", keep=False)
    entry = session.database.schemas.get(key)
    return entry[1] if entry is not None else None


def _schema_name(session: Session, id: Value = 1) -> Value:
    return next((name for name, number, _ in session.database.schemas.values() if number == id), None)


def _db_id(session: Session, name: Value = None) -> Value:
    database = session.engine.instance.databases.get(str(name).lower()) if name is not None else session.database
    return catalog.database_id(database) if database is not None else None


def _db_name(session: Session, id: Value = None) -> Value:
    databases = list(session.engine.instance.databases.values())
    if id is None:
        return session.database.name
    return databases[id - 1].name if isinstance(id, int) and 0 < id <= len(databases) else None


def _col_length(session: Session, table: Value, column: Value) -> Value:
    found = _find(session, table) if table is not None else None
    for c in found.columns if found is not None else ():
        if c.name.lower() == str(column).lower():
            return catalog.storage_length(c.type)
    return None


def _col_name(session: Session, id: Value, column: Value) -> Value:
    o = _object(session, id)
    return (
        o.table.columns[column - 1].name
        if o is not None and isinstance(column, int) and 0 < column <= len(o.table.columns)
        else None
    )


def _database_property(session: Session, name: Value, what: Value) -> Value:
    database = session.engine.instance.databases.get(str(name).lower())
    if database is None:
        return None
    known: dict[str, Value] = {
        "updateability": "READ_WRITE" if database.writable else "READ_ONLY",
        "collation": database.collation,
        "status": "ONLINE",
        "useraccess": "MULTI_USER",
        "recovery": "FULL",
        "version": 904,
    }
    return known.get(str(what).lower())


def _server_property(session: Session, what: Value) -> Value:
    known: dict[str, Value] = {
        "productversion": "15.0.2000.5",
        "productlevel": "RTM",
        "edition": "Stand-in (in memory)",
        "engineedition": 3,
        "servername": session.engine.name,
        "machinename": session.engine.name,
        "collation": "SQL_Latin1_General_CP1_CI_AS",
        "productmajorversion": "15",
        "ishadrenabled": 0,
    }
    return known.get(str(what).lower())


def _error(get: Callable[[SqlError], Value]) -> Callable[[Session], Value]:
    return lambda session: get(session.caught[-1]) if session.caught else None


def _xact_state(session: Session) -> Value:
    return 0 if session.tx is None else -1 if session.tx.doomed else 1


def _identity(session: Session) -> Value:
    return None if session.identity is None else Decimal(session.identity)


def _scope_identity(session: Session) -> Value:
    return None if session.scope_identity is None else Decimal(session.scope_identity)


def _user(session: Session, id: Value = None) -> Value:
    if id is not None:
        raise unsupported("USER_NAME(id)")
    return security.user_name(session, session.database)


def _login(session: Session, sid: Value = None) -> Value:
    if sid is not None:
        raise unsupported("SUSER_SNAME(sid)")
    return session.login


def _is_member(session: Session, role: Value, user: Value = None) -> Value:
    if user is not None:
        raise unsupported("IS_ROLEMEMBER with a user")
    if str(role).lower() not in security.of(session.database).roles:
        return None
    mine = security.principals(session, session.database)
    return int(str(role).lower() in mine or ("dbo" in mine and str(role).lower() == "db_owner"))


def _has_perms(session: Session, securable: Value, kind: Value, right: Value, *more: Value) -> Value:
    if more:
        raise unsupported("HAS_PERMS_BY_NAME on columns")
    right, kind = str(right).upper(), str(kind or "").upper()
    if kind == "OBJECT":
        table = _find(session, securable)
        return None if table is None else int(any(security.has(session, r, table) for r in _any(right)))
    if kind == "SCHEMA":
        name = parts(str(securable)).name
        return (
            int(any(security.has(session, r, name) for r in _any(right)))
            if name.lower() in session.database.schemas
            else None
        )
    if kind == "DATABASE":
        database = (
            session.engine.instance.databases.get(parts(str(securable)).name.lower()) if securable else session.database
        )
        return None if database is None else int(any(security.has(session, r, None, database) for r in _any(right)))
    raise unsupported(f"HAS_PERMS_BY_NAME for {kind or 'the server'}")


def _any(right: str) -> tuple[str, ...]:
    return ("SELECT", "INSERT", "UPDATE", "DELETE", "ALTER") if right == "ANY" else (right,)


def _applock_mode(session: Session, principal: Value, resource: Value, owner: Value) -> Value:
    return applocks.mode(session, str(principal), str(resource), str(owner))


def _min_active(session: Session) -> Value:
    raise unsupported("MIN_ACTIVE_ROWVERSION")


_GLOBALS: dict[str, Callable[[Session], Value]] = {
    "@@ROWCOUNT": lambda s: s.rowcount,
    "@@TRANCOUNT": lambda s: s.trancount,
    "@@ERROR": lambda s: s.error,
    "@@VERSION": lambda s: VERSION,
    "@@SPID": lambda s: s.id,
    "@@OPTIONS": lambda s: s.options.bits,
    "@@LOCK_TIMEOUT": lambda s: s.options.lock_timeout,
    "@@SERVERNAME": lambda s: s.engine.name,
    "@@SERVICENAME": lambda s: "MSSQLSERVER",
    "@@DBTS": lambda s: s.database.rowversion.to_bytes(8, "big"),
    "@@IDENTITY": _identity,
    "@@PROCID": lambda s: 0,
    "@@DATEFIRST": lambda s: 7,
    "@@LANGUAGE": lambda s: "us_english",
    "@@LANGID": lambda s: 0,
    "@@TEXTSIZE": lambda s: -1,
    "@@MAX_PRECISION": lambda s: 38,
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "OBJECT_ID": _object_id,
    "OBJECT_NAME": _object_name,
    "OBJECT_SCHEMA_NAME": _object_schema,
    "SCHEMA_ID": _schema_id,
    "SCHEMA_NAME": _schema_name,
    "DB_ID": _db_id,
    "DB_NAME": _db_name,
    "COL_LENGTH": _col_length,
    "COL_NAME": _col_name,
    "TYPE_NAME": lambda s, id: next((str(row[0]) for row in views.types(s) if row[2] == id), None),
    "DATABASEPROPERTYEX": _database_property,
    "SERVERPROPERTY": _server_property,
    "XACT_STATE": _xact_state,
    "SCOPE_IDENTITY": _scope_identity,
    "ERROR_NUMBER": _error(lambda e: e.number),
    "ERROR_MESSAGE": _error(lambda e: e.message),
    "ERROR_SEVERITY": _error(lambda e: e.severity),
    "ERROR_STATE": _error(lambda e: e.state),
    "ERROR_LINE": _error(lambda e: e.line),
    "ERROR_PROCEDURE": _error(lambda e: e.procedure or None),
    "HAS_PERMS_BY_NAME": _has_perms,
    "IS_ROLEMEMBER": _is_member,
    "IS_SRVROLEMEMBER": lambda s, role, login=None: (
        int(security.is_sysadmin(s)) if str(role).lower() == "sysadmin" else 0
    ),
    "SUSER_SNAME": _login,
    "SUSER_NAME": _login,
    "ORIGINAL_LOGIN": _login,
    "SYSTEM_USER": _login,
    "USER_NAME": _user,
    "CURRENT_USER": _user,
    "SESSION_USER": _user,
    "USER": _user,
    "APP_NAME": lambda s: s.requested.application,
    "HOST_NAME": lambda s: s.requested.host,
    "APPLOCK_MODE": _applock_mode,
    "MIN_ACTIVE_ROWVERSION": _min_active,
    "CURRENT_TRANSACTION_ID": lambda s: s.current().id,
    "ROWCOUNT_BIG": lambda s: s.rowcount,
}
