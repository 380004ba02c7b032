"""What ``verify`` looks at besides the table: driver, server, clock, round trip, replica. Changes nothing."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from sqllease.connection import Connection, Connector, load_pyodbc
from sqllease.errors import LeaseError
from sqllease.faults import Retry
from sqllease.names import TableName
from sqllease.odbc import with_default
from sqllease.statements import Statement
from sqllease.verification import Check

from .source import Source

if TYPE_CHECKING:
    import pyodbc

_OLDEST_SERVER, _OLDEST_NAME = 13, "SQL Server 2016"
_TIMEOUT_S = 5
_ROUNDS = 5
_SLOW_S = 0.5
_SKEW_S = 5.0

_CLOCK = Statement(
    "SELECT CAST(DATEDIFF_BIG(microsecond, '1970-01-01', SYSUTCDATETIME()) AS bigint) AS Microseconds",
    columns=("Microseconds",),
)
_REPLICA = Statement(
    "SELECT CAST(DATABASEPROPERTYEX(DB_NAME(), N'Updateability') AS nvarchar(32)) AS Updateability, "
    "CAST(SERVERPROPERTY(N'ServerName') AS nvarchar(256)) AS ServerName, DB_NAME() AS DatabaseName, "
    "OBJECT_ID(?, N'U') AS TableId",
    sizes=(600,),
    columns=("Updateability", "ServerName", "DatabaseName", "TableId"),
)


def check_all(source: Source) -> list[Check]:
    """Every check, also those that are well. An error of the database is a failed check."""
    checks = []
    try:
        with _session(source.connection) as (connection, raw):
            checks += [*_check_versions(raw), *_check_times(connection)]
        with source.opened() as store:
            checks += store.verify()
    except LeaseError as error:
        checks.append(Check("connection", "failure", str(error)))
    if source.replica is not None:
        checks.append(_check_replica(source.replica, TableName(source.schema, source.table)))
    return checks


@contextmanager
def _session(connection_string: str) -> Iterator[tuple[Connection, pyodbc.Connection]]:
    connector = Connector(connection_string)
    try:
        raw = connector.open(_TIMEOUT_S)
        connection = Connection(raw, connector.hidden)
        try:
            yield connection, raw
        finally:
            connection.drop()
        return
    except Retry as retry:
        fault = retry.fault
    raise fault.error()


def _check_versions(raw: pyodbc.Connection) -> list[Check]:
    odbc = load_pyodbc()

    def tell(what: str) -> str:
        return str(raw.getinfo(getattr(odbc, what)))

    version = tell("SQL_DBMS_VER")
    major = version.split(".")[0]
    old = major.isdigit() and int(major) < _OLDEST_SERVER
    return [
        Check("driver", "ok", f"{tell('SQL_DRIVER_NAME')} {tell('SQL_DRIVER_VER')}"),
        Check("server", "failure", f"version {version} is older than {_OLDEST_NAME}")
        if old
        else Check("server", "ok", f"{tell('SQL_DBMS_NAME')} {version}"),
    ]


def _check_times(connection: Connection) -> list[Check]:
    best, offset = float("inf"), 0.0
    for _ in range(_ROUNDS):
        before, wall = time.perf_counter(), time.time()
        ((microseconds,),) = connection.ask(_CLOCK, _TIMEOUT_S)
        took = time.perf_counter() - before
        if took < best:
            best, offset = took, int(microseconds) / 1e6 - wall - took / 2
    direction = "ahead of" if offset >= 0 else "behind"
    clock = f"the server's clock is {abs(offset):.3f} s {direction} this machine's; leases do not depend on it"
    return [
        Check("clock", "warning" if abs(offset) > _SKEW_S else "ok", clock),
        Check("round trip", "warning" if best > _SLOW_S else "ok", f"{best * 1000:.1f} ms (best of {_ROUNDS})"),
    ]


def _check_replica(connection_string: str, table: TableName) -> Check:
    question = replace(_REPLICA, parameters=(str(table),))
    try:
        with _session(with_default(connection_string, "ApplicationIntent", "ReadOnly")) as (connection, _):
            ((role, server, database, table_id),) = connection.ask(question, _TIMEOUT_S)
    except LeaseError as error:
        return Check("replica", "failure", str(error))
    where = f"database {database!r} on server {server!r}"
    if role != "READ_ONLY":
        return Check("replica", "failure", f"{where} is {role}: this is the primary, which confirms nothing")
    if table_id is None:
        return Check("replica", "failure", f"{where} is read-only, but has no table {table} that this login may see")
    return Check("replica", "ok", f"{where} is read-only and has the table: that it is a copy, only you know")
