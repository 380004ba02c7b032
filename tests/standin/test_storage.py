"""Rows, indexes and key locks under interleaved sessions.

"Guide" is Microsoft's "Transaction locking and row versioning guide", "hints" its page "Table hints", "MERGE" its page
on that statement.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from sqllease.testing.server.scheduler import Task
from sqllease.testing.server.sqltypes import INT, SqlError, nvarchar
from sqllease.testing.server.storage import Access, Bound, Column, Commit, Index, Instance, Row, Table, Transaction
from sqllease.testing.server.transactions import RowImage
from tests.standin.world import (
    HOLDLOCK,
    NOLOCK,
    READ,
    REPEATABLE,
    UPDATE,
    UPDLOCK,
    UPDLOCK_HOLDLOCK,
    VERSIONED,
    World,
    never_wait,
    number_of,
)

READPAST = Access("U", readpast=True)


@pytest.fixture
def world() -> World:
    made = World()
    made.clock.freeze()
    made.fill(Ben=2, Bing=3, David=1)
    return made


# --- what a search locks -------------------------------------------------------------------------


def test_read_committed_gives_its_lock_back_when_the_row_was_read(world: World) -> None:
    tx = world.begin()
    assert world.read(tx, READ, "Ben") is not None
    assert world.locked(tx) == {}
    assert tx.held == {world.table.resource: "IS"}
    tx.end_statement()
    assert tx.held == {}


def test_repeatable_read_keeps_it(world: World) -> None:
    tx = world.begin()
    world.read(tx, REPEATABLE, "Ben")
    tx.end_statement()
    assert world.locked(tx) == {("PK_t", "Ben"): "S"}


def test_a_read_does_not_give_back_a_lock_that_the_transaction_had_before(world: World) -> None:
    tx = world.begin()
    world.read(tx, REPEATABLE, "Ben")
    world.read(tx, READ, "Ben")
    assert world.locked(tx) == {("PK_t", "Ben"): "S"}


def test_a_lock_that_somebody_wants_to_keep_outlives_the_statement(world: World) -> None:
    tx = world.begin()
    world.read(tx, UPDATE, "Ben")
    world.read(tx, UPDLOCK, "Ben")
    world.read(tx, UPDLOCK, "Bing")
    world.read(tx, UPDATE, "Bing")
    tx.end_statement()
    assert world.locked(tx) == {("PK_t", "Ben"): "U", ("PK_t", "Bing"): "U"}


def test_a_read_that_fails_at_the_row_gives_back_the_entry(world: World) -> None:
    world.change(world.begin(), "Ben", 2)
    for access in (READ, UPDATE, UPDLOCK):
        tx = world.begin()
        never_wait(tx)
        with pytest.raises(SqlError, match="time out"):
            list(world.table.seek(tx, access, world.expiry, (2,)))
        assert world.locked(tx) == {}


def test_readuncommitted_takes_no_key_locks_and_sees_what_is_not_committed(world: World) -> None:
    writer, reader = world.begin(), world.begin()
    world.change(writer, "Ben", 99)
    world.remove(writer, "Bing")
    world.put(writer, "Carl", 5)
    assert world.rows(NOLOCK, reader) == [("Ben", 99), ("Carl", 5), ("David", 1)]
    assert world.locked(reader) == {}
    writer.rollback()
    assert world.rows() == [("Ben", 2), ("Bing", 3), ("David", 1)]


def test_under_holdlock_a_unique_key_that_is_there_is_locked_without_its_range(world: World) -> None:
    tx = world.begin()
    world.read(tx, UPDLOCK_HOLDLOCK, "Bing")
    assert world.locked(tx) == {("PK_t", "Bing"): "U"}


def test_under_holdlock_an_absent_key_locks_the_range_to_the_next_one(world: World) -> None:
    # The guide, "Singleton fetch of nonexistent data": 'Bill' locks RangeS-S on Bing.
    tx = world.begin()
    assert world.read(tx, HOLDLOCK, "Bill") is None
    assert world.locked(tx) == {("PK_t", "Bing"): "RangeS-S"}


def test_under_holdlock_an_absent_key_behind_all_others_locks_infinity(world: World) -> None:
    tx = world.begin()
    assert world.read(tx, UPDLOCK_HOLDLOCK, "Zoe") is None
    assert world.locked(tx) == {("PK_t", "infinity"): "RangeS-U"}


@pytest.mark.parametrize("reverse", [False, True])
def test_a_serializable_scan_of_n_rows_holds_n_and_one_range_locks(world: World, reverse: bool) -> None:
    # The guide, "Range scan query".
    tx = world.begin()
    found = world.table.scan(tx, HOLDLOCK, world.key, Bound(("A",)), Bound(("C",)), reverse=reverse)
    assert sorted(str(row[0]) for _, row in found) == ["Ben", "Bing"]
    assert world.locked(tx) == dict.fromkeys([("PK_t", "Ben"), ("PK_t", "Bing"), ("PK_t", "David")], "RangeS-S")


def test_a_serializable_search_in_an_index_that_is_not_unique_locks_ranges(world: World) -> None:
    tx = world.begin()
    assert [row[0] for _, row in world.table.seek(tx, HOLDLOCK, world.expiry, (2,))] == ["Ben"]
    assert world.locked(tx) == {("IX_t", 2): "RangeS-S", ("IX_t", 3): "RangeS-S", ("PK_t", "Ben"): "S"}


def test_through_a_secondary_index_the_entry_is_locked_before_the_row(world: World) -> None:
    holder, reader = world.begin(), world.begin()
    world.read(holder, UPDLOCK, "Ben")
    task = world.task(lambda: list(world.table.seek(reader, UPDATE, world.expiry, (2,))))
    assert not task.done
    assert world.locked(reader) == {("IX_t", 2): "U"}
    holder.rollback()
    world.finish(task)


def test_a_row_that_does_not_qualify_is_unlocked_and_the_others_stay_until_the_statement_ends(world: World) -> None:
    tx = world.begin()
    for key, row in world.table.scan(tx, UPDATE, world.expiry):
        if row[0] != "Bing":
            world.table.unlock(tx, key)
    assert world.locked(tx) == {("IX_t", 3): "U", ("PK_t", "Bing"): "U"}
    tx.end_statement()
    assert world.locked(tx) == {}


def test_a_scan_can_go_backwards_and_between_bounds(world: World) -> None:
    def names(low: Bound | None, high: Bound | None, **how: bool) -> list[object]:
        return [row[0] for _, row in world.table.scan(world.begin(), READ, world.expiry, low, high, **how)]

    assert names(None, None, reverse=True) == ["Bing", "Ben", "David"]
    assert names(Bound((1,), inclusive=False), Bound((3,))) == ["Ben", "Bing"]
    assert names(Bound((1,)), Bound((3,), inclusive=False)) == ["David", "Ben"]


def test_null_sorts_first_and_can_be_sought(world: World) -> None:
    tx = world.begin()
    world.table.insert(tx, ("Null", None, None))
    assert [row[0] for _, row in world.table.scan(tx, READ, world.expiry)] == ["Null", "David", "Ben", "Bing"]
    assert [row[0] for _, row in world.table.seek(tx, READ, world.expiry, (None,))] == ["Null"]


def test_rows_read_counts_the_rows_that_were_touched(world: World) -> None:
    tx = world.begin()
    world.read(tx, READ, "Ben")
    world.read(tx, READ, "absent")
    assert tx.session.work.rows_read == 1
    list(world.table.scan(tx, NOLOCK, world.key))
    assert tx.session.work.rows_read == 4
    next(iter(world.table.scan(tx, VERSIONED, world.expiry)))
    assert tx.session.work.rows_read == 5


# --- what a write locks --------------------------------------------------------------------------


def test_an_update_holds_x_on_the_row_and_on_the_old_and_the_new_index_key(world: World) -> None:
    tx = world.begin()
    world.change(tx, "Ben", 7)
    tx.end_statement()
    old = ("IX_t", 7)  # both entries lead to the same row, whose image is the new one
    tail = world.key.key_of(("Ben",), ())
    places = [world.expiry.resource(world.expiry.key_of(("Ben", value, None), tail)) for value in (2, 7)]
    assert [tx.held[place] for place in places] == ["X", "X"]
    assert world.locked(tx)[old] == "X"
    assert world.locked(tx)["PK_t", "Ben"] == "X"
    assert tx.held[world.table.resource] == "IX"


def test_an_update_that_leaves_the_index_key_alone_does_not_lock_it(world: World) -> None:
    tx = world.begin()
    world.change(tx, "Ben", 2)
    tx.end_statement()
    assert world.locked(tx) == {("PK_t", "Ben"): "X"}


def test_an_insert_holds_x_on_its_keys_and_nothing_on_the_range(world: World) -> None:
    # The guide, "Insert operation": RangeI-N only tests the range.
    tx = world.begin()
    world.put(tx, "Dan", 5)
    assert world.locked(tx) == {("PK_t", "Dan"): "X", ("IX_t", 5): "X"}


def test_an_insert_waits_for_who_has_locked_the_range(world: World) -> None:
    reader, writer = world.begin(), world.begin()
    world.read(reader, HOLDLOCK, "Bill")
    task = world.task(world.put, writer, "Bill", 9)
    assert world.locks.waiting(writer.session) == (world.key.resource(world.key.key_of(("Bing",), ())), "RangeI-N")
    assert writer.session.work.lock_waits == 1
    reader.commit()
    world.finish(task)
    assert world.locked(writer)["PK_t", "Bill"] == "X"


@pytest.mark.parametrize("name", ["Adam", "Carl", "Zoe"])
def test_an_insert_into_another_range_does_not_wait(world: World, name: str) -> None:
    world.read(world.begin(), HOLDLOCK, "Bill")
    world.put(world.begin(), name, 9)


def test_an_insert_does_not_wait_for_a_row_lock_on_the_next_key(world: World) -> None:
    # RangeI-N is compatible with S, U and X.
    world.change(world.begin(), "Bing", 9)
    world.put(world.begin(), "Bill", 8)


def test_readers_wait_for_a_deleted_row_until_the_delete_is_committed(world: World) -> None:
    # The guide, "Delete operation": any transaction that attempts to read, insert or delete Bob is blocked.
    deleter, readers = world.begin(), [world.begin() for _ in range(3)]
    world.remove(deleter, "Ben")
    found: list[object] = []
    tasks = [
        world.task(lambda: found.append(world.read(readers[0], READ, "Ben"))),
        world.task(lambda: found.append(world.read(readers[1], HOLDLOCK, "Ben"))),
        world.task(lambda: world.put(readers[2], "Ben", 5)),
    ]
    assert not any(task.done for task in tasks)
    deleter.commit()
    world.scheduler.run()
    assert found == [None, None]
    assert world.locked(readers[1]) == {("PK_t", "Bing"): "RangeS-S"}
    readers[1].commit()
    world.finish(*tasks)


def test_after_a_wait_the_row_is_read_again(world: World) -> None:
    writer, reader = world.begin(), world.begin()
    world.change(writer, "Ben", 77)
    found: list[object] = []
    task = world.task(lambda: found.append((world.read(reader, READ, "Ben") or ())[1]))
    writer.commit()
    world.finish(task)
    assert found == [77]


def test_a_search_that_waited_for_a_key_that_goes_finds_the_next_one(world: World) -> None:
    writer, reader = world.begin(), world.begin()
    world.remove(writer, "Bing")
    task = world.task(world.read, reader, HOLDLOCK, "Bill")
    writer.commit()
    world.finish(task)
    assert world.locked(reader) == {("PK_t", "David"): "RangeS-S"}


def test_a_row_that_moved_in_the_index_while_a_reader_waited_is_not_found_at_its_old_place(world: World) -> None:
    writer, reader = world.begin(), world.begin()
    world.change(writer, "Ben", 9)
    found: list[object] = []
    task = world.task(lambda: found.extend(row[0] for _, row in world.table.seek(reader, READ, world.expiry, (2,))))
    assert not task.done
    writer.commit()
    world.finish(task)
    assert found == []


def test_readpast_skips_locked_rows(world: World) -> None:
    world.read(world.begin(), UPDLOCK, "Bing")
    reader = world.begin()
    assert [row[0] for _, row in world.table.scan(reader, READPAST, world.key)] == ["Ben", "David"]
    assert [row[0] for _, row in world.table.scan(reader, READPAST, world.expiry)] == ["David", "Ben"]
    assert reader.session.work.lock_waits == 0


def test_readpast_still_waits_when_it_writes(world: World) -> None:
    # Hints: operations that use READPAST may block when modifying secondary indexes, and when converting U to X.
    world.read(world.begin(), REPEATABLE, "Ben")
    sweeper = world.begin()
    never_wait(sweeper)
    (key, _), *_ = list(world.table.scan(sweeper, READPAST, world.key))
    with pytest.raises(SqlError) as failure:
        world.table.delete(sweeper, key)
    assert failure.value.number == 1222
    assert world.rows() == [("Ben", 2), ("Bing", 3), ("David", 1)]


def test_u_becomes_x_when_the_row_is_written_and_waits_for_readers_that_keep_theirs(world: World) -> None:
    fence, taker = world.begin(), world.begin()
    world.read(fence, REPEATABLE, "Ben")
    task = world.task(world.change, taker, "Ben", 50)
    assert world.locked(taker) == {("PK_t", "Ben"): "U"}
    fence.commit()
    world.finish(task)
    assert world.locked(taker)["PK_t", "Ben"] == "X"


def test_a_table_lock_stops_writers_and_schema_modification_stops_everybody(world: World) -> None:
    shared, reader, writer = world.begin(), world.begin(), world.begin()
    world.table.lock(shared, "S")
    world.read(reader, READ, "Ben")
    writing = world.task(world.put, writer, "x", 1)
    assert not writing.done
    shared.commit()
    world.finish(writing)
    writer.commit()
    reader.commit()
    definer, late = world.begin(), world.begin()
    world.table.lock(definer, "Sch-M")
    task = world.task(world.read, late, NOLOCK, "Ben")
    assert not task.done
    definer.commit()
    world.finish(task)


@pytest.mark.parametrize("inserts", [False, True])
def test_a_serializable_transaction_finds_the_same_rows_again_also_after_an_insert_of_its_own(inserts: bool) -> None:
    # "SET TRANSACTION ISOLATION LEVEL": other transactions cannot insert into the range of keys read.
    def read_twice(world: World) -> None:
        tx = world.begin()
        first = [row[0] for _, row in world.table.scan(tx, HOLDLOCK, world.key, Bound(("b",)), Bound(("d",)))]
        if inserts:
            world.put(tx, "c", 1)
            world.scheduler.pause()
        second = [row[0] for _, row in world.table.scan(tx, READ, world.key, Bound(("b",)), Bound(("d",)))]
        tx.commit()
        assert [name for name in second if name != "c"] == first

    def insert(world: World, name: str) -> None:
        tx = world.begin()
        world.put(tx, name, 1)
        tx.commit()

    for seed in range(40):
        world = World(seed, switch_probability=0.5)
        world.fill(a=1, bb=1, e=1)
        names = ("ba", "bc", "ca", "d")
        world.finish(
            world.scheduler.spawn(lambda w=world: read_twice(w)),  # type: ignore[misc]
            *(world.scheduler.spawn(lambda w=world, n=name: insert(w, n)) for name in names),  # type: ignore[misc]
        )


# --- uniqueness ----------------------------------------------------------------------------------


def test_a_duplicate_primary_key_is_error_2627(world: World) -> None:
    tx = world.begin()
    with pytest.raises(SqlError) as failure:
        world.put(tx, "Ben", 1)
    assert (failure.value.number, failure.value.severity) == (2627, 14)
    # "MSSQLSERVER_2627".
    assert str(failure.value) == (
        "Violation of PRIMARY KEY constraint 'PK_t'. Cannot insert duplicate key in object 'dbo.t'."
        " The duplicate key value is (Ben)."
    )


def test_a_duplicate_in_a_unique_index_is_error_2601_and_nothing_of_the_row_is_left(world: World) -> None:
    world.table.attach(Index(3, "UX_t", [1], unique=True))
    tx = world.begin()
    with pytest.raises(SqlError) as failure:
        world.put(tx, "New", 2)
    assert (failure.value.number, failure.value.severity) == (2601, 14)
    assert str(failure.value) == (
        "Cannot insert duplicate key row in object 'dbo.t' with unique index 'UX_t'. The duplicate key value is (2)."
    )
    with pytest.raises(SqlError, match="2"):
        world.change(tx, "Bing", 2)
    assert world.rows() == [("Ben", 2), ("Bing", 3), ("David", 1)]
    assert [row[:2] for _, row in world.table.scan(tx, NOLOCK, world.expiry)] == [("David", 1), ("Ben", 2), ("Bing", 3)]
    tx.commit()
    assert world.rows() == [("Ben", 2), ("Bing", 3), ("David", 1)]


def test_a_unique_value_may_move_from_one_row_to_another_in_a_transaction_and_back(world: World) -> None:
    unique = Index(3, "UX_t", [1], unique=True)
    world.table.attach(unique)
    tx = world.begin()
    world.remove(tx, "Ben")
    mark = tx.mark()
    world.put(tx, "Heir", 2)
    tx.undo_to(mark)
    world.put(tx, "Next", 2)
    assert [row[0] for _, row in world.table.seek(tx, READ, unique, (2,))] == ["Next"]
    tx.rollback()
    assert [row[0] for _, row in world.table.seek(world.begin(), READ, unique, (2,))] == ["Ben"]


@pytest.mark.parametrize(("end", "number"), [(Transaction.commit, 2627), (Transaction.rollback, None)])
def test_an_insert_waits_for_the_end_of_the_one_that_has_the_key(
    world: World, end: Callable[[Transaction], None], number: int | None
) -> None:
    first, second = world.begin(), world.begin()
    world.put(first, "new", 1)
    task = world.task(world.put, second, "new", 2)
    assert not task.done
    end(first)
    world.scheduler.run()
    assert (number_of(task) if task.error else None) == number


def test_keys_compare_under_the_collation_of_their_column() -> None:
    world = World()
    for collation, names, number in (
        ("SQL_Latin1_General_CP1_CI_AS", ("Job", "JOB"), 2627),
        ("Latin1_General_100_BIN2", ("Job", "JOB"), None),
        ("Latin1_General_100_BIN2", ("Job", "Job  "), 2627),  # trailing blanks never count
    ):
        key = Index(1, "PK_c", [0], unique=True, clustered=True, constraint="PRIMARY KEY")
        table = Table(world.database, 99, "dbo", "c", [Column("name", nvarchar(9), collation=collation)], key)
        tx = world.begin()
        table.insert(tx, (names[0],))
        try:
            table.insert(tx, (names[1],))
            met = None
        except SqlError as error:
            met = error.number
        assert met == number
        tx.rollback()


# --- MERGE: two sessions, one absent name --------------------------------------------------------


def outcomes(
    access: Access, names: tuple[str, ...], seeds: range, *, present: bool = False, churn: bool = False
) -> list[int]:
    """The errors that concurrent MERGEs of these names end in."""
    numbers = []
    for seed in seeds:
        world = World(seed, switch_probability=0.5)
        world.fill(a=1, k=2, z=3, **(dict.fromkeys(names, 0) if present else {}))

        def run(name: str, value: int, world: World = world) -> None:
            tx = world.begin()
            try:
                world.merge(tx, access, name, value)
                if churn and value % 2:
                    tx.end_statement()
                    world.scheduler.pause()
                    world.remove(tx, name)
                tx.commit()
            except SqlError:
                tx.rollback()
                raise

        tasks = [world.scheduler.spawn(lambda n=name, v=i, r=run: r(n, v)) for i, name in enumerate(names)]  # type: ignore[misc]
        world.scheduler.run()
        assert all(task.done for task in tasks)
        numbers += [number_of(task) for task in tasks if task.error]
        rows = world.rows(READ)
        assert len({row[0] for row in rows}) == len(rows)
        assert world.table.versioned == {}
        assert world.locks._locks == {}
    return numbers


def test_merge_without_holdlock_meets_duplicate_keys() -> None:
    # MERGE: "specifying the HOLDLOCK will prevent against unique key violations".
    assert set(outcomes(UPDATE, ("m", "m"), range(60))) == {2627}
    assert set(outcomes(UPDLOCK, ("m", "m"), range(60))) == {2627}


@pytest.mark.parametrize("present", [False, True])
def test_merge_with_holdlock_but_without_updlock_meets_deadlocks(present: bool) -> None:
    assert set(outcomes(HOLDLOCK, ("m", "m"), range(60), present=present)) == {1205}


def test_merge_with_holdlock_deadlocks_also_for_two_names_in_one_gap() -> None:
    assert set(outcomes(HOLDLOCK, ("m", "n"), range(60))) == {1205}


@pytest.mark.parametrize(
    "names", [("m",) * 5, ("l", "m", "n", "o"), ("b", "c", "m", "n", "zz", "zzz"), ("m", "m", "n", "n", "zz", "zz")]
)
@pytest.mark.parametrize("churn", [False, True])
def test_merge_with_both_hints_meets_neither_ever(names: tuple[str, ...], churn: bool) -> None:
    assert outcomes(UPDLOCK_HOLDLOCK, names, range(60), churn=churn) == []
    assert outcomes(UPDLOCK_HOLDLOCK, names, range(20), present=True, churn=churn) == []


def test_two_absent_names_in_different_gaps_do_not_meet(world: World) -> None:
    world.merge(world.begin(), UPDLOCK_HOLDLOCK, "Bill", 1)
    world.merge(world.begin(), UPDLOCK_HOLDLOCK, "Carl", 1)


def test_two_absent_names_in_one_gap_queue_for_one_commit(world: World) -> None:
    first, second = world.begin(), world.begin()
    world.merge(first, UPDLOCK_HOLDLOCK, "Carl", 1)
    task = world.task(world.merge, second, UPDLOCK_HOLDLOCK, "Chris", 2)
    assert not task.done
    first.commit()
    world.finish(task)
    assert world.locked(second) == {("PK_t", "Chris"): "RangeX-X", ("IX_t", 2): "X", ("PK_t", "David"): "RangeS-U"}


@pytest.mark.parametrize(("fence", "waits"), [(REPEATABLE, False), (UPDLOCK, True)])
def test_a_fence_with_u_blocks_the_acquire_of_an_absent_neighbour_and_one_with_s_does_not(
    world: World, fence: Access, waits: bool
) -> None:
    world.read(world.begin(), fence, "Bing")
    assert world.task(world.merge, world.begin(), UPDLOCK_HOLDLOCK, "Bill", 1).done is not waits


def sweep_by_expiry(world: World, tx: Transaction, expires: int) -> None:
    """DELETE t WHERE expires = ..."""
    for key, _ in list(world.table.seek(tx, UPDATE, world.expiry, (expires,))):
        world.table.delete(tx, key)


def test_a_sweep_through_the_index_and_an_update_through_the_key_deadlock(world: World) -> None:
    sweeper, taker = world.begin(), world.begin()
    world.table.lock(taker, "IX")
    (key, row), *_ = list(world.table.seek(taker, UPDATE, world.key, ("Ben",)))
    sweep = world.task(sweep_by_expiry, world, sweeper, 2)
    take = world.task(world.table.update, taker, key, (row[0], 50, row[2]))
    errors = [task.error for task in (sweep, take) if task.error]
    assert [error.number for error in errors if isinstance(error, SqlError)] == [1205]


def test_a_sweep_that_never_waits_is_in_no_deadlock(world: World) -> None:
    sweeper, taker = world.begin(), world.begin()
    never_wait(sweeper)
    (key, row), *_ = list(world.table.seek(taker, UPDATE, world.key, ("Ben",)))
    sweep = world.task(sweep_by_expiry, world, sweeper, 2)
    assert number_of(sweep) == 1222
    sweeper.rollback()
    world.finish(world.task(world.table.update, taker, key, (row[0], 50, row[2])))


# --- transactions --------------------------------------------------------------------------------


def everything(world: World) -> list[list[object]]:
    tx = world.begin()
    seen: list[list[object]] = [list(world.table.scan(tx, NOLOCK, index)) for index in (world.key, world.expiry)]
    tx.commit()
    return [*seen, list(world.key.entries), list(world.expiry.entries)]


def test_a_rollback_restores_the_rows_and_all_indexes(world: World) -> None:
    before = everything(world)
    tx = world.begin()
    world.change(tx, "Ben", 8)
    world.change(tx, "Ben", 9)
    world.remove(tx, "David")
    world.put(tx, "David", 11)
    world.put(tx, "Zoe", 12)
    world.remove(tx, "Zoe")
    (key, row), *_ = list(world.table.seek(tx, UPDATE, world.key, ("Bing",)))
    moved = world.table.update(tx, key, ("Bong", 3, row[2]))
    assert moved is not None
    assert world.rows() == [("Ben", 9), ("Bong", 3), ("David", 11)]
    tx.rollback()
    assert everything(world) == before
    assert world.table.versioned == {}
    assert tx.held == {}


def test_a_savepoint_is_gone_back_to_and_stays(world: World) -> None:
    tx = world.begin()
    world.change(tx, "Ben", 20)
    tx.save("here")
    for value in (30, 40):
        world.change(tx, "Ben", value)
        world.remove(tx, "Bing")
        tx.rollback_to("here")
        assert world.rows() == [("Ben", 20), ("Bing", 3), ("David", 1)]
    with pytest.raises(SqlError, match="No transaction or savepoint of that name was found") as failure:
        tx.rollback_to("elsewhere")
    assert failure.value.number == 6401
    assert world.locked(tx)["PK_t", "Bing"] == "X"  # "SAVE TRANSACTION": resources continue to be held
    tx.commit()
    assert world.rows() == [("Ben", 20), ("Bing", 3), ("David", 1)]


def test_a_failed_statement_is_undone_alone(world: World) -> None:
    tx = world.begin()
    world.put(tx, "one", 1)
    mark = tx.mark()
    world.put(tx, "two", 2)
    with pytest.raises(SqlError):
        world.put(tx, "Ben", 3)
    tx.undo_to(mark)
    tx.commit()
    assert [row[0] for row in world.rows()] == ["Ben", "Bing", "David", "one"]


def test_random_transactions_leave_what_a_model_says() -> None:
    for seed in range(15):
        world, chance = World(seed), random.Random(seed)
        model: dict[str, int] = {}
        for _ in range(30):
            tx, draft = world.begin(), dict(model)
            saved, mark = dict(draft), tx.mark()
            for _ in range(chance.randrange(8)):
                name, value = chance.choice("abcdef"), chance.randrange(5)
                action = chance.randrange(4)
                if action == 0:
                    world.remove(tx, name)
                    draft.pop(name, None)
                elif action == 1:
                    tx.undo_to(mark)
                    draft = dict(saved)
                elif name in draft:
                    world.change(tx, name, value)
                    draft[name] = value
                else:
                    world.put(tx, name, value)
                    draft[name] = value
            if chance.random() < 0.6:
                tx.commit()
                model = draft
            else:
                tx.rollback()
            assert dict(world.rows()) == model
            by_expiry = [row[1::-1] for _, row in world.table.scan(world.begin(), NOLOCK, world.expiry)]
            assert by_expiry == sorted((value, name) for name, value in model.items())
            assert len(world.key.entries) == len(world.expiry.entries) == len(model)


# --- rowversion ----------------------------------------------------------------------------------


def test_rowversion_rises_with_every_write_and_never_goes_back(world: World) -> None:
    tx = world.begin()
    first = world.change(tx, "Ben", 5)
    tx.rollback()
    tx = world.begin()
    second = world.change(tx, "Ben", 2)  # "rowversion": also when no value changes
    world.remove(tx, "Ben")
    third = world.put(tx, "Ben", 2)
    assert first is not None
    assert second is not None
    assert first[2] < second[2] < third[2]  # type: ignore[operator]
    assert isinstance(third[2], bytes)
    assert len(third[2]) == 8


def test_rowversion_skips_values_that_end_in_a_zero_byte(world: World) -> None:
    values = [int.from_bytes(world.database.next_rowversion(), "big") for _ in range(600)]
    assert not any(value % 256 == 0 for value in values)
    assert values == sorted(set(values))


def test_rowversions_of_one_row_rise_in_the_order_of_commits() -> None:
    for seed in range(20):
        world = World(seed, switch_probability=0.5)
        world.fill(a=0)
        seen: list[bytes] = []

        def renew(world: World = world, seen: list[bytes] = seen) -> None:
            tx = world.begin()
            row = world.change(tx, "a", 1)
            tx.commit()
            assert row is not None
            assert isinstance(row[2], bytes)
            seen.append(row[2])

        tasks: list[Task] = [world.scheduler.spawn(renew) for _ in range(4)]
        world.finish(*tasks)
        assert seen == sorted(seen)


# --- row versions: the guide, "Row versioning-based isolation levels" ---------------------------


def test_read_committed_snapshot_sees_what_was_committed_when_the_statement_began(world: World) -> None:
    writer, reader = world.begin(), world.begin()
    world.change(writer, "Ben", 9)
    world.remove(writer, "Bing")
    world.put(writer, "Carl", 4)
    old = [("Ben", 2), ("Bing", 3), ("David", 1)]
    assert world.rows(VERSIONED, reader) == old
    by_expiry = [row[:2] for _, row in world.table.scan(reader, VERSIONED, world.expiry)]
    assert by_expiry == [("David", 1), ("Ben", 2), ("Bing", 3)]
    assert [row[1] for _, row in world.table.seek(writer, VERSIONED, world.key, ("Ben",))] == [9]  # its own
    writer.commit()
    assert world.rows(VERSIONED, reader) == old  # the same statement
    reader.end_statement()
    assert world.rows(VERSIONED, reader) == [("Ben", 9), ("Carl", 4), ("David", 1)]
    reader.commit()
    assert world.table.versioned == {}


def test_a_versioned_read_takes_no_key_locks_and_waits_for_none(world: World) -> None:
    world.change(world.begin(), "Ben", 9)
    reader = world.begin()
    world.rows(VERSIONED, reader)
    assert reader.held == {world.table.resource: "Sch-S"}


def test_a_scan_of_a_snapshot_is_not_disturbed_by_commits_on_its_way(world: World) -> None:
    for index in (world.key, world.expiry):
        for reverse in (False, True):
            reader = world.begin("SNAPSHOT")
            world.database.allow_snapshot = True
            expected = [row[0] for _, row in world.table.scan(world.begin(), READ, index, reverse=reverse)]
            scan = world.table.scan(reader, VERSIONED, index, reverse=reverse)
            seen = [next(scan)[1][0]]
            writer = world.begin()
            world.remove(writer, "Bing")
            world.change(writer, "David", 10)
            world.change(writer, "Ben", 0)
            world.put(writer, "Cora", 2)
            writer.commit()
            seen += [row[0] for _, row in scan]
            assert seen == expected
            reader.commit()
            cleaner = world.begin()
            world.remove(cleaner, "Cora")
            world.put(cleaner, "Bing", 3)
            world.change(cleaner, "David", 1)
            world.change(cleaner, "Ben", 2)
            cleaner.commit()
            assert world.table.versioned == {}


def snapshot(world: World) -> Transaction:
    world.database.allow_snapshot = True
    tx = world.begin("SNAPSHOT")
    assert world.read(tx, VERSIONED, "Ben") is not None
    return tx


def test_a_snapshot_transaction_sees_one_state_to_its_end(world: World) -> None:
    tx, writer = snapshot(world), world.begin()
    world.change(writer, "Ben", 9)
    world.remove(writer, "David")
    writer.commit()
    tx.end_statement()
    assert world.rows(VERSIONED, tx) == [("Ben", 2), ("Bing", 3), ("David", 1)]
    assert world.change(tx, "Bing", 30) is not None
    assert world.rows(VERSIONED, tx) == [("Ben", 2), ("Bing", 30), ("David", 1)]
    tx.commit()
    assert world.rows() == [("Ben", 9), ("Bing", 30)]
    assert world.table.versioned == {}


def test_a_snapshot_outlives_a_change_that_is_rolled_back(world: World) -> None:
    tx = snapshot(world)
    for end in (Transaction.commit, Transaction.rollback):
        writer = world.begin()
        world.change(writer, "Ben", 9)
        end(writer)
    assert world.rows(VERSIONED, tx)[0] == ("Ben", 2)


@pytest.mark.parametrize("how", ["changed", "deleted", "replaced"])
def test_writing_a_row_that_was_changed_since_the_snapshot_is_error_3960(world: World, how: str) -> None:
    tx, writer = snapshot(world), world.begin()
    if how == "changed":
        world.change(writer, "Ben", 9)
    else:
        world.remove(writer, "Ben")
    if how == "replaced":
        world.put(writer, "Ben", 9)
    writer.commit()
    with pytest.raises(SqlError) as failure:
        world.change(tx, "Ben", 50)
    assert failure.value.number == 3960
    assert str(failure.value).startswith(
        "Snapshot isolation transaction aborted due to update conflict. You cannot use snapshot isolation to access"
        " table 'dbo.t' directly or indirectly in database 'app' to update, delete, or insert the row"
    )
    tx.rollback()


def test_a_snapshot_writer_waits_for_the_other_writer_and_then_meets_the_conflict_or_not(world: World) -> None:
    for end, number in ((Transaction.commit, 3960), (Transaction.rollback, None)):
        tx, writer = snapshot(world), world.begin()
        world.change(writer, "Bing", 9)
        task = world.task(world.change, tx, "Bing", 50)
        assert not task.done
        end(writer)
        world.scheduler.run()
        assert (number_of(task) if task.error else None) == number
        tx.rollback()


def test_updlock_in_a_snapshot_transaction_meets_the_conflict_when_it_reads(world: World) -> None:
    tx, writer = snapshot(world), world.begin()
    world.change(writer, "Ben", 9)
    writer.commit()
    with pytest.raises(SqlError) as failure:
        world.read(tx, UPDLOCK, "Ben")
    assert failure.value.number == 3960


def test_a_locking_read_in_a_snapshot_transaction_sees_what_is_committed_now(world: World) -> None:
    # Hints: READCOMMITTEDLOCK. "SET TRANSACTION ISOLATION LEVEL": a table hint specifies different locking behaviour.
    tx, writer = snapshot(world), world.begin()
    world.change(writer, "Ben", 9)
    writer.commit()
    assert (world.read(tx, READ, "Ben") or ())[:2] == ("Ben", 9)


def test_older_versions_get_a_new_column_too(world: World) -> None:
    tx, writer = snapshot(world), world.begin()
    world.change(writer, "Ben", 9)
    world.remove(writer, "Bing")
    writer.commit()
    tx.end_statement()
    definer = world.begin()
    world.table.lock(definer, "Sch-M")
    world.table.alter_columns(definer, [*world.table.columns, Column("extra", INT)], lambda row: (*row, 7))
    definer.commit()
    assert [(row[1], row[3]) for _, row in world.table.scan(tx, VERSIONED, world.key)] == [(2, 7), (3, 7), (1, 7)]


def test_rows_changed_after_a_new_column_get_their_old_shape_back(world: World) -> None:
    before = everything(world)
    for end in (lambda tx: tx.rollback_to("s"), Transaction.rollback):
        tx = world.begin()
        tx.save("s")
        world.table.lock(tx, "Sch-M")
        world.table.alter_columns(tx, [*world.table.columns, Column("extra", INT)], lambda row: (*row, 7))
        for key, row in list(world.table.scan(tx, UPDATE, world.key)):
            world.table.update(tx, key, (*row[:3], 8))
        end(tx)
        tx.end_statement()
        if not tx.ended:
            tx.commit()
        assert everything(world) == before
        assert world.table.versioned == {}


def test_snapshot_isolation_must_be_allowed_and_chosen_from_the_start(world: World) -> None:
    with pytest.raises(SqlError) as failure:
        world.read(world.begin("SNAPSHOT"), VERSIONED, "Ben")
    assert failure.value.number == 3952
    world.database.allow_snapshot = True
    late = world.begin()
    late.isolation = "SNAPSHOT"
    with pytest.raises(SqlError) as failure:
        world.read(late, VERSIONED, "Ben")
    assert failure.value.number == 3951


# --- tables --------------------------------------------------------------------------------------


def test_a_heap_keeps_its_rows_in_the_order_of_their_coming(world: World) -> None:
    heap = Table(world.database, 8, "dbo", "h", [Column("n", INT)])
    tx = world.begin()
    for value in (5, 3, 5):
        heap.insert(tx, (value,))
    keys = [key for key, _ in heap.scan(tx, UPDATE, heap.clustered)]
    assert heap.update(tx, keys[1], (4,)) == (keys[1], (4,))
    heap.delete(tx, keys[0])
    tx.commit()
    assert [row for _, row in heap.scan(world.begin(), READ, heap.clustered)] == [(4,), (5,)]
    assert heap.row_count() == 2


def test_a_truncated_table_is_empty_until_it_is_rolled_back(world: World) -> None:
    before = everything(world)
    tx = world.begin()
    world.table.truncate(tx)
    assert world.rows(NOLOCK, tx) == []
    world.put(tx, "Ben", 1)
    tx.rollback()
    assert everything(world) == before


def test_identity_never_goes_back(world: World) -> None:
    table = Table(world.database, 8, "dbo", "i", [Column("id", INT, identity=(10, 5))])
    assert [table.next_identity() for _ in range(3)] == [10, 15, 20]


def test_an_index_over_duplicates_is_error_1505(world: World) -> None:
    world.fill(Twin=2)
    with pytest.raises(SqlError) as failure:
        world.table.add_index(world.begin(), Index(3, "UX_t", [1], unique=True))
    assert failure.value.number == 1505
    assert len(world.table.indexes) == 1


def test_a_read_only_database_refuses_writes(world: World) -> None:
    world.database.read_only = True
    for write in (lambda tx: world.put(tx, "x", 1), lambda tx: world.remove(tx, "Ben"), world.table.truncate):
        with pytest.raises(SqlError) as failure:
            write(world.begin())
        assert str(failure.value) == 'Failed to update database "app" because the database is read-only.'
        assert failure.value.number == 3906


def test_schema_changes_are_rolled_back(world: World) -> None:
    tx = world.begin()
    other = Table(world.database, 8, "dbo", "o", [Column("n", INT)])
    world.database.create_table(tx, other)
    world.database.drop_table(tx, world.table)
    world.table.add_index(tx, Index(3, "IX_2", [1]))
    world.table.drop_index(tx, world.expiry)
    world.table.alter_columns(tx, [*world.table.columns, Column("extra", INT)], lambda row: (*row, 7))
    assert world.rows(NOLOCK, tx) == [("Ben", 2), ("Bing", 3), ("David", 1)]
    assert [row[3:] for _, row in world.table.scan(tx, READ, world.key)] == [(7,), (7,), (7,)]
    tx.rollback()
    assert world.database.table("DBO", "T") is world.table
    assert world.database.table("dbo", "o") is None
    assert [index.name for index in world.table.indexes] == ["IX_t"]
    assert [len(row) for _, row in world.table.scan(world.begin(), READ, world.key)] == [3, 3, 3]


# --- the log, and a replica that applies it -----------------------------------------------------


def replica_of(world: World) -> World:
    """A database of the same ids on an instance of its own, with everything that is in the log."""
    copy = object.__new__(World)
    copy.__dict__.update(world.__dict__)
    copy.instance = Instance(world.clock, world.scheduler)
    copy.locks = copy.instance.locks
    copy.database = copy.instance.create_database("app")
    for commit in world.log:
        copy.database.apply(commit)
    copy.table = copy.database.by_id(world.table.id)
    copy.key, copy.expiry = copy.table.clustered, copy.table.indexes[0]
    return copy


def test_a_replica_that_applies_the_log_has_the_same_rows_indexes_and_counter(world: World) -> None:
    tx = world.begin()
    world.change(tx, "Ben", 20)
    world.remove(tx, "David")
    mark = tx.mark()
    world.put(tx, "undone", 1)
    tx.undo_to(mark)
    world.table.alter_columns(tx, [*world.table.columns, Column("extra", INT)], lambda row: (*row, None))
    world.table.insert(tx, ("Eve", 4, None, 5))
    tx.commit()
    refused = world.begin()
    world.table.delete(refused, next(iter(world.key.entries)))
    refused.rollback()
    replica = replica_of(world)
    assert everything(replica) == everything(world)
    assert [len(row) for _, row in replica.table.scan(replica.begin(), NOLOCK, replica.key)] == [4, 4, 4]
    assert replica.database.rowversion == world.log[-1].rowversion
    assert replica.database.sequence == world.database.sequence


def test_a_commit_is_handed_on_as_it_happens_and_a_rollback_is_not(world: World) -> None:
    seen: list[Commit] = []
    world.database.on_commit = seen.append
    empty, refused, tx = world.begin(), world.begin(), world.begin()
    empty.commit()
    world.put(refused, "x", 1)
    refused.rollback()
    world.put(tx, "y", 1)
    tx.commit()
    assert [commit.sequence for commit in seen] == [world.database.sequence]


def test_a_reader_of_the_replica_keeps_its_snapshot_while_commits_arrive(world: World) -> None:
    replica = replica_of(world)
    replica.database.allow_snapshot = True
    reader = replica.begin("SNAPSHOT")
    assert len(replica.rows(VERSIONED, reader)) == 3
    tx = world.begin()
    world.change(tx, "Ben", 9)
    world.remove(tx, "Bing")
    world.put(tx, "Zoe", 1)
    tx.commit()
    replica.database.apply(world.log[-1])
    assert replica.rows(VERSIONED, reader) == [("Ben", 2), ("Bing", 3), ("David", 1)]
    reader.commit()
    assert replica.rows(VERSIONED) == [("Ben", 9), ("David", 1), ("Zoe", 1)]
    assert replica.table.versioned == {}


# --- size ----------------------------------------------------------------------------------------


def test_a_seek_among_a_hundred_thousand_rows_touches_one(world: World) -> None:
    rows: list[Row] = [(f"n{number}", number, bytes(8)) for number in range(100_000)]
    images = tuple(RowImage(world.table.id, world.key.key_of(row, ()), row) for row in rows)
    world.database.apply(Commit(world.database.sequence + 1, images, 5000))
    reader = world.begin()
    for number in range(0, 100_000, 100):
        world.read(reader, READ, f"n{number}")
    assert reader.session.work.rows_read == 1000
