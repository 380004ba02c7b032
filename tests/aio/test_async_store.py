"""``AsyncLeaseStore``: what an operator may create, look at and end, awaited. The rules are those of ``LeaseStore``."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Awaitable, Callable

import pytest

from sqllease import (
    AsyncLeaseStore,
    AsyncSqlLease,
    LeaseConfigurationError,
    LeaseOptions,
    LeaseStore,
    LeaseStoreError,
    LeaseValueError,
)
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import add_expired_rows, names_in, wait_until

from .desk import RELEASE, SLOW, Desk
from .programs import run_text

forks = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork that drivers survive")


@pytest.fixture
async def untouched(server: LocalSqlServer, driver: Driver) -> AsyncIterator[AsyncLeaseStore]:
    """A store of a database that has no lease table yet."""
    store = AsyncLeaseStore(server.connection_string(driver=driver.odbc))
    yield store
    await store.aclose()


# --- the table ---


async def test_ensure_created_makes_what_verify_finds_good_and_may_be_called_again(untouched: AsyncLeaseStore) -> None:
    await untouched.ensure_created()
    await untouched.ensure_created()
    assert {check.status for check in await untouched.verify()} == {"ok"}
    assert await untouched.list() == []


async def test_without_its_table_verify_says_so_and_the_verbs_say_what_to_do(untouched: AsyncLeaseStore) -> None:
    assert [(check.name, check.status) for check in await untouched.verify()] == [("table", "failure")]
    with pytest.raises(LeaseConfigurationError, match="ensure_created"):
        await untouched.lease("job").try_acquire()


async def test_schema_and_table_may_have_any_name(server: LocalSqlServer, driver: Driver) -> None:
    store = AsyncLeaseStore(server.connection_string(driver=driver.odbc), schema="it's", table="a]b")
    await store.ensure_created()
    assert await store.lease("job").try_acquire() is True
    assert server.execute("SELECT LeaseName FROM [it's].[a]]b]") == [("job",)]
    await store.aclose()


# --- looking ---


async def test_get_shows_who_holds_and_none_where_nobody_does(store: AsyncLeaseStore) -> None:
    lease = store.lease("job", metadata="host 7", options=SLOW)
    assert await store.get("job") is None
    await lease.try_acquire()
    info = await store.get("job")
    assert info is not None
    assert (info.name, info.owner_id, info.metadata, info.expires_at) == (
        "job",
        lease.owner_id,
        "host 7",
        lease.expires_at,
    )
    assert (info.resting, info.expired) == (False, False)


async def test_list_gives_all_rows_in_the_order_of_their_names(store: AsyncLeaseStore) -> None:
    for name in ("b", "c", "a"):
        await store.lease(name, options=SLOW).try_acquire()
    assert [info.name for info in await store.list()] == ["a", "b", "c"]


async def test_it_sees_and_excludes_what_a_sync_store_of_the_same_table_holds(
    store: AsyncLeaseStore, desk: Desk
) -> None:
    beside = LeaseStore(desk.dsn)
    theirs, ours = beside.lease("job", options=SLOW), store.lease("job", options=SLOW)
    assert theirs.try_acquire() is True
    assert await ours.try_acquire() is False
    assert ours.holder is not None
    assert ours.holder.owner_id == theirs.owner_id
    assert theirs.try_release() is True
    assert await ours.try_acquire() is True
    assert theirs.try_acquire() is False
    beside.close()


# --- ending ---


async def test_break_lease_takes_it_from_the_owner_that_was_seen_and_from_nobody_else(store: AsyncLeaseStore) -> None:
    lease = store.lease("job", options=SLOW)
    await lease.try_acquire()
    assert await store.break_lease("job", "somebody else") is None
    assert await lease.try_renew() is True
    gone = await store.break_lease("job", lease.owner_id)
    assert gone is not None
    assert gone.owner_id == lease.owner_id
    assert await lease.try_renew() is False
    assert not lease.held


async def test_break_lease_is_not_asked_again_when_nobody_answered(store: AsyncLeaseStore, desk: Desk) -> None:
    lease = store.lease("job", options=SLOW)
    await lease.try_acquire()
    desk.server.faults.drop("after")
    with pytest.raises(LeaseStoreError):
        await store.break_lease("job", lease.owner_id)
    assert desk.rows() == []


async def test_purge_deletes_what_expired_long_ago_in_batches_and_counts_it(
    store: AsyncLeaseStore, server: LocalSqlServer
) -> None:
    add_expired_rows(server, 700, seconds_ago=7200)
    add_expired_rows(server, 3, seconds_ago=60, prefix="fresh")
    assert await store.lease("job", options=SLOW.but(sweep_limit=0)).try_acquire() is True
    told: list[int] = []
    assert await store.purge(3600, progress=told.append) == 700
    assert told == [500, 700]
    assert names_in(server) == ["fresh-000000", "fresh-000001", "fresh-000002", "job"]
    assert await store.purge() == 0


@pytest.mark.parametrize("bad", ["", " job", "job\n"])
async def test_names_that_can_never_work_are_refused_before_anything_is_asked(
    store: AsyncLeaseStore, desk: Desk, bad: str
) -> None:
    calls: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: store.get(bad),
        lambda: store.break_lease(bad, "owner"),
        lambda: store.break_lease("job", bad),
    )
    for call in calls:
        with pytest.raises(LeaseValueError):
            await call()
    with pytest.raises(LeaseValueError):
        store.lease(bad)
    assert desk.server.log.requests == []


@pytest.mark.parametrize("connections", [0, -1, True, 2.0, None])
def test_a_number_of_connections_that_is_none_is_refused(connections: object) -> None:
    with pytest.raises(LeaseValueError, match="max_connections"):
        AsyncLeaseStore("DRIVER=x", max_connections=connections)  # type: ignore[arg-type]


# --- its connections ---


async def test_no_more_connections_are_opened_than_it_may_have_and_one_serves_who_asks_alone(desk: Desk) -> None:
    store = desk.store(max_connections=2)
    for _ in range(5):
        await store.get("job")
    assert desk.server.log.logins == 1
    leases = [store.lease(f"job {number}", options=SLOW) for number in range(12)]
    for lease in leases:
        assert await lease.try_acquire() is True
    assert desk.server.log.logins == 1
    await store.aclose()


async def test_aclose_ends_its_connections_releases_nothing_and_the_store_can_be_used_again(
    store: AsyncLeaseStore, desk: Desk
) -> None:
    lease = store.lease("job", options=SLOW)
    await lease.try_acquire()
    for _ in range(2):
        await store.aclose()
        await desk.settle()
        assert lease.held
        assert len(desk.rows()) == 1
        assert await lease.try_renew() is True
    assert desk.server.log.logins == 3
    assert desk.sent(RELEASE) == []


async def test_a_lease_closes_its_own_connection_and_never_those_of_a_store(desk: Desk) -> None:
    store = desk.store()
    own, shared = AsyncSqlLease("own", desk.dsn, options=SLOW), AsyncSqlLease("shared", store, options=SLOW)
    await own.try_acquire()
    await shared.try_acquire()
    await own.aclose()
    await shared.aclose()
    wait_until(lambda: desk.server.connections == 1, "the connection of the one lease has ended")
    assert await shared.try_renew() is True
    assert desk.server.log.logins == 2
    await store.aclose()


async def test_a_failed_login_takes_no_place_from_the_next_call(desk: Desk) -> None:
    store = desk.store(max_connections=1)
    hasty = LeaseOptions(duration=6, command_timeout=1)
    for _ in range(3):
        desk.server.faults.refuse_login()
        with pytest.raises(LeaseConfigurationError, match="18456"):
            await store.lease("job", options=hasty).try_acquire()
    assert await store.lease("job", options=hasty).try_acquire() is True
    await store.aclose()


# --- fork ---

FORKS = """
    import asyncio, json, os, sys
    from sqllease import AsyncLeaseStore, LeaseInUse, LeaseOptions

    OPTIONS = LeaseOptions(duration=400, command_timeout=30)
    store = AsyncLeaseStore(sys.argv[1])
    lease = store.lease("job", options=OPTIONS)

    def tell(*facts):
        os.write(1, (json.dumps(facts) + "\\n").encode())

    async def in_child():
        try:
            acquired = await lease.try_acquire()
        except LeaseInUse:
            acquired = "in use"
        own = store.lease("of the child", options=OPTIONS)
        tell("child", lease.held, await lease.try_renew(), await lease.try_release(), acquired)
        tell("own", await own.try_acquire(), [info.name for info in await store.list()], await own.try_release())

    assert asyncio.run(lease.try_acquire())
    for _ in range(2):
        child = os.fork()
        if child == 0:
            asyncio.run(in_child())
            sys.exit(0)  # as programs do: the interpreter collects what it has inherited
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        tell("parent", code, lease.held, asyncio.run(lease.try_renew()))
"""


@forks
def test_a_forked_child_owns_nothing_goes_on_with_the_store_and_disturbs_nobody(desk: Desk) -> None:
    out, _ = run_text(FORKS, desk.dsn, options=("-W", "ignore::DeprecationWarning"))
    child = '["child", false, false, false, "in use"]\n["own", true, ["job", "of the child"], true]\n'
    assert out == (child + '["parent", 0, true, true]\n') * 2
    assert desk.server.log.logins == 3
