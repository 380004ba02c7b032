"""Tables and servers that are set up in other ways than ours, and work: triggers, row versioning, other time zones."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError, SqlLease
from sqllease.names import TableName
from sqllease.statements import render, template
from sqllease.testing import LocalSqlServer
from sqllease.testing.server.session import Session
from tests.drivers import Driver

from .bench import ACQUIRE, Bench

EVENTS = ("INSERT", "UPDATE", "DELETE")


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def trigger(bench: Bench, body: str, *events: str) -> None:
    for event in events or EVENTS:
        bench.server.execute(f"CREATE TRIGGER [lease].[watch_{event}] ON [lease].[Leases] AFTER {event} AS {body}")


def all_answers_are_right(bench: Bench) -> None:
    lease, other = bench.lease(owner_id="one"), bench.lease(owner_id="two")
    assert lease.try_acquire() is True
    assert bench.row().owner == "one"
    assert other.try_acquire() is False
    assert other.holder is not None
    assert other.holder.owner_id == "one"
    assert lease.try_renew() is True
    assert lease.try_acquire() is True
    bench.server.clock.advance(lease.options.duration)
    assert lease.try_renew() is False
    assert other.try_acquire() is True
    assert lease.try_release() is False
    assert bench.row().owner == "two"
    assert other.try_release() is True
    assert bench.rows() == []


# --- triggers ---


def test_triggers_that_log_to_another_table_without_nocount_change_no_answer(bench: Bench) -> None:
    bench.server.execute("CREATE TABLE [lease].[Audit] (What nvarchar(20), Owner nvarchar(128))")
    for event, rows in (("INSERT", "inserted"), ("UPDATE", "inserted"), ("DELETE", "deleted")):
        trigger(
            bench,
            f"INSERT INTO [lease].[Audit] (What, Owner) SELECT N'{event}', OwnerInstanceId FROM {rows}",
            event,
        )
    all_answers_are_right(bench)
    logged = bench.server.execute("SELECT What, Owner FROM [lease].[Audit] ORDER BY What, Owner")
    # One row inserted, renewed once and refreshed once, taken over once, deleted once. Lost tries changed nothing.
    assert logged == [("DELETE", "two"), ("INSERT", "one"), *[("UPDATE", "one")] * 2, ("UPDATE", "two")]


def test_triggers_that_print_change_no_answer(bench: Bench) -> None:
    trigger(bench, "PRINT N'somebody touched the leases'")
    all_answers_are_right(bench)


def test_a_trigger_that_updates_no_row_changes_no_answer(bench: Bench) -> None:
    bench.server.execute("CREATE TABLE [lease].[Other] (Id int)")
    trigger(bench, "UPDATE [lease].[Other] SET Id = 1 WHERE Id = 2")
    all_answers_are_right(bench)


@pytest.mark.parametrize("event", ["INSERT", "UPDATE"])
def test_a_change_that_a_trigger_s_own_error_undoes_is_never_told_as_done(bench: Bench, event: str) -> None:
    # 2627 is contention in an acquire.
    lease = bench.lease()
    if event == "UPDATE":
        assert lease.try_acquire() is True
        bench.server.clock.advance(lease.options.duration)
        lease = bench.lease()
    before = bench.rows()
    bench.server.execute("CREATE TABLE [lease].[Once] (Id int NOT NULL PRIMARY KEY)")
    trigger(bench, "INSERT INTO [lease].[Once] (Id) VALUES (1), (1)", event)
    with pytest.raises(LeaseStoreError):
        lease.try_acquire()
    assert not lease.held
    assert bench.rows() == before


def test_what_a_statement_put_out_before_it_failed_is_no_answer(bench: Bench) -> None:
    # A rollback does not undo a table variable.
    table = TableName()
    batch = "\n".join(
        (
            render("session", "prelude", table=table, lock_timeout_ms=1000),
            "DECLARE @name nvarchar(200) = N'job', @expires datetimeoffset(7) = @now;",
            "INSERT INTO @done (LeaseName, Owner, AcquiredAt, Version) VALUES (@name, N'me', @now, 0x01);",
            "SET @err = {};",
            render("answer", table=table),
        )
    )
    ((_, done, *_),) = bench.server.execute(batch.format(0))
    assert done == "job"
    ((error, done, *_),) = bench.server.execute(batch.format(2627))
    assert (error, done) == (2627, None)


def test_rows_that_a_trigger_selects_are_never_read_as_our_answer(bench: Bench) -> None:
    trigger(bench, "SELECT N'x' AS LeaseName, N'y' AS Owner, 1 AS ErrorNumber; SELECT * FROM inserted")
    all_answers_are_right(bench)


def test_an_error_that_a_trigger_raises_for_one_owner_is_raised_to_that_owner_alone(bench: Bench) -> None:
    trigger(
        bench,
        "IF EXISTS (SELECT 1 FROM inserted WHERE OwnerInstanceId = N'bad') RAISERROR(N'bad is not welcome', 16, 1)",
        "INSERT",
        "UPDATE",
    )
    bad, good = bench.lease(owner_id="bad"), bench.lease(owner_id="good")
    with pytest.raises(LeaseConfigurationError, match="bad is not welcome"):
        bad.try_acquire()
    assert not bad.held
    assert bench.rows() == []
    assert good.try_acquire() is True
    assert good.try_release() is True
    all_answers_are_right(bench)


# --- row versioning ---


@pytest.mark.parametrize("rcsi", ["ON", "OFF"])
def test_with_read_committed_snapshot_on_or_off_all_answers_are_right(bench: Bench, rcsi: str) -> None:
    bench.server.execute(f"ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT {rcsi}")
    all_answers_are_right(bench)


@pytest.mark.parametrize("rcsi", ["ON", "OFF"])
def test_a_lease_that_is_being_taken_in_an_open_transaction_is_seen_without_waiting(bench: Bench, rcsi: str) -> None:
    bench.server.execute(f"ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT {rcsi}")
    bench.lease(owner_id="former").try_acquire()
    bench.server.clock.advance(60)
    taking = bench.raw(autocommit=False)
    taking.execute(
        "UPDATE [lease].[Leases] SET OwnerInstanceId = N'taker', ExpiresAtUtc = DATEADD(hour, 1, SYSUTCDATETIME())"
    )
    store = bench.store()
    bench.server.log.clear()
    assert bench.lease(connection=store).try_acquire() is False
    seen = store.get("job")
    assert seen is not None
    assert seen.owner_id == "taker"
    assert [info.owner_id for info in store.list()] == ["taker"]
    assert all(request.work.lock_waits == 0 for request in bench.server.log.requests)


@pytest.mark.parametrize("rcsi", ["ON", "OFF"])
def test_no_versioned_read_makes_a_former_holder_of_a_committed_take_over(bench: Bench, rcsi: str) -> None:
    bench.server.execute(f"ALTER DATABASE CURRENT SET READ_COMMITTED_SNAPSHOT {rcsi}")
    lease, other = bench.lease(), bench.lease()
    lease.try_acquire()
    bench.server.clock.advance(lease.options.duration)
    assert other.try_acquire() is True
    assert lease.try_renew() is False
    assert lease.try_acquire() is False
    assert bench.row().owner == other.owner_id


# --- time zones ---


@pytest.mark.parametrize("minutes", [-210, 60, 345, 765], ids=["-03:30", "+01:00", "+05:45", "+12:45"])
def test_the_servers_time_zone_changes_neither_expiries_nor_answers(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, minutes: int
) -> None:
    monkeypatch.setattr(Session, "utc_offset_minutes", minutes)
    (local,) = bench.server.execute("SELECT DATEDIFF(minute, SYSUTCDATETIME(), SYSDATETIME())")
    assert local == (minutes,)
    lease = bench.lease()
    assert lease.try_acquire() is True
    assert bench.row().expires.endswith(("Z", "+00:00"))
    assert lease.expires_at is not None
    assert lease.expires_at.tzinfo is UTC
    seen = bench.store().get("job")
    assert seen is not None
    assert seen.expires_at == lease.expires_at
    assert 0 < seen.remaining <= lease.options.duration
    assert lease.try_release() is True
    all_answers_are_right(bench)


@pytest.mark.parametrize(
    "statement",
    ["acquire", "answer", "break", "create", "inspect", "prelude", "purge", "release", "renew", "session", "sweep"],
)
def test_no_statement_reads_the_servers_local_time(statement: str) -> None:
    local = r"(?i)\b(getdate|sysdatetime|sysdatetimeoffset|current_timestamp|current_timezone|at\s+time\s+zone)\b"
    assert re.search(local, template(statement)) is None


# --- what a lost try leaves behind ---


def test_a_lost_acquire_fires_no_trigger_and_changes_no_row_version(bench: Bench) -> None:
    holder: SqlLease = bench.lease()
    holder.try_acquire()
    trigger(bench, "THROW 50001, N'nothing should have changed', 1")
    before = bench.row()
    bench.server.log.clear()
    assert bench.lease().try_acquire() is False
    assert bench.row() == before
    (request,) = bench.sent(ACQUIRE)
    assert (request.work.rows_written, request.errors) == (0, [])
