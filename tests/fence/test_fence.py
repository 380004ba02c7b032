"""The fence: what it lets pass commits before any take-over, whatever the clocks say; what is over does not pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from sqllease import LeaseLost, LeaseValueError
from tests.lease.support import PATIENCE_S, in_background, wait_until_somebody_waits_for_a_lock

from .caller import Caller


def test_a_held_lease_passes_and_the_write_is_committed(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    mine.write("first")
    caller.fence(lease, mine)
    mine.commit()
    assert caller.written() == ["first"]


def test_a_cursor_does_as_well_as_a_connection(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    cursor = mine.raw.cursor() if caller.desk is None else caller.run(_cursor(mine.raw))
    caller.run(lease.fence(cursor))
    mine.commit()


async def _cursor(connection: Any) -> Any:
    return await connection.cursor()


TAKE_OVERS: dict[str, Callable[[Caller, Any], object]] = {
    "expiry and another's acquire": lambda caller, lease: caller.other().try_acquire(),
    "break": lambda caller, lease: caller.operator.break_lease(lease.name, lease.owner_id),
    "another object of the same owner": lambda caller, lease: caller.operator.lease(
        lease.name, owner_id=lease.owner_id
    ).try_acquire(),
}


@pytest.mark.parametrize("how", TAKE_OVERS)
def test_a_take_over_waits_for_the_commit_of_a_fenced_transaction(caller: Caller, how: str) -> None:
    lease, mine = caller.held(), caller.transactions()
    mine.write("mine")
    caller.fence(lease, mine)
    caller.expire()
    taken = in_background(lambda: TAKE_OVERS[how](caller, lease))
    wait_until_somebody_waits_for_a_lock(caller.server)
    assert not taken.done()
    mine.commit()
    assert taken.result(PATIENCE_S)
    assert caller.written() == ["mine"]
    with pytest.raises(LeaseLost):
        caller.fence(lease, mine)
    mine.rollback()


def test_an_expired_lease_that_nobody_has_taken_passes(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    caller.expire()
    caller.clock.advance(100)
    assert not lease.held
    mine.write("late")
    caller.fence(lease, mine)
    mine.commit()
    assert caller.written() == ["late"]


def test_after_a_take_over_or_a_break_the_fence_says_lost(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    caller.break_lease(lease)
    mine.write("mine")
    with pytest.raises(LeaseLost, match="roll back") as lost:
        caller.fence(lease, mine)
    assert "released or taken over" in lost.value.reason
    mine.rollback()
    assert caller.other().try_acquire()
    with pytest.raises(LeaseLost):
        caller.fence(lease, mine)
    mine.rollback()
    assert caller.written() == []


def test_a_lease_that_was_never_acquired_or_was_released_is_refused_without_asking(caller: Caller) -> None:
    lease, mine = caller.lease(), caller.transactions()
    for _ in range(2):
        before = caller.server.log.round_trips
        with pytest.raises(LeaseLost):
            caller.fence(lease, mine)
        assert caller.server.log.round_trips == before
        assert caller.run(lease.try_acquire())
        assert caller.run(lease.try_release())


def test_a_renewal_waits_for_the_commit_and_goes_on(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    caller.fence(lease, mine)
    renewed = in_background(lambda: caller.run(lease.try_renew()))
    wait_until_somebody_waits_for_a_lock(caller.server)
    assert not renewed.done()
    mine.commit()
    assert renewed.result(PATIENCE_S) is True


def test_acquires_of_neighbours_and_losers_are_not_kept_waiting(caller: Caller) -> None:
    lease, mine = caller.held("m"), caller.transactions()
    caller.held("t")
    caller.fence(lease, mine)
    for name in ("a", "l", "m0", "n", "z"):
        assert in_background(caller.other(name).try_acquire).result(PATIENCE_S / 2) is True
    assert in_background(caller.other("m").try_acquire).result(PATIENCE_S / 2) is False
    assert not [number for number in caller.server.log.errors if number == 1222]
    mine.rollback()


def test_two_fences_of_one_lease_stand_side_by_side(caller: Caller) -> None:
    lease, first, second = caller.held(), caller.transactions(), caller.transactions()
    caller.fence(lease, first)
    caller.fence(lease, second)
    first.commit()
    second.commit()


def test_the_fence_leaves_the_callers_session_as_it_was(caller: Caller) -> None:
    settings = (
        "SELECT @@OPTIONS, @@LOCK_TIMEOUT, @@TRANCOUNT, (SELECT s.transaction_isolation_level "
        "FROM sys.dm_exec_sessions AS s WHERE s.session_id = @@SPID)"
    )
    lease, mine = caller.held(), caller.transactions()
    mine.write("opens the transaction")
    before = mine.execute(settings)
    caller.fence(lease, mine)
    assert [tuple(row) for row in mine.execute(settings)] == [tuple(row) for row in before]
    mine.rollback()


# --- refusals ---


def test_autocommit_is_refused(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions(autocommit=True)
    with pytest.raises(LeaseValueError, match="autocommit off"):
        caller.fence(lease, mine)
    with pytest.raises(LeaseValueError, match="autocommit off"), caller.fenced(lease, mine):
        raise AssertionError("entered")


def test_snapshot_is_refused(caller: Caller) -> None:
    caller.server.execute("ALTER DATABASE [app] SET ALLOW_SNAPSHOT_ISOLATION ON")
    lease, mine = caller.held(), caller.transactions()
    mine.execute("SET TRANSACTION ISOLATION LEVEL SNAPSHOT")
    mine.rollback()
    with pytest.raises(LeaseValueError, match="SNAPSHOT"):
        caller.fence(lease, mine)
    mine.rollback()


@pytest.mark.parametrize("level", ["READ UNCOMMITTED", "READ COMMITTED", "REPEATABLE READ", "SERIALIZABLE"])
def test_every_other_isolation_level_does(caller: Caller, level: str) -> None:
    lease, mine = caller.held(), caller.transactions()
    mine.execute(f"SET TRANSACTION ISOLATION LEVEL {level}")
    mine.write("mine")
    caller.fence(lease, mine)
    caller.expire()
    taken = in_background(caller.other().try_acquire)
    wait_until_somebody_waits_for_a_lock(caller.server)
    mine.commit()
    assert taken.result(PATIENCE_S) is True


# --- the token ---


def test_a_token_that_is_the_present_one_passes_and_another_is_lost(caller: Caller) -> None:
    lease, mine = caller.held(), caller.transactions()
    old = lease.fencing_token
    caller.fence(lease, mine, old)
    mine.rollback()
    assert caller.run(lease.try_renew())
    caller.fence(lease, mine, old)  # kept through renewals
    mine.rollback()
    assert caller.run(lease.try_release())
    assert caller.run(lease.try_acquire())
    assert lease.fencing_token > old
    with pytest.raises(LeaseLost, match="token"):
        caller.fence(lease, mine, old)
    caller.fence(lease, mine, lease.fencing_token)
    mine.rollback()


def test_tokens_rise_over_all_leases_and_owners_of_a_database(caller: Caller) -> None:
    tokens = []
    for name in ("a", "b", "a", "c", "b"):
        lease = caller.other(name)
        assert lease.try_acquire()
        tokens.append(lease.fencing_token)
        assert lease.try_renew()
        assert lease.fencing_token == tokens[-1]
        assert lease.try_release()
        assert lease.fencing_token is None
    assert tokens == sorted(set(tokens))
