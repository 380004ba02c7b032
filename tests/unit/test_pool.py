"""The few connections of a store: who has one, which are dropped, and how little one restart of the server costs."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from contextlib import ExitStack
from typing import cast

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError, pool
from sqllease.connection import Connection, Connector
from sqllease.faults import Fault, Kind, Retry
from sqllease.pool import Pool, Shelf

CUT = Retry(Fault(Kind.MOVED, 10054))


class FakeConnection:
    """A link that can be cut; only the first question after that shows it."""

    def __init__(self, raw: object = None, hidden: tuple[str, ...] = ()) -> None:
        self.usable = True
        self.broken = False
        self.link_is_up = True
        self.drops = 0

    def ask(self) -> None:
        if not self.link_is_up:
            self.cut()
            raise CUT

    def cut(self) -> None:
        """The link was found dead."""
        self.broken = True
        self.drop()

    def drop(self) -> None:
        self.usable = False
        self.drops += 1


class FakeConnector:
    """Opens, or fails as often as it is told to."""

    def __init__(self) -> None:
        self.opened = 0
        self.failures = 0
        self.hidden = ()

    def open(self, login_timeout: int) -> object:
        if self.failures:
            self.failures -= 1
            raise Retry(Fault(Kind.MOVED, sent=False))
        self.opened += 1
        return object()


def real(fake: FakeConnection) -> Connection:
    return cast(Connection, fake)


def fake(connection: Connection) -> FakeConnection:
    return cast(FakeConnection, connection)


def filled(shelf: Shelf[Connection], count: int) -> list[Connection]:
    """So many connections, taken and opened."""
    connections = []
    for _ in range(count):
        assert shelf.take() is None
        connection = real(FakeConnection())
        shelf.opened(connection)
        connections.append(connection)
    return connections


def idle(shelf: Shelf[Connection], count: int) -> list[Connection]:
    """So many connections, opened, used at the same time, and given back."""
    connections = filled(shelf, count)
    assert [shelf.give(connection) for connection in connections] == [[]] * count
    return connections


def test_an_empty_shelf_asks_its_user_to_open_one() -> None:
    assert Shelf[Connection](4).take() is None


def test_no_more_are_out_than_the_limit() -> None:
    shelf: Shelf[Connection] = Shelf(2)
    (first, _) = filled(shelf, 2)
    assert not shelf.free
    shelf.give(first)
    assert shelf.free


def test_the_connection_that_was_used_last_goes_out_first() -> None:
    # So that the others age, and few stay warm.
    shelf: Shelf[Connection] = Shelf(3)
    first, second, third = idle(shelf, 3)
    assert [shelf.take() for _ in range(3)] == [third, second, first]


def test_a_connection_that_could_not_be_opened_frees_its_place() -> None:
    shelf: Shelf[Connection] = Shelf(1)
    shelf.take()
    assert shelf.give(None) == []
    assert shelf.free


def test_after_four_idle_links_were_cut_only_one_caller_notices() -> None:
    shelf: Shelf[Connection] = Shelf(4)
    connections = idle(shelf, 4)
    broken = shelf.take()
    assert broken is not None
    fake(broken).cut()
    assert sorted(map(id, shelf.give(broken))) == sorted(map(id, connections))
    assert shelf.take() is None  # the next caller opens a fresh one


def test_one_that_was_dropped_without_a_broken_link_leaves_its_siblings_alone() -> None:
    shelf: Shelf[Connection] = Shelf(3)
    first, second, third = idle(shelf, 3)
    assert shelf.take() is third
    fake(third).drop()
    assert shelf.give(third) == [third]
    assert [shelf.take(), shelf.take()] == [second, first]


def test_one_that_is_out_when_a_sibling_breaks_is_suspect_when_it_comes_back() -> None:
    shelf: Shelf[Connection] = Shelf(2)
    first, second = filled(shelf, 2)
    fake(first).cut()
    shelf.give(first)
    assert shelf.give(second) == [second]
    assert shelf.take() is None


def test_one_that_was_opened_after_the_break_is_kept() -> None:
    shelf: Shelf[Connection] = Shelf(2)
    (broken,) = filled(shelf, 1)
    fake(broken).cut()
    shelf.give(broken)
    (fresh,) = filled(shelf, 1)
    assert shelf.give(fresh) == []
    assert shelf.take() is fresh


def test_many_that_break_together_do_not_condemn_one_that_was_opened_in_between() -> None:
    # Four calls run into one restart; each reports it at its own time.
    shelf: Shelf[Connection] = Shelf(4)
    first, second = filled(shelf, 2)
    fake(first).cut()
    shelf.give(first)
    (fresh,) = filled(shelf, 1)
    fake(second).cut()
    shelf.give(second)
    assert shelf.give(fresh) == []


def test_emptying_takes_the_idle_ones_and_leaves_those_in_use() -> None:
    shelf: Shelf[Connection] = Shelf(3)
    first, second, third = idle(shelf, 3)
    assert shelf.take() is third
    assert shelf.empty() == [first, second]
    assert shelf.give(third) == []
    assert shelf.take() is third


@pytest.fixture
def connector(monkeypatch: pytest.MonkeyPatch) -> FakeConnector:
    monkeypatch.setattr(pool, "Connection", FakeConnection)
    return FakeConnector()


def make_pool(connector: FakeConnector, limit: int = 4) -> Pool:
    return Pool(cast(Connector, connector), limit)


def use(a_pool: Pool, job: Callable[[FakeConnection], object] = FakeConnection.ask) -> FakeConnection:
    with a_pool.take(login_timeout=5, patience=0.01) as connection:
        job(fake(connection))
        return fake(connection)


def use_at_once(a_pool: Pool, count: int) -> list[FakeConnection]:
    with ExitStack() as stack:
        return [fake(stack.enter_context(a_pool.take(5, 0.01))) for _ in range(count)]


def fail_with(error: BaseException) -> Callable[[FakeConnection], None]:
    def job(_: FakeConnection) -> None:
        raise error

    return job


def test_nothing_is_opened_before_it_is_needed(connector: FakeConnector) -> None:
    make_pool(connector).close()
    assert connector.opened == 0


def test_one_call_after_the_other_shares_one_login(connector: FakeConnector) -> None:
    a_pool = make_pool(connector)
    assert len({id(use(a_pool)) for _ in range(5)}) == 1
    assert connector.opened == 1


def test_calls_at_the_same_time_get_a_connection_each(connector: FakeConnector) -> None:
    assert len({id(used) for used in use_at_once(make_pool(connector), 4)}) == 4


def test_a_caller_over_the_limit_is_told_after_its_patience_that_nothing_was_asked(connector: FakeConnector) -> None:
    a_pool = make_pool(connector, limit=1)
    with a_pool.take(5, 0.01), pytest.raises(Retry) as caught:
        use(a_pool)
    fault = caught.value.fault
    assert (fault.kind, fault.sent) == (Kind.BUSY, False)
    assert "all 1 were in use" in fault.text
    use(a_pool)  # and the place is free again afterwards


def test_after_four_idle_links_were_cut_at_most_one_try_fails(connector: FakeConnector) -> None:
    a_pool = make_pool(connector)
    for connection in use_at_once(a_pool, 4):
        connection.link_is_up = False
    failures = 0
    for _ in range(10):
        try:
            use(a_pool)
        except Retry:
            failures += 1
    assert failures == 1


def test_every_dropped_link_is_closed_once(connector: FakeConnector) -> None:
    a_pool = make_pool(connector)
    cut = use_at_once(a_pool, 4)
    for connection in cut:
        connection.link_is_up = False
    with pytest.raises(Retry):
        use(a_pool)
    assert all(not connection.usable for connection in cut)


@pytest.mark.parametrize(
    "error",
    [CUT, Retry(Fault(Kind.THROTTLED)), ValueError(), LeaseStoreError("odd"), KeyboardInterrupt(), SystemExit()],
    ids=repr,
)
def test_a_call_that_ends_in_the_middle_leaves_no_link_for_the_next(
    connector: FakeConnector, error: BaseException
) -> None:
    # It might still get the old answer.
    a_pool = make_pool(connector)
    first = use(a_pool)
    with pytest.raises(type(error)):
        use(a_pool, fail_with(error))
    assert not first.usable
    assert use(a_pool) is not first


@pytest.mark.parametrize(
    "error",
    [Retry(Fault(Kind.CONTENTION, 1222)), Retry(Fault(Kind.SET_UP, 229)), LeaseConfigurationError("the collation")],
    ids=["a busy row", "a missing right", "a name that the collation takes for another"],
)
def test_what_the_server_has_answered_is_no_reason_to_log_in_again(connector: FakeConnector, error: Exception) -> None:
    a_pool = make_pool(connector)
    used = use_at_once(a_pool, 2)
    with pytest.raises(type(error)):
        use(a_pool, fail_with(error))
    assert all(connection in used for connection in use_at_once(a_pool, 2))
    assert connector.opened == 2


def test_a_call_that_was_interrupted_costs_its_siblings_no_login(connector: FakeConnector) -> None:
    # Its own link has an answer on the way; nothing says that the others are dead.
    a_pool = make_pool(connector)
    used = use_at_once(a_pool, 3)
    with pytest.raises(KeyboardInterrupt):
        use(a_pool, fail_with(KeyboardInterrupt()))
    assert [connection.drops for connection in used].count(0) == 2


def test_a_close_that_is_interrupted_takes_no_place_for_ever(
    connector: FakeConnector, monkeypatch: pytest.MonkeyPatch
) -> None:
    a_pool = make_pool(connector, limit=1)
    first = use(a_pool)

    def interrupted() -> None:
        raise KeyboardInterrupt  # the second one, in the close that the first one has caused

    monkeypatch.setattr(first, "drop", interrupted)
    with pytest.raises(KeyboardInterrupt):
        use(a_pool, fail_with(KeyboardInterrupt()))
    monkeypatch.undo()
    first.usable = False
    assert use(a_pool) is not None


def test_a_failed_login_takes_no_place_for_ever(connector: FakeConnector) -> None:
    a_pool = make_pool(connector, limit=1)
    connector.failures = 3
    for _ in range(3):
        with pytest.raises(Retry):
            use(a_pool)
    assert use(a_pool).usable


def test_close_drops_the_idle_ones_and_the_pool_can_be_used_again(connector: FakeConnector) -> None:
    a_pool = make_pool(connector)
    used = use_at_once(a_pool, 3)
    a_pool.close()
    assert [connection.drops for connection in used] == [1, 1, 1]
    assert use(a_pool).usable


@pytest.mark.parametrize("first_step", [use, Pool.close], ids=["use", "close"])
def test_a_forked_child_starts_empty_and_leaves_the_parents_links_alone(
    connector: FakeConnector, first_step: Callable[[Pool], object]
) -> None:
    a_pool = make_pool(connector, limit=2)
    inherited = use_at_once(a_pool, 2)
    with a_pool.take(5, 0.01):  # one was in use in another thread of the parent when it forked
        assert a_pool in pool.forked_pools
        a_pool.reset()
        first_step(a_pool)
        assert all(connection not in inherited for connection in use_at_once(a_pool, 2))
        assert [connection.drops for connection in inherited] == [0, 0]


def test_a_pool_that_nobody_has_any_more_is_not_kept_for_the_sake_of_a_fork(connector: FakeConnector) -> None:
    gone = weakref.ref(make_pool(connector))
    gc.collect()
    assert gone() is None
