"""``fence_script()``: the fence for people who write T-SQL, in the transaction that they have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pyodbc
import pytest

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S, in_background, wait_until_somebody_waits_for_a_lock

from .caller import Caller

BATCH = """
DECLARE @LeaseName nvarchar(200) = ?, @OwnerId nvarchar(128) = ?, @Tenure datetimeoffset(7) = ?;
{begin}
INSERT INTO dbo.Work (Done) VALUES (N'by hand');
{script}
{end}
"""


@pytest.fixture
def caller(server: LocalSqlServer, driver: Driver) -> Iterator[Caller]:
    with ExitStack() as stack:
        yield Caller(server, driver.odbc, "sync", stack)


def batch(begin: str = "SET NOCOUNT ON; SET XACT_ABORT ON; BEGIN TRANSACTION;", end: str = "COMMIT;") -> str:
    return BATCH.format(begin=begin, script=schema.fence_script(), end=end)


def test_a_held_tenure_passes(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions(autocommit=True)
    mine.execute(batch(), lease.name, lease.owner_id, lease.tenure)
    assert caller.written() == ["by hand"]


def test_an_ended_tenure_throws_and_nothing_is_written(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions(autocommit=True)
    tenure = lease.tenure
    assert lease.try_release()
    assert lease.try_acquire()
    for owner, when in ((lease.owner_id, tenure), (lease.owner_id + "x", lease.tenure), ("", lease.tenure)):
        with pytest.raises(pyodbc.Error, match="51004"):
            mine.execute(batch(), lease.name, owner, when)
    assert caller.written() == []
    assert caller.other().try_acquire() is False


def test_without_a_transaction_it_throws(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions(autocommit=True)
    with pytest.raises(pyodbc.Error, match="51004"):
        mine.execute(batch(begin="SET NOCOUNT ON;", end=""), lease.name, lease.owner_id, lease.tenure)


def test_a_take_over_waits_for_its_commit(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    mine.execute(batch(begin="SET NOCOUNT ON;", end=""), lease.name, lease.owner_id, lease.tenure)
    caller.expire()
    taken = in_background(caller.other().try_acquire)
    wait_until_somebody_waits_for_a_lock(caller.server)
    mine.commit()
    assert taken.result(PATIENCE_S) is True
    assert caller.written() == ["by hand"]
