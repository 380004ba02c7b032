"""The scripts of `sql/` as a DBA runs them, and the rights that the grant script gives: all that is needed, no more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyodbc
import pytest

from sqllease import LeaseStore, schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

SQL = Path(__file__).parents[2] / "sql"


@pytest.fixture
def dba(server: LocalSqlServer, driver: Driver) -> Iterator[pyodbc.Connection]:
    connection = pyodbc.connect(server.connection_string(driver=driver.odbc), autocommit=True)
    yield connection
    connection.close()


def run(connection: pyodbc.Connection, script: str) -> None:
    cursor = connection.execute((SQL / script).read_text(encoding="utf-8"))
    while cursor.nextset():
        pass


def table_there(dba: pyodbc.Connection) -> bool:
    return bool(dba.execute("SELECT COUNT(*) FROM sys.tables WHERE name = N'Leases'").fetchval())


@pytest.fixture
def app(server: LocalSqlServer, driver: Driver, dba: pyodbc.Connection) -> str:
    """A connection string of a login whose only rights are those of the granted role."""
    run(dba, "create.sql")
    run(dba, "grant.sql")
    dba.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'")
    dba.execute("CREATE USER app FOR LOGIN app")
    dba.execute("ALTER ROLE sqllease_user ADD MEMBER app")
    dba.execute("CREATE TABLE dbo.Payroll (Salary int)")
    return server.connection_string(driver=driver.odbc, user="app", password="App-Pass-1")


def test_each_script_may_run_twice(dba: pyodbc.Connection) -> None:
    for script in ("create.sql", "create.sql", "grant.sql", "grant.sql"):
        run(dba, script)
    assert table_there(dba)
    for _ in range(2):
        run(dba, "drop.sql")
        assert not table_there(dba)


def test_a_table_made_by_the_script_is_the_one_that_ensure_created_makes(
    server: LocalSqlServer, driver: Driver, dba: pyodbc.Connection
) -> None:
    run(dba, "create.sql")
    dsn = server.connection_string(driver=driver.odbc)
    assert {check.status for check in schema.verify(dsn)} == {"ok"}
    made = dba.execute("SELECT OBJECT_ID(N'[lease].[Leases]')").fetchval()
    schema.ensure_created(dsn)
    assert dba.execute("SELECT OBJECT_ID(N'[lease].[Leases]')").fetchval() == made


def test_dropping_leaves_the_schema_and_what_else_is_in_it(dba: pyodbc.Connection) -> None:
    run(dba, "create.sql")
    dba.execute("CREATE TABLE [lease].[Neighbour] (Id int)")
    run(dba, "drop.sql")
    assert dba.execute("SELECT COUNT(*) FROM [lease].[Neighbour]").fetchval() == 0


def test_a_login_in_the_role_can_do_everything_that_an_application_does(app: str) -> None:
    store = LeaseStore(app)
    store.ensure_created()
    assert {check.status for check in store.verify()} == {"ok"}
    lease, other = store.lease("job"), store.lease("job")
    assert lease.try_acquire() is True
    assert other.try_acquire() is False
    assert lease.try_renew() is True
    assert store.get("job") is not None
    assert len(store.list()) == 1
    assert lease.try_release() is True
    assert other.try_acquire() is True
    assert store.break_lease("job", other.owner_id) is not None
    assert store.purge() == 0
    store.close()


# Number of the error by Microsoft's list of engine errors.
BEYOND = {
    "read another table": ("SELECT * FROM dbo.Payroll", {229}),
    "write another table": ("INSERT INTO dbo.Payroll (Salary) VALUES (1)", {229}),
    "create a table": ("CREATE TABLE dbo.Mine (Id int)", {262}),
    "create a table beside": ("CREATE TABLE [lease].[Mine] (Id int)", {262, 2760}),
    "create a schema": ("CREATE SCHEMA mine", {262, 2759}),
    "alter the table": ("ALTER TABLE [lease].[Leases] ADD Further int NULL", {1088, 4902}),
    "index the table": ("CREATE INDEX mine ON [lease].[Leases] (Metadata)", {1088}),
    "drop the table": ("DROP TABLE [lease].[Leases]", {3701}),
    "empty the table": ("TRUNCATE TABLE [lease].[Leases]", {1088, 4701}),
    "watch the table": ("CREATE TRIGGER [lease].[mine] ON [lease].[Leases] AFTER INSERT AS PRINT N'x'", {2103, 8197}),
    "give rights": ("GRANT SELECT ON OBJECT::[lease].[Leases] TO public", {15151, 4613}),
    "join a role": ("ALTER ROLE db_owner ADD MEMBER app", {15151}),
    "make a login": ("CREATE LOGIN mine WITH PASSWORD = 'Mine-Pass-1'", {15247}),
}


@pytest.mark.parametrize("deed", BEYOND)
def test_a_login_in_the_role_can_do_nothing_else(app: str, deed: str) -> None:
    statement, numbers = BEYOND[deed]
    connection = pyodbc.connect(app, autocommit=True)
    with pytest.raises(pyodbc.Error) as caught:
        connection.execute(statement)
    connection.close()
    assert any(f"({number})" in str(caught.value) for number in numbers), caught.value


def test_the_role_has_the_four_rights_on_the_table_and_no_other(app: str) -> None:
    connection = pyodbc.connect(app, autocommit=True)
    rights = "SELECT INSERT UPDATE DELETE REFERENCES ALTER CONTROL".split()
    given = [
        right
        for right in [*rights, "TAKE OWNERSHIP", "VIEW DEFINITION"]
        if connection.execute(f"SELECT HAS_PERMS_BY_NAME(N'[lease].[Leases]', N'OBJECT', N'{right}')").fetchval() == 1
    ]
    connection.close()
    assert given == ["SELECT", "INSERT", "UPDATE", "DELETE"]
