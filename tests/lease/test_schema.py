"""Provisioning on the stand-in: what `ensure_created` makes, leaves alone, and says when a right is missing."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partialmethod

import pytest

from sqllease import LeaseConfigurationError, LeaseStore, schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import Bench

DROP = "DROP TABLE [lease].[Leases]"
# Types and names as the .NET package makes them: the database's collation, no check on names.
DOTNET = """
CREATE TABLE [lease].[Leases] (
    LeaseName nvarchar({units}) NOT NULL, OwnerInstanceId nvarchar(128) NOT NULL,
    AcquiredAtUtc datetimeoffset(7) NOT NULL, RenewedAtUtc datetimeoffset(7) NOT NULL,
    ExpiresAtUtc datetimeoffset(7) NOT NULL, Metadata nvarchar(1024) NULL, [RowVersion] rowversion NOT NULL,
    CONSTRAINT PK_Leases PRIMARY KEY CLUSTERED ({key})
)"""
INDEX = "CREATE NONCLUSTERED INDEX IX_Leases_ExpiresAtUtc ON [lease].[Leases] (ExpiresAtUtc)"
RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def login(bench: Bench, *grants: str) -> str:
    """A connection string of a login that has these rights and no other."""
    bench.server.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'; CREATE USER app FOR LOGIN app;")
    for grant in grants:
        bench.server.execute(f"GRANT {grant} TO app")
    return bench.dsn(user="app", password="App-Pass-1")


def all_verbs_work(bench: Bench, store: LeaseStore) -> None:
    lease, other = bench.lease(connection=store), bench.lease(connection=store)
    assert lease.try_acquire() is True
    assert other.try_acquire() is False
    assert lease.try_renew() is True
    assert [info.owner_id for info in store.list()] == [lease.owner_id]
    assert store.get("job") == store.list()[0] or store.get("job") is not None
    assert lease.try_release() is True
    assert other.try_acquire() is True
    assert store.break_lease("job", other.owner_id) is not None
    assert other.try_renew() is False
    assert store.purge() == 0


def statuses(store: LeaseStore) -> dict[str, str]:
    """The worst status of each of verify's checks that are not well."""
    found = {check.name: check.status for check in store.verify()}
    return {name: status for name, status in found.items() if status != "ok"}


# --- what it makes, and leaves ---


def test_on_an_empty_database_it_makes_a_table_that_verify_finds_right(server: LocalSqlServer, driver: Driver) -> None:
    store = LeaseStore(server.connection_string(driver=driver.odbc))
    store.ensure_created()
    assert {check.status for check in store.verify()} == {"ok"}
    columns = server.execute(
        "SELECT c.name, t.name, c.max_length, c.is_nullable, c.collation_name FROM sys.columns AS c"
        " JOIN sys.types AS t ON t.user_type_id = c.user_type_id"
        " WHERE c.object_id = OBJECT_ID(N'[lease].[Leases]') ORDER BY c.column_id"
    )
    binary = "Latin1_General_100_BIN2"
    assert [tuple(row[:4]) for row in columns] == [
        ("LeaseName", "nvarchar", 400, False),
        ("OwnerInstanceId", "nvarchar", 256, False),
        ("AcquiredAtUtc", "datetimeoffset", 10, False),
        ("RenewedAtUtc", "datetimeoffset", 10, False),
        ("ExpiresAtUtc", "datetimeoffset", 10, False),
        ("Metadata", "nvarchar", 2048, True),
        ("RowVersion", "timestamp", 8, False),
    ]
    assert [row[4] for row in columns[:2]] == [binary, binary]
    store.close()


def test_again_it_changes_nothing_and_keeps_the_leases(bench: Bench) -> None:
    store = bench.store()
    lease = bench.lease(connection=store)
    lease.try_acquire()
    before = bench.row(), bench.server.execute("SELECT OBJECT_ID(N'[lease].[Leases]')")
    store.ensure_created()
    schema.ensure_created(bench.dsn())
    assert (bench.row(), bench.server.execute("SELECT OBJECT_ID(N'[lease].[Leases]')")) == before
    assert lease.try_renew() is True


def test_a_cut_before_or_after_its_commit_is_survived(server: LocalSqlServer, driver: Driver) -> None:
    dsn = server.connection_string(driver=driver.odbc)
    for when, name in (("before", "One"), ("after", "Two"), ("middle", "Three")):
        server.faults.drop(when, matching="CREATE TABLE")
        schema.ensure_created(dsn, table=name)
        assert {check.status for check in schema.verify(dsn, table=name)} == {"ok"}


def test_where_the_table_is_there_it_waits_for_nobody_and_blocks_no_keep_alive(bench: Bench) -> None:
    lease = bench.lease()
    lease.try_acquire()
    renewing = bench.raw(autocommit=False)  # holds the locks of a renew that is not committed yet
    renewing.execute("UPDATE [lease].[Leases] SET RenewedAtUtc = SYSUTCDATETIME()")
    installing = bench.raw(autocommit=False)  # another installer, which does not come to an end
    installing.execute("EXEC sp_getapplock N'sqllease:ddl', N'Exclusive', N'Transaction', 0, N'public'")
    bench.server.log.clear()
    bench.store().ensure_created()
    assert [request.work.lock_waits for request in bench.sent("CREATE TABLE")] == [0]


def test_a_missing_index_is_added_to_an_older_table_and_its_leases_stay(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=200, key="LeaseName"))
    store = bench.store()
    lease = bench.lease(connection=store)
    assert lease.try_acquire() is True
    assert statuses(store)["index"] == "warning"
    store.ensure_created()
    assert "index" not in statuses(store)
    assert lease.try_renew() is True


def test_an_index_on_the_expiry_under_another_name_is_enough(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=200, key="LeaseName"))
    bench.server.execute(INDEX.replace("IX_Leases_ExpiresAtUtc", "somebodys_index"))
    store = bench.store()
    store.ensure_created()
    assert "index" not in statuses(store)
    assert bench.server.execute("SELECT COUNT(*) FROM sys.indexes WHERE name = N'IX_Leases_ExpiresAtUtc'") == [(0,)]


def test_a_table_made_as_the_dotnet_package_does_works_and_verify_only_warns(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=200, key="LeaseName"))
    bench.server.execute(INDEX)
    store = bench.store()
    store.ensure_created()
    all_verbs_work(bench, store)
    assert statuses(store) == {"collation": "warning", "lock escalation": "warning"}


def test_a_table_with_a_further_nullable_column_works(bench: Bench) -> None:
    # Later versions only add nullable columns, so an older one goes on beside them.
    bench.server.execute("ALTER TABLE [lease].[Leases] ADD Further int NULL")
    store = bench.store()
    store.ensure_created()
    all_verbs_work(bench, store)
    assert statuses(store) == {}


def test_a_table_that_lacks_a_column_is_refused_and_never_rebuilt(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=200, key="LeaseName").replace(", [RowVersion] rowversion NOT NULL", ""))
    store = bench.store()
    store.ensure_created()
    with pytest.raises(LeaseConfigurationError, match=r"verify\(\) says which"):
        bench.lease(connection=store).try_acquire()
    assert [check.text for check in store.verify() if check.status == "failure"] == [
        "column RowVersion is missing: see create_script()"
    ]


def test_a_table_whose_key_is_another_column_is_refused(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=200, key="OwnerInstanceId"))
    store = bench.store()
    store.ensure_created()
    with pytest.raises(LeaseConfigurationError, match="no unique key on LeaseName"):
        bench.lease(connection=store).try_acquire()
    assert statuses(store)["key"] == "failure"


def test_a_name_that_a_shorter_column_would_cut_is_refused_and_shorter_ones_work(bench: Bench) -> None:
    bench.server.execute(DROP)
    bench.server.execute(DOTNET.format(units=64, key="LeaseName"))
    store = bench.store()
    assert bench.lease("x" * 64, store).try_acquire() is True
    with pytest.raises(LeaseConfigurationError, match=r"too short: see verify\(\)"):
        bench.lease("y" * 65, store).try_acquire()
    assert [row.name for row in bench.rows()] == ["x" * 64]
    assert statuses(store)["columns"] == "failure"


def test_a_name_that_something_else_has_is_an_error_and_never_silence(server: LocalSqlServer, driver: Driver) -> None:
    # 2714 also comes when another installer was first. Here it comes again, and the table is still missing.
    server.execute("CREATE SCHEMA [lease]")
    server.execute("CREATE TABLE [lease].[Old] (Id int NOT NULL CONSTRAINT PK_Leases PRIMARY KEY)")
    with pytest.raises(LeaseConfigurationError, match=r"\[lease\]\.\[Leases\].*PK_Leases"):
        schema.ensure_created(server.connection_string(driver=driver.odbc))
    assert server.execute("SELECT name FROM sys.tables") == [("Old",)]


# --- rights ---


def test_with_rights_on_the_rows_alone_it_is_a_no_op_and_all_verbs_work(bench: Bench) -> None:
    store = bench.store(login(bench, "SELECT, INSERT, UPDATE, DELETE ON OBJECT::[lease].[Leases]"))
    store.ensure_created()
    all_verbs_work(bench, store)
    assert statuses(store) == {}


def test_with_rights_on_the_rows_alone_a_missing_index_is_no_error(bench: Bench) -> None:
    bench.server.execute("DROP INDEX IX_Leases_ExpiresAtUtc ON [lease].[Leases]")
    store = bench.store(login(bench, "SELECT, INSERT, UPDATE, DELETE ON OBJECT::[lease].[Leases]"))
    store.ensure_created()
    assert statuses(store) == {"index": "warning"}


@pytest.mark.parametrize("missing", RIGHTS)
def test_verify_names_the_right_that_a_login_lacks(bench: Bench, missing: str) -> None:
    rights = ", ".join(right for right in RIGHTS if right != missing)
    store = bench.store(login(bench, f"{rights} ON OBJECT::[lease].[Leases]"))
    store.ensure_created()
    (failure,) = [check for check in store.verify() if check.status == "failure"]
    assert failure.name == "rights"
    assert f"lacks {missing} on" in failure.text
    assert "grant_script()" in failure.text


WITHOUT = {
    "no right at all, and the table is there": ((), True, "grant_script()"),
    "EXECUTE alone, and the table is there": (("EXECUTE",), True, "grant_script()"),
    "no right at all, and no schema": ((), False, "CREATE SCHEMA"),
    "CREATE TABLE without CREATE SCHEMA": (("CREATE TABLE",), False, "CREATE SCHEMA"),
}


@pytest.mark.parametrize("case", WITHOUT)
def test_a_login_that_may_not_create_is_told_the_right_the_table_and_the_script(
    server: LocalSqlServer, driver: Driver, case: str
) -> None:
    grants, is_there, advice = WITHOUT[case]
    if is_there:
        server.execute(schema.create_script())
    server.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'; CREATE USER app FOR LOGIN app;")
    for grant in grants:
        server.execute(f"GRANT {grant} TO app")
    dsn = server.connection_string(driver=driver.odbc, user="app", password="App-Pass-1")
    with pytest.raises(LeaseConfigurationError) as caught:
        schema.ensure_created(dsn)
    text = str(caught.value)
    assert advice in text
    assert "create_script()" in text
    assert "[lease].[Leases]" in text
    assert "permission" in text


def test_a_login_that_may_create_tables_but_not_in_this_schema_is_told_the_right_on_the_schema(
    server: LocalSqlServer, driver: Driver
) -> None:
    server.execute("CREATE SCHEMA [lease]")
    server.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'; CREATE USER app FOR LOGIN app;")
    server.execute("GRANT CREATE TABLE TO app")
    dsn = server.connection_string(driver=driver.odbc, user="app", password="App-Pass-1")
    with pytest.raises(LeaseConfigurationError, match=r"ALTER on the schema.*\[lease\]\.\[Leases\].*2760"):
        schema.ensure_created(dsn)


def test_on_a_read_only_database_it_is_a_no_op_where_the_table_is_there(bench: Bench) -> None:
    bench.server.execute("ALTER DATABASE CURRENT SET READ_ONLY")
    store = bench.store()
    store.ensure_created()
    assert statuses(store) == {"read-only": "failure"}


def test_on_a_read_only_database_a_missing_table_is_told_as_read_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Asked again for 0.7 s, not 10.
    monkeypatch.setattr(LeaseStore, "_obey", partialmethod(LeaseStore._obey, budget=0.7))
    bench.server.execute("ALTER DATABASE CURRENT SET READ_ONLY")
    with pytest.raises(LeaseConfigurationError, match="read-only: connect to the primary"):
        schema.ensure_created(bench.dsn(), table="Another")
