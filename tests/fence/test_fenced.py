"""``fenced()`` and the fence of a hold: the tenure of the entry counts, and the block ends in commit or rollback."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pyodbc
import pytest

from sqllease import LeaseLost, LeaseStoreError
from tests.lease.support import PATIENCE_S, in_background, wait_until_somebody_waits_for_a_lock

from .caller import Caller


@contextmanager
def ends_with(kind: type[BaseException]) -> Iterator[None]:
    """A block of several steps that ends so."""
    with pytest.raises(kind):
        yield


def write(caller: Caller, cursor: Any, what: str) -> None:
    """Through the cursor that the block gives."""
    done = cursor.execute("INSERT INTO dbo.Work (Done) VALUES (?)", what)
    if caller.desk is not None:
        caller.run(done)


def test_a_block_commits_at_its_end(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    with caller.fenced(lease, mine) as cursor:
        write(caller, cursor, "mine")
        assert caller.written() == []
    assert caller.written() == ["mine"]


def test_a_block_that_fails_rolls_back_and_its_error_comes_through(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    with ends_with(ZeroDivisionError), caller.fenced(lease, mine) as cursor:
        write(caller, cursor, "mine")
        raise ZeroDivisionError
    mine.commit()
    assert caller.written() == []


def test_a_block_whose_lease_was_taken_away_rolls_back(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    with ends_with(LeaseLost), caller.fenced(lease, mine) as cursor:
        write(caller, cursor, "mine")
        caller.break_lease(lease)
        assert caller.other().try_acquire()
    mine.commit()
    assert caller.written() == []


@pytest.mark.parametrize("of", ["lease", "hold"])
def test_a_tenure_that_was_lost_and_won_again_in_between_is_another_one(caller: Caller, of: str) -> None:
    mine = caller.transactions()
    if of == "lease":
        lease = caller.held()
        with ends_with(LeaseLost), caller.fenced(lease, mine) as cursor:
            write(caller, cursor, "mine")
            caller.break_lease(lease)
            assert caller.run(lease.try_renew()) is False
            assert caller.run(lease.try_acquire()) is True
    else:
        lease = caller.lease()
        hold = caller.block(lease.hold(keep_alive=False))
        with ends_with(LeaseLost), hold as held, caller.fenced(held, mine) as cursor:
            write(caller, cursor, "mine")
            caller.break_lease(lease)
            # As if somebody had let the hold's object win again behind its back.
            assert caller.run(lease._renew(None)) is False
            assert caller.run(lease._acquire(held._terms)) is True
    mine.commit()
    assert caller.written() == []


def test_a_block_is_not_entered_when_the_lease_is_not_held(caller: Caller) -> None:
    lease, mine = caller.lease(), caller.transactions()
    with pytest.raises(LeaseLost), caller.fenced(lease, mine):
        raise AssertionError("entered")


def test_the_fence_of_a_hold_keeps_take_overs_waiting_and_is_lost_behind_one(caller: Caller) -> None:
    lease, mine = caller.lease(), caller.transactions()
    with ends_with(LeaseLost), caller.block(lease.hold(keep_alive=False)) as held:
        mine.write("mine")
        caller.fence(held, mine)
        caller.expire()
        taken = in_background(caller.other().try_acquire)
        wait_until_somebody_waits_for_a_lock(caller.server)
        mine.commit()
        assert taken.result(PATIENCE_S) is True
        mine.write("too late")
        caller.fence(held, mine)
    mine.rollback()
    assert caller.written() == ["mine"]


def test_a_link_that_dies_under_the_fence_is_told_as_unknown_and_nothing_is_written(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    caller.server.faults.drop("after", matching="FencedVersion")
    with pytest.raises(LeaseStoreError, match="unknown"), caller.fenced(lease, mine) as cursor:
        write(caller, cursor, "mine")
    assert caller.written() == []
    assert lease.held
    again = caller.transactions()
    with caller.fenced(lease, again) as cursor:
        write(caller, cursor, "again")
    assert caller.written() == ["again"]


def test_a_lost_table_is_told_as_something_to_change(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    caller.server.execute("DROP TABLE [lease].[Leases]")
    with pytest.raises(Exception, match="the lease table is missing") as caught:
        caller.fence(lease, mine)
    assert not isinstance(caught.value, pyodbc.Error)
    mine.rollback()
