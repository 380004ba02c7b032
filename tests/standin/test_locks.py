"""Locks by themselves: modes, queues, time-outs, deadlocks.

"Guide" is Microsoft's "Transaction locking and row versioning guide".
"""

from __future__ import annotations

import pytest

from sqllease.testing.server.locks import LockManager, Owner, compatible, join
from sqllease.testing.server.sqltypes import SqlError, Work
from tests.standin.world import REPEATABLE as REPEATABLE_READ
from tests.standin.world import FakeSession, World, number_of

# Rows: requested mode; columns: existing granted mode (guide, "Lock compatibility").
OBJECTS = """
        IS   S    U    IX   SIX  X
IS      Yes  Yes  Yes  Yes  Yes  No
S       Yes  Yes  Yes  No   No   No
U       Yes  Yes  No   No   No   No
IX      Yes  No   No   Yes  No   No
SIX     Yes  No   No   No   No   No
X       No   No   No   No   No   No
"""
# The guide, "Key-range lock modes".
KEYS = """
          S    U    X    RangeS-S  RangeS-U  RangeI-N  RangeX-X
S         Yes  Yes  No   Yes       Yes       Yes       No
U         Yes  No   No   Yes       No        Yes       No
X         No   No   No   No        No        Yes       No
RangeS-S  Yes  Yes  No   Yes       Yes       No        No
RangeS-U  Yes  No   No   Yes       No        No        No
RangeI-N  Yes  Yes  Yes  No        No        Yes       No
RangeX-X  No   No   No   No        No        No        No
"""


def cells(table: str) -> list[tuple[str, str, bool]]:
    header, *lines = table.strip("\n").splitlines()
    return [
        (line.split()[0], existing, answer == "Yes")
        for line in lines
        for existing, answer in zip(header.split(), line.split()[1:], strict=True)
    ]


@pytest.mark.parametrize(("requested", "existing", "granted"), cells(OBJECTS) + cells(KEYS))
def test_a_mode_is_granted_beside_another_one_as_the_guide_says(requested: str, existing: str, granted: bool) -> None:
    assert compatible(requested, existing) is granted


@pytest.mark.parametrize("mode", ["IS", "S", "U", "IX", "SIX", "X", "Sch-S"])
def test_schema_stability_excludes_only_schema_modification(mode: str) -> None:
    # The guide, "Schema locks": Sch-S does not block any transactional locks; Sch-M blocks all.
    assert compatible("Sch-S", mode)
    assert compatible(mode, "Sch-S")
    assert not compatible("Sch-M", mode)
    assert not compatible(mode, "Sch-M")


@pytest.mark.parametrize(
    ("first", "second", "both"),
    [  # The guide, "Conversion locks".
        ("S", "RangeI-N", "RangeI-S"),
        ("U", "RangeI-N", "RangeI-U"),
        ("X", "RangeI-N", "RangeI-X"),
        ("RangeI-N", "RangeS-S", "RangeX-S"),
        ("RangeI-N", "RangeS-U", "RangeX-U"),
        # What each mode contains; IX with S is SIX by definition.
        ("S", "U", "U"),
        ("U", "X", "X"),
        ("S", "IX", "SIX"),
        ("IS", "IX", "IX"),
        ("Sch-S", "IS", "IS"),
        ("RangeS-S", "U", "RangeS-U"),
        ("RangeS-U", "X", "RangeX-X"),
    ],
)
def test_two_locks_of_one_owner_become_one(first: str, second: str, both: str) -> None:
    assert join(first, second) == both
    assert join(second, first) == both
    assert join(both, first) == both


class Locks:
    """Owners of different sessions on a lock manager."""

    def __init__(self) -> None:
        self.world = World()
        self.manager: LockManager = self.world.locks
        self.clock, self.scheduler = self.world.clock, self.world.scheduler
        self.clock.freeze()
        self.number = 60

    def owner(self, timeout: int = -1, priority: int = 0) -> Owner:
        self.number += 1
        session = FakeSession(self.number)
        session.lock_timeout, session.deadlock_priority = timeout, priority
        return Owner(session)

    def ask(self, owner: Owner, resource: str, mode: str):  # type: ignore[no-untyped-def]
        return self.world.task(self.manager.acquire, owner, resource, mode)

    def pass_time(self, seconds: float) -> None:
        self.clock.advance(seconds)
        self.clock.run_due()
        self.scheduler.run()


@pytest.fixture
def locks() -> Locks:
    return Locks()


def test_an_owner_gets_its_own_lock_again_for_nothing(locks: Locks) -> None:
    owner = locks.owner()
    assert locks.manager.acquire(owner, "k", "U") is None
    assert locks.manager.acquire(owner, "k", "S") == "U"
    assert owner.held == {"k": "U"}
    assert owner.session.work.locks == 1


def test_waiters_are_served_in_the_order_in_which_they_came(locks: Locks) -> None:
    holder, *others = (locks.owner() for _ in range(4))
    locks.manager.acquire(holder, "k", "X")
    tasks = [locks.ask(other, "k", "X") for other in others]
    owners = [holder, *others]
    for place in range(3):
        assert [task.done for task in tasks] == [i < place for i in range(3)]
        locks.manager.release_all(owners[place])
        locks.scheduler.run()
    assert all(task.done for task in tasks)
    assert [owner.session.work.lock_waits for owner in others] == [1, 1, 1]


def test_a_later_reader_does_not_overtake_a_waiting_writer(locks: Locks) -> None:
    reader, writer, late = locks.owner(), locks.owner(), locks.owner()
    locks.manager.acquire(reader, "k", "S")
    writing, reading = locks.ask(writer, "k", "X"), locks.ask(late, "k", "S")
    assert not reading.done
    locks.manager.release_all(reader)
    locks.scheduler.run()
    assert writing.done
    assert not reading.done


def test_a_conversion_goes_before_the_queue(locks: Locks) -> None:
    converter, other, waiter = locks.owner(), locks.owner(), locks.owner()
    locks.manager.acquire(converter, "k", "U")
    locks.manager.acquire(other, "k", "S")
    waiting, converting = locks.ask(waiter, "k", "X"), locks.ask(converter, "k", "X")
    locks.manager.release_all(other)
    locks.scheduler.run()
    assert converting.done
    assert not waiting.done
    assert converter.held["k"] == "X"


def test_a_conversion_is_served_before_a_request_that_came_earlier(locks: Locks) -> None:
    converter, other, waiter = locks.owner(), locks.owner(), locks.owner()
    locks.manager.acquire(converter, "t", "IS")
    locks.manager.acquire(other, "t", "SIX")
    waiting, converting = locks.ask(waiter, "t", "IX"), locks.ask(converter, "t", "S")
    locks.manager.release_all(other)
    locks.scheduler.run()
    assert converting.done
    assert not waiting.done


def test_a_lock_falls_back_to_what_it_was(locks: Locks) -> None:
    owner, other = locks.owner(), locks.owner()
    before = locks.manager.acquire(owner, "k", "S")
    middle = locks.manager.acquire(owner, "k", "X")
    waiting = locks.ask(other, "k", "S")
    locks.manager.release(owner, "k", middle)
    locks.scheduler.run()
    assert waiting.done
    assert owner.held == {"k": "S"}
    locks.manager.release(owner, "k", before)
    assert owner.held == {}
    assert locks.manager.owners("k") == {other: "S"}


def test_a_lock_that_is_only_tested_leaves_nothing_behind(locks: Locks) -> None:
    holder, tester, later = locks.owner(), locks.owner(), locks.owner()
    locks.manager.acquire(holder, "k", "RangeS-U")
    task = locks.world.task(lambda: locks.manager.acquire(tester, "k", "RangeI-N", lasting=False))
    assert not task.done
    locks.manager.release_all(holder)
    locks.scheduler.run()
    assert task.done
    assert tester.held == {}
    assert locks.manager.try_acquire(later, "k", "RangeX-X")


def test_owners_of_one_session_do_not_exclude_each_other(locks: Locks) -> None:
    transaction = locks.owner()
    assert locks.manager.try_acquire(transaction, "app", "X")
    assert locks.manager.try_acquire(Owner(transaction.session), "app", "X")


def test_try_acquire_neither_waits_nor_queues(locks: Locks) -> None:
    holder, other = locks.owner(), locks.owner()
    locks.manager.acquire(holder, "k", "X")
    assert not locks.manager.try_acquire(other, "k", "S")
    assert other.session.work.lock_waits == 0
    assert other.held == {}


# --- LOCK_TIMEOUT: "SET LOCK_TIMEOUT (Transact-SQL)" ---------------------------------------------


def test_a_wait_ends_in_1222_when_the_servers_clock_has_counted_lock_timeout(locks: Locks) -> None:
    holder, waiter = locks.owner(), locks.owner(timeout=3000)
    locks.manager.acquire(holder, "k", "X")
    task = locks.ask(waiter, "k", "S")
    locks.pass_time(2.9)
    assert not task.done
    locks.pass_time(0.2)
    assert number_of(task) == 1222
    assert str(task.error) == "Lock request time out period exceeded."
    locks.manager.release_all(holder)
    assert locks.manager.owners("k") == {}


def test_a_wait_counts_from_when_it_can_be_seen(locks: Locks) -> None:
    """Another thread may move the clock on that sight, before the waiting task has given up the thread."""

    class MovesTheClock(Work):
        def __setattr__(self, name: str, value: int) -> None:
            if name == "lock_waits" and value == 1:
                assert locks.manager.waiting(waiter.session) is not None
                locks.clock.advance(3)
            super().__setattr__(name, value)

    holder, waiter = locks.owner(), locks.owner(timeout=3000)
    assert isinstance(waiter.session, FakeSession)
    waiter.session.work = MovesTheClock()
    locks.manager.acquire(holder, "k", "X")
    task = locks.ask(waiter, "k", "S")
    locks.pass_time(0)
    assert number_of(task) == 1222


def test_with_lock_timeout_zero_it_fails_at_once(locks: Locks) -> None:
    holder, waiter = locks.owner(), locks.owner(timeout=0)
    locks.manager.acquire(holder, "k", "X")
    with pytest.raises(SqlError) as failure:
        locks.manager.acquire(waiter, "k", "S")
    assert (failure.value.number, failure.value.severity) == (1222, 16)


def test_without_lock_timeout_it_waits_for_ever(locks: Locks) -> None:
    holder, waiter = locks.owner(), locks.owner()
    locks.manager.acquire(holder, "k", "X")
    task = locks.ask(waiter, "k", "S")
    locks.pass_time(86_400)
    assert not task.done
    assert locks.manager.waiting(waiter.session) == ("k", "S")


def test_who_gives_up_lets_those_behind_pass(locks: Locks) -> None:
    holder, writer, reader = locks.owner(), locks.owner(timeout=100), locks.owner()
    locks.manager.acquire(holder, "k", "S")
    writing, reading = locks.ask(writer, "k", "X"), locks.ask(reader, "k", "S")
    assert not reading.done
    locks.pass_time(0.1)
    assert number_of(writing) == 1222
    assert reading.done


def test_an_interrupted_wait_leaves_the_queue(locks: Locks) -> None:
    holder, waiter = locks.owner(), locks.owner()
    locks.manager.acquire(holder, "k", "X")
    task = locks.ask(waiter, "k", "X")
    task.interrupt(KeyboardInterrupt())
    locks.scheduler.run()
    assert isinstance(task.error, KeyboardInterrupt)
    locks.manager.release_all(holder)
    assert locks.manager.owners("k") == {}
    assert locks.manager.waiting(waiter.session) is None


# --- deadlocks: the guide, "Detecting and ending deadlocks" --------------------------------------


def cross(locks: Locks, first: Owner, second: Owner):  # type: ignore[no-untyped-def]
    """first holds a and wants b, then second holds b and wants a."""
    locks.manager.acquire(first, "a", "X")
    locks.manager.acquire(second, "b", "X")
    return locks.ask(first, "b", "X"), locks.ask(second, "a", "X")


def test_of_two_equals_the_one_that_closed_the_circle_is_the_victim(locks: Locks) -> None:
    first, second = locks.owner(), locks.owner()
    waiting, closing = cross(locks, first, second)
    assert number_of(closing) == 1205
    assert str(closing.error) == (
        f"Transaction (Process ID {second.session.id}) was deadlocked on lock resources with another process and has"
        " been chosen as the deadlock victim. Rerun the transaction."
    )
    assert closing.error.severity == 13
    assert not waiting.done  # until the victim has rolled back
    locks.manager.release_all(second)
    locks.scheduler.run()
    assert waiting.done
    assert waiting.error is None


def test_the_one_with_the_lower_deadlock_priority_is_the_victim_though_it_waits_already(locks: Locks) -> None:
    first, second = locks.owner(priority=-5), locks.owner()
    waiting, closing = cross(locks, first, second)
    assert number_of(waiting) == 1205
    assert not closing.done
    locks.manager.release_all(first)
    locks.scheduler.run()
    assert closing.done
    assert closing.error is None


def test_the_one_with_less_to_roll_back_is_the_victim() -> None:
    world = World()
    world.fill(a=1, b=1)
    busy, idle = world.begin(), world.begin()
    for tx, name in ((idle, "a"), (busy, "b")):
        world.locks.acquire(tx, world.key.resource(world.key.key_of((name, 0, None), ())), "X")
    world.task(world.put, busy, "x", 1)
    waiting = world.task(world.read, idle, REPEATABLE_READ, "b")
    closing = world.task(world.read, busy, REPEATABLE_READ, "a")
    assert number_of(waiting) == 1205
    assert not closing.done


def test_a_conversion_deadlock_is_found(locks: Locks) -> None:
    # The guide, "Update locks": two readers that both want to convert S to X.
    first, second = locks.owner(), locks.owner()
    locks.manager.acquire(first, "k", "S")
    locks.manager.acquire(second, "k", "S")
    waiting, closing = locks.ask(first, "k", "X"), locks.ask(second, "k", "X")
    assert number_of(closing) == 1205
    assert not waiting.done


def test_a_circle_through_a_queue_is_found(locks: Locks) -> None:
    # reader does not exclude holder, but waits behind writer, who waits for holder, who wants what reader has.
    holder, writer, reader = locks.owner(), locks.owner(), locks.owner()
    locks.manager.acquire(holder, "k", "S")
    locks.manager.acquire(reader, "other", "X")
    locks.ask(writer, "k", "X")
    locks.ask(reader, "k", "S")
    assert number_of(locks.ask(holder, "other", "X")) == 1205


def test_a_circle_of_three_is_found_and_a_mere_chain_is_none(locks: Locks) -> None:
    owners = [locks.owner() for _ in range(3)]
    for owner, resource in zip(owners, "abc", strict=True):
        locks.manager.acquire(owner, resource, "X")
    chain = [locks.ask(owners[0], "b", "S"), locks.ask(owners[1], "c", "S")]
    assert not any(task.done for task in chain)
    assert number_of(locks.ask(owners[2], "a", "S")) == 1205


def test_a_lock_of_the_session_itself_counts_in_a_circle(locks: Locks) -> None:
    # sp_getapplock with @LockOwner = 'Session', then a wait inside a transaction of the same session.
    first, second = locks.owner(), locks.owner()
    locks.manager.acquire(Owner(first.session), "app", "X")
    locks.manager.acquire(second, "row", "X")
    locks.ask(first, "row", "X")
    assert number_of(locks.ask(second, "app", "X")) == 1205


def test_who_does_not_wait_is_in_no_circle(locks: Locks) -> None:
    first, second = locks.owner(), locks.owner(timeout=0)
    waiting, closing = cross(locks, first, second)
    assert number_of(closing) == 1222
    assert not waiting.done
