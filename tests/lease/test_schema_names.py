"""Odd schema and table names, and databases of other collations: DDL, grants, every verb, inspection, verify."""

from __future__ import annotations

from collections.abc import Iterator

import pyodbc
import pytest

from sqllease import LeaseStore, LeaseValueError, schema
from sqllease.names import TableName, quote_identifier, quote_literal
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

ODD = [
    "a]b",
    "[x]",
    "o'hara",
    "x.y",
    "x]; DROP TABLE t--",
    "x'; DROP TABLE t--",
    "order",
    "$(table)",
    "two words",
    "\N{LOCK}\N{KEY}",
    "x" * 128,
]
ids = pytest.mark.parametrize("name", ODD, ids=lambda name: ascii(name)[:24])


def all_verbs_work(store: LeaseStore) -> None:
    lease, other = store.lease("job"), store.lease("job")
    assert lease.try_acquire() is True
    assert other.try_acquire() is False
    assert lease.try_renew() is True
    seen = store.get("job")
    assert seen is not None
    assert [seen.owner_id, *(info.owner_id for info in store.list())] == [lease.owner_id] * 2
    assert lease.try_release() is True
    assert other.try_acquire() is True
    assert store.break_lease("job", other.owner_id) is not None
    assert store.purge() == 0


@pytest.fixture
def canary(server: LocalSqlServer) -> Iterator[None]:
    """A table that a badly quoted name would drop."""
    server.execute("CREATE TABLE dbo.t (id int)")
    yield
    assert server.execute("SELECT COUNT(*) FROM dbo.t") == [(0,)]


@ids
@pytest.mark.usefixtures("canary")
def test_any_text_is_a_schema_name(server: LocalSqlServer, driver: Driver, name: str) -> None:
    store = LeaseStore(server.connection_string(driver=driver.odbc), schema=name)
    store.ensure_created()
    store.ensure_created()
    assert server.execute(f"SELECT name FROM sys.schemas WHERE name = {quote_literal(name)}") == [(name,)]
    all_verbs_work(store)
    assert {check.status for check in store.verify()} == {"ok"}
    store.close()


@ids
@pytest.mark.usefixtures("canary")
def test_any_text_is_a_table_name(server: LocalSqlServer, driver: Driver, name: str) -> None:
    store = LeaseStore(server.connection_string(driver=driver.odbc), table=name)
    store.ensure_created()
    store.ensure_created()
    found = server.execute(f"SELECT name FROM sys.tables WHERE name = {quote_literal(name)}")
    assert found == [(name,)]
    all_verbs_work(store)
    assert {check.status for check in store.verify()} == {"ok"}
    store.close()


@ids
@pytest.mark.usefixtures("canary")
def test_scripts_for_any_names_run_twice_and_the_role_may_use_the_table(
    server: LocalSqlServer, driver: Driver, name: str
) -> None:
    place, role = TableName(name, name), name[:100] + "_role"
    server.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'; CREATE USER app FOR LOGIN app;")
    for script in (schema.create_script(name, name), schema.grant_script(name, name, role=role)) * 2:
        server.execute(script)
    server.execute(f"ALTER ROLE {quote_identifier(role)} ADD MEMBER app")
    versions = server.execute(
        "SELECT CAST(value AS nvarchar(64)) FROM sys.extended_properties"
        f" WHERE name = N'sqllease.schema_version' AND major_id = OBJECT_ID({quote_literal(str(place))})"
    )
    assert versions == [("1",)]
    dsn = server.connection_string(driver=driver.odbc, user="app", password="App-Pass-1")
    store = LeaseStore(dsn, schema=name, table=name)
    all_verbs_work(store)
    store.close()
    for _ in range(2):
        server.execute(schema.drop_script(name, name))
    assert server.execute(f"SELECT COUNT(*) FROM sys.tables WHERE name = {quote_literal(name)}") == [(0,)]


@pytest.mark.parametrize("name", ["", "x" * 129, "x" * 127 + "\N{LOCK}", "a\x00b", "\ud800"])
def test_what_cannot_be_a_name_is_refused_before_any_io(name: str) -> None:
    with pytest.raises(LeaseValueError):
        LeaseStore("DRIVER=none", schema=name)
    with pytest.raises(LeaseValueError):
        LeaseStore("DRIVER=none", table=name)
    with pytest.raises(LeaseValueError):
        schema.create_script(schema=name)


def test_two_tables_in_one_schema_are_apart(server: LocalSqlServer, driver: Driver) -> None:
    dsn = server.connection_string(driver=driver.odbc)
    one, two = LeaseStore(dsn, table="One"), LeaseStore(dsn, table="Two")
    for store in (one, two):
        store.ensure_created()
        assert store.lease("job").try_acquire() is True
        store.close()


COLLATIONS = [
    "Latin1_General_BIN2",
    "Latin1_General_100_BIN2",
    "Latin1_General_CS_AS",
    "Turkish_CI_AS",
    "Turkish_CS_AS",
    "Japanese_CI_AS",
]


@pytest.mark.parametrize("collation", COLLATIONS)
def test_in_a_database_of_any_collation_everything_works(
    server: LocalSqlServer, driver: Driver, collation: str
) -> None:
    server.engine.create_database("other", collation)
    dsn = server.connection_string(driver=driver.odbc, DATABASE="other")
    schema.ensure_created(dsn)
    store = LeaseStore(dsn)
    store.ensure_created()
    assert {check.status for check in store.verify()} == {"ok"}
    all_verbs_work(store)
    # Names that these collations, or a client that lowers them, would take for one another.
    names = ["ID", "id", "ıd", "İD", "か", "カ", "ｶ", "straße", "strasse"]
    assert [store.lease(name).try_acquire() for name in names] == [True] * len(names)
    assert {info.name for info in store.list()} == set(names)
    connection = pyodbc.connect(dsn, autocommit=True)
    for script in (schema.create_script(), schema.grant_script(), schema.drop_script()) * 2:
        connection.execute(script)
    connection.close()
    store.close()


@pytest.mark.parametrize("collation", ["Turkish_CI_AS", "Japanese_CI_AS", "Latin1_General_CS_AS"])
def test_in_a_table_of_the_databases_collation_owners_are_still_exact(
    server: LocalSqlServer, driver: Driver, collation: str
) -> None:
    server.engine.create_database("other", collation)
    dsn = server.connection_string(driver=driver.odbc, DATABASE="other")
    script = schema.create_script().replace("COLLATE Latin1_General_100_BIN2", "")
    connection = pyodbc.connect(dsn, autocommit=True)
    connection.execute(script)
    connection.close()
    store = LeaseStore(dsn)
    holder, other = store.lease("job", owner_id="id-w1"), store.lease("job", owner_id="ID-W1")
    assert holder.try_acquire() is True
    assert other.try_acquire() is False
    assert other.holder is not None
    assert other.holder.owner_id == "id-w1"
    assert holder.try_renew() is True
    assert holder.try_release() is True
    store.close()
