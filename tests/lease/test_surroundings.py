"""Bad surroundings: each has its own message, which says what to change. None is read as "somebody else has it"."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator

import pytest

from sqllease import LeaseConfigurationError, LeaseError, LeaseOptions, LeaseStore, LeaseStoreError, SqlLease
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import Bench

SHORT = LeaseOptions(duration=3, command_timeout=1)
"""No attempt later than one second after the call began; logins of one second."""


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


def told(call: Callable[[], object]) -> str:
    """The text of the LeaseConfigurationError that the call raises."""
    with pytest.raises(LeaseConfigurationError) as caught:
        call()
    return str(caught.value)


# --- the way to the server ---


# No driver named, one that is not in odbcinst.ini, a file that is not there: IM002, then 01000 from unixODBC.
@pytest.mark.parametrize("driver_part", ["", "DRIVER={No Such Driver};", "DRIVER=/no/such/libdriver.so;"])
def test_a_driver_that_is_not_installed_is_told_with_how_to_list_those_that_are(driver_part: str) -> None:
    text = told(SqlLease("job", f"{driver_part}SERVER=127.0.0.1").try_acquire)
    assert "driver is not installed" in text
    assert "odbcinst -q -d" in text
    assert "DRIVER=" in text


def test_without_the_driver_manager_the_error_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyodbc", None)
    text = told(SqlLease("job", "DRIVER=x;SERVER=127.0.0.1").try_acquire)
    assert "apt-get install unixodbc" in text


def test_a_server_that_is_down_is_told_as_unreachable_and_may_come_back(driver: Driver) -> None:
    with LocalSqlServer() as server:
        dsn = server.connection_string(driver=driver.odbc)
    with pytest.raises(LeaseStoreError, match=r"could not be reached.*SERVER=") as caught:
        SqlLease("job", dsn, options=SHORT).try_acquire()
    assert caught.value.transient


def test_a_wrong_password_is_told_at_once_with_where_it_is_written(bench: Bench) -> None:
    text = told(bench.lease(connection=bench.dsn(password="Wrong-Pass-1")).try_acquire)
    assert "18456" in text
    assert "UID, PWD" in text
    assert bench.server.log.logins == 1


def test_a_wrong_database_is_told_with_where_it_is_named(bench: Bench) -> None:
    # FreeTDS shows only the last error of the two, 18456.
    text = told(SqlLease("job", bench.dsn(DATABASE="nowhere"), options=SHORT).try_acquire)
    assert "DATABASE" in text


# --- the table ---


def test_a_missing_table_is_told_by_every_call_with_what_creates_it(bench: Bench) -> None:
    lease, store = bench.lease(), bench.store()
    lease.try_acquire()
    bench.server.execute("DROP TABLE [lease].[Leases]")
    calls: list[Callable[[], object]] = [
        lease.try_renew,
        lease.try_acquire,
        lease.try_release,
        bench.lease().try_acquire,
    ]
    calls += [lambda: store.get("job"), store.list, lambda: store.break_lease("job", "x"), store.purge]
    for call in calls:
        text = told(call)
        assert "table is missing" in text
        assert "ensure_created()" in text
        assert "create_script()" in text


RIGHTS = ("SELECT", "INSERT", "UPDATE", "DELETE")


@pytest.mark.parametrize("missing", RIGHTS)
def test_a_missing_right_is_named_with_the_script_that_gives_it(bench: Bench, missing: str) -> None:
    rights = ", ".join(right for right in RIGHTS if right != missing)
    lease = bench.lease(connection=login(bench, f"{rights} ON OBJECT::[lease].[Leases]"))

    def acquire_and_release() -> None:
        lease.try_acquire()
        lease.try_release()

    text = told(acquire_and_release)
    assert "a right is missing" in text
    assert "grant_script()" in text
    assert missing in text
    assert "229" in text


def test_a_read_only_database_is_told_after_some_tries_and_a_holder_still_holds(bench: Bench) -> None:
    lease, other = bench.lease(), bench.lease("other")
    lease.try_acquire()
    bench.server.execute("ALTER DATABASE CURRENT SET READ_ONLY")
    bench.slow(1.5)
    text = told(lease.try_renew)
    assert "read-only" in text
    assert "primary" in text
    assert lease.held
    assert "read-only" in told(other.try_acquire)
    bench.server.execute("ALTER DATABASE CURRENT SET READ_WRITE")
    bench.server.faults.clear()
    assert lease.try_renew() is True


def test_connections_that_still_talk_to_a_database_turned_read_only_are_replaced(bench: Bench) -> None:
    # After a failover the old primary's links stay open and refuse writes with 3906.
    lease = bench.lease()
    lease.try_acquire()
    bench.server.faults.error(3906, 'Failed to update database "app" because the database is read-only.', times=2)
    assert lease.try_renew() is True
    assert bench.server.log.logins == 3


# --- a table that is not quite ours ---

PLAIN = """
CREATE TABLE [lease].[Leases] (
    LeaseName nvarchar(200) {collate} NOT NULL {key}, OwnerInstanceId nvarchar(128) NOT NULL,
    AcquiredAtUtc datetimeoffset(7) NOT NULL, RenewedAtUtc datetimeoffset(7) NOT NULL,
    ExpiresAtUtc datetimeoffset(7) NOT NULL, Metadata nvarchar(1024) NULL, [RowVersion] rowversion NOT NULL
)"""


def replace_table(bench: Bench, collate: str = "", key: str = "PRIMARY KEY") -> None:
    bench.server.execute("DROP TABLE [lease].[Leases]")
    bench.server.execute(PLAIN.format(collate=collate, key=key))


CASELESS = "COLLATE Latin1_General_100_CI_AS"


@pytest.mark.parametrize("state", ["held", "expired"])
def test_on_a_case_insensitive_table_a_row_that_differs_in_case_is_left_alone_and_reported(
    bench: Bench, state: str
) -> None:
    replace_table(bench, CASELESS)
    bench.lease("Job", owner_id="holder").try_acquire()
    if state == "expired":
        bench.server.clock.advance(60)
    before = bench.row()
    lease = bench.lease("job")
    bench.slow(1.5)
    text = told(lease.try_acquire)
    assert "'Job'" in text
    assert "'job'" in text
    assert "create_script()" in text
    assert bench.row() == before
    assert not lease.held


def test_on_a_case_insensitive_table_all_other_names_and_owners_work(bench: Bench) -> None:
    replace_table(bench, CASELESS)
    store = bench.store()
    lease, shouting = bench.lease("job", store, owner_id="w1"), bench.lease("job", store, owner_id="W1")
    assert lease.try_acquire() is True
    assert shouting.try_acquire() is False
    assert bench.lease("task", store).try_acquire() is True
    assert lease.try_renew() is True
    assert lease.try_acquire() is True
    assert lease.try_release() is True
    assert shouting.try_acquire() is True
    assert store.get("JOB") is None
    assert [check.status for check in store.verify() if check.name == "collation"] == ["warning"]


def test_a_table_without_a_key_is_refused_as_unsafe(bench: Bench) -> None:
    # Without an index FORCESEEK finds no plan: error 8622.
    replace_table(bench, key="")
    text = told(bench.lease().try_acquire)
    assert "no unique key on LeaseName" in text
    assert "verify()" in text
    assert bench.rows() == []


def test_an_instead_of_trigger_is_found_by_verify(bench: Bench) -> None:
    bench.server.execute("CREATE TRIGGER [lease].[swallow] ON [lease].[Leases] INSTEAD OF INSERT AS SET NOCOUNT ON")
    (check,) = [check for check in bench.store().verify() if check.name == "triggers"]
    assert check.status == "failure"
    assert "swallow" in check.text
    assert "drop it" in check.text


# --- what all of these have in common ---


def test_every_error_of_the_surroundings_is_a_lease_error_and_hangs_on_no_driver_error(bench: Bench) -> None:
    bad: list[Callable[[], object]] = [
        SqlLease("job", "DRIVER={No Such Driver};SERVER=127.0.0.1").try_acquire,
        bench.lease(connection=bench.dsn(password="Wrong-Pass-1")).try_acquire,
        bench.lease(connection=LeaseStore(bench.dsn(), table="Missing")).try_acquire,
    ]
    for call in bad:
        with pytest.raises(LeaseError) as caught:
            call()
        assert caught.value.__cause__ is None
        assert caught.value.__context__ is None
