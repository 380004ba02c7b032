"""What an operator may look at and end: get, list, break_lease, purge."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pyodbc
import pytest

from sqllease import LeaseOptions, LeaseStore, LeaseValueError

from .support import MakeLease, World, add_expired_rows, locked_row, names_in, requests_of

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

RESTING = LeaseOptions(hold_at_least=600)


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests move the server's clock and need a table of their own."""
    return server.connection_string(driver=driver.odbc)


class TestGet:
    def test_a_lease_without_a_row_is_none(self, store: LeaseStore) -> None:
        assert store.get("nobody's") is None

    def test_a_held_lease_shows_who_and_how_long(self, store: LeaseStore, world: World) -> None:
        lease = store.lease("job", metadata="host 7", clock=world.client)
        lease.try_acquire()
        world.passes(10)
        lease.try_renew()
        world.passes(5)
        info = store.get("job")
        assert info is not None
        assert (info.name, info.owner_id, info.metadata) == ("job", lease.owner_id, "host 7")
        assert (info.resting, info.expired, info.remaining) == (False, False, 25)
        assert info.renewed_at - info.acquired_at == timedelta(seconds=10)
        assert info.expires_at - info.renewed_at == timedelta(seconds=30)

    def test_an_expired_lease_is_shown_with_nothing_remaining(self, store: LeaseStore, world: World) -> None:
        store.lease("job").try_acquire()
        world.server.clock.advance(31)
        info = store.get("job")
        assert info is not None
        assert (info.expired, info.remaining) == (True, 0.0)

    def test_a_resting_lease_shows_who_held_it_last(self, store: LeaseStore, world: World) -> None:
        lease = store.lease("job", options=RESTING)
        lease.try_acquire()
        world.server.clock.advance(100)
        lease.try_release()
        info = store.get("job")
        assert info is not None
        assert (info.resting, info.owner_id, info.remaining) == (True, lease.owner_id, 500)

    def test_it_waits_for_nobody(self, store: LeaseStore, server: LocalSqlServer, dsn: str) -> None:
        store.lease("job").try_acquire()
        with locked_row(dsn, "job"):
            server.log.clear()
            assert store.get("job") is not None
            assert len(store.list()) == 1
            assert sum(request.work.lock_waits for request in server.log.requests) == 0

    @pytest.mark.parametrize("name", ["", " job", "x" * 201, None])
    def test_a_name_that_cannot_be_one_is_refused(self, store: LeaseStore, name: Any) -> None:
        with pytest.raises(LeaseValueError):
            store.get(name)


class TestList:
    def test_an_empty_table_is_an_empty_list(self, store: LeaseStore) -> None:
        assert store.list() == []

    def test_all_rows_come_in_the_order_of_their_names(self, store: LeaseStore, world: World) -> None:
        for name in ("b", "C", "a", "A"):
            store.lease(name).try_acquire()
        world.server.clock.advance(31)
        held, rests = store.lease("d"), store.lease("e", options=RESTING)
        held.try_acquire()
        rests.try_acquire()
        rests.try_release()
        listed = store.list()
        assert [info.name for info in listed] == ["A", "C", "a", "b", "d", "e"]
        assert [info.expired for info in listed] == [True] * 4 + [False] * 2
        assert [info.resting for info in listed] == [False] * 5 + [True]

    def test_each_row_is_what_get_shows(self, store: LeaseStore, world: World) -> None:
        store.lease("a", metadata="m").try_acquire()
        store.lease("b").try_acquire()
        assert store.list() == [store.get("a"), store.get("b")]


class TestBreak:
    def test_it_takes_the_lease_from_the_owner_that_was_seen(self, store: LeaseStore, world: World) -> None:
        lease, other = store.lease("job", metadata="m", clock=world.client), store.lease("job", clock=world.client)
        lease.try_acquire()
        seen = store.get("job")
        assert store.break_lease("job", lease.owner_id) == seen
        assert store.get("job") is None
        assert lease.try_renew() is False
        assert lease.held is False
        assert other.try_acquire() is True

    def test_from_nobody_else(self, store: LeaseStore) -> None:
        lease = store.lease("job")
        lease.try_acquire()
        assert store.break_lease("job", "somebody else") is None
        assert lease.try_renew() is True

    def test_from_no_other_lease_of_the_owner(self, store: LeaseStore) -> None:
        one, other = store.lease("job", owner_id="me"), store.lease("Job", owner_id="me")
        one.try_acquire()
        other.try_acquire()
        store.break_lease("job", "me")
        assert one.try_renew() is False
        assert other.try_renew() is True

    def test_a_lease_without_a_row_is_none(self, store: LeaseStore) -> None:
        assert store.break_lease("job", "me") is None

    @pytest.mark.parametrize("owner", ["me", "o" * 128, "o" * 127])
    def test_a_resting_lease_goes_by_its_last_owner(self, store: LeaseStore, owner: str) -> None:
        lease = store.lease("job", owner_id=owner, options=RESTING)
        lease.try_acquire()
        lease.try_release()
        broken = store.break_lease("job", owner)
        assert broken is not None
        assert broken.resting is True
        assert broken.owner_id == owner[:127]
        assert store.lease("job").try_acquire() is True

    def test_a_resting_lease_of_another_stays(self, store: LeaseStore) -> None:
        lease = store.lease("job", owner_id="me", options=RESTING)
        lease.try_acquire()
        lease.try_release()
        assert store.break_lease("job", "you") is None
        assert store.lease("job").try_acquire() is False

    def test_an_expired_row_may_be_broken_too(self, store: LeaseStore, world: World) -> None:
        store.lease("job", owner_id="me").try_acquire()
        world.server.clock.advance(31)
        broken = store.break_lease("job", "me")
        assert broken is not None
        assert broken.expired is True

    @pytest.mark.parametrize(("name", "owner"), [("", "me"), ("job", ""), ("job", "\x01me"), ("job ", "me")])
    def test_a_bad_name_or_owner_is_refused(self, store: LeaseStore, name: str, owner: str) -> None:
        with pytest.raises(LeaseValueError):
            store.break_lease(name, owner)


class TestPurge:
    def test_it_deletes_what_has_been_expired_for_long_enough_and_counts_it(
        self, store: LeaseStore, server: LocalSqlServer, world: World
    ) -> None:
        add_expired_rows(server, 3, seconds_ago=3600, prefix="old")
        add_expired_rows(server, 2, seconds_ago=3599, prefix="young")
        store.lease("held", options=LeaseOptions(sweep_limit=0)).try_acquire()
        assert store.purge() == 3
        assert names_in(server) == ["held", "young-000000", "young-000001"]

    @pytest.mark.parametrize("older_than", [60, 60.5, timedelta(minutes=1)])
    def test_the_age_may_be_a_number_or_a_timedelta(
        self, store: LeaseStore, server: LocalSqlServer, world: World, older_than: Any
    ) -> None:
        add_expired_rows(server, 1, seconds_ago=60.5, prefix="old")
        add_expired_rows(server, 1, seconds_ago=59, prefix="young")
        assert store.purge(older_than) == 1
        assert names_in(server) == ["young-000000"]

    def test_with_no_age_everything_expired_goes_and_nothing_else(
        self, store: LeaseStore, server: LocalSqlServer, world: World
    ) -> None:
        options = LeaseOptions(sweep_limit=0, hold_at_least=600)
        rests = store.lease("rests", options=options)
        rests.try_acquire()
        rests.try_release()
        store.lease("held", options=options).try_acquire()
        add_expired_rows(server, 2, seconds_ago=1)
        assert store.purge(0) == 2
        assert names_in(server) == ["held", "rests"]

    def test_progress_is_told_after_each_batch(self, store: LeaseStore, server: LocalSqlServer) -> None:
        add_expired_rows(server, 1_200, seconds_ago=86_400)
        told: list[int] = []
        assert store.purge(progress=told.append) == 1_200
        assert told == sorted(told)
        assert len(told) > 1
        assert told[-1] == 1_200
        assert names_in(server) == []

    def test_nothing_to_delete_tells_no_progress(self, store: LeaseStore) -> None:
        told: list[int] = []
        assert store.purge(progress=told.append) == 0
        assert told == []

    def test_it_waits_for_nobody_and_leaves_what_is_locked(
        self, store: LeaseStore, server: LocalSqlServer, dsn: str
    ) -> None:
        add_expired_rows(server, 5, seconds_ago=86_400)
        with locked_row(dsn, "old-000003"):
            server.log.clear()
            assert store.purge() == 4
            assert sum(request.work.lock_waits for request in requests_of(server, "DELETE")) == 0
        assert names_in(server) == ["old-000003"]
        assert store.purge() == 1

    @pytest.mark.parametrize("older_than", [-1, float("nan"), float("inf"), "1", None, True])
    def test_an_age_that_is_none_is_refused(self, store: LeaseStore, older_than: Any) -> None:
        with pytest.raises(LeaseValueError):
            store.purge(older_than)


def test_looking_and_ending_use_the_stores_connections(
    store: LeaseStore, server: LocalSqlServer, make_lease: MakeLease
) -> None:
    lease = make_lease()
    lease.try_acquire()
    server.log.clear()
    store.get(lease.name)
    store.list()
    store.break_lease(lease.name, lease.owner_id)
    store.purge()
    assert server.log.logins == 0


def test_a_store_of_a_callable_can_be_inspected_as_well(dsn: str, store: LeaseStore) -> None:
    store.lease("job").try_acquire()
    other = LeaseStore(lambda: pyodbc.connect(dsn))
    assert [info.name for info in other.list()] == ["job"]
    other.close()
