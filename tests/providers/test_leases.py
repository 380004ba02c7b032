"""Locks that are leases: no login for each obtain, an end by themselves, expiry instead of release, renewals."""

from __future__ import annotations

import uuid

import pytest

from sqllease import LeaseOptions, LeaseStore, LeaseValueError, SqlLockProvider, locked
from sqllease.testing import LocalSqlServer, ManualClock, MemoryLeaseStore, MemoryTable
from tests.lease.support import PATIENCE_S

from .desk import DURABLE, Makers

OPTIONS = LeaseOptions(duration=60)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def store(clock: ManualClock) -> MemoryLeaseStore:
    return MemoryLeaseStore(MemoryTable(clock))


def test_a_store_logs_in_once_for_any_number_of_locks(makers: Makers, shared_server: LocalSqlServer) -> None:
    provider = makers.fresh("sql")
    provider.obtain_lock("login-0")
    before = shared_server.log.logins
    for number in range(1, 6):
        lock_id = provider.obtain_lock(f"login-{number}")
        assert lock_id
        assert provider.obtain_lock(f"login-{number}") is None
        assert provider.release_lock(f"login-{number}", lock_id) is True
    assert shared_server.log.logins == before


@pytest.mark.parametrize("kind", DURABLE)
def test_the_row_shows_resource_with_prefix_and_lock_id(makers: Makers, kind: str) -> None:
    resource = uuid.uuid4().hex
    with locked(makers.fresh(kind, prefix="billing:"), resource) as lock_id:
        row = LeaseStore(makers.dsn).get(f"billing:{resource}")
        assert row is not None
        assert row.owner_id == lock_id
        assert makers.fresh("sql").obtain_lock(resource) is not None


def test_a_lock_of_a_holder_that_died_is_free_after_its_duration(store: MemoryLeaseStore, clock: ManualClock) -> None:
    provider = SqlLockProvider(store, options=OPTIONS)
    dead = provider.obtain_lock("job")
    assert dead
    clock.advance(59)
    assert provider.obtain_lock("job") is None
    assert provider.is_held("job", dead) is False
    clock.advance(1)
    present = provider.obtain_lock("job")
    assert present
    assert provider.release_lock("job", dead) is False
    assert provider.is_held("job", present) is True


def test_who_comes_late_with_its_release_hears_that_the_lock_was_lost(
    store: MemoryLeaseStore, clock: ManualClock
) -> None:
    late, other = SqlLockProvider(store, options=OPTIONS), SqlLockProvider(store, options=OPTIONS)
    old = late.obtain_lock("job")
    assert old
    clock.advance(60)
    present = other.obtain_lock("job")
    assert present
    assert late.release_lock("job", old) is False
    assert other.release_lock("job", present) is True


def test_without_release_a_lock_lasts_for_its_duration(store: MemoryLeaseStore, clock: ManualClock) -> None:
    provider = SqlLockProvider(store, options=OPTIONS, release=False)
    lock_id = provider.obtain_lock("job")
    assert lock_id
    assert provider.release_lock("job", lock_id) is False
    assert provider.is_held("job", lock_id) is True
    assert provider.obtain_lock("job") is None
    clock.advance(60)
    assert provider.obtain_lock("job") is not None


def test_locks_that_have_run_out_are_not_kept_in_memory(store: MemoryLeaseStore, clock: ManualClock) -> None:
    provider = SqlLockProvider(store, options=OPTIONS, release=False)
    for number in range(50):
        provider.obtain_lock(f"order-{number}")
        clock.advance(30)
    assert len(provider._obtained) <= 2


def test_a_lock_given_back_early_rests_where_the_options_say_so(store: MemoryLeaseStore) -> None:
    provider = SqlLockProvider(store, options=OPTIONS.but(hold_at_least=600))
    lock_id = provider.obtain_lock("nightly")
    assert lock_id
    assert provider.release_lock("nightly", lock_id) is True
    assert provider.obtain_lock("nightly") is None


def test_a_kept_lock_is_renewed_by_a_thread_until_its_release(makers: Makers) -> None:
    provider = makers.fresh("sql kept alive", options=LeaseOptions(duration=2.5, safety_margin=0.2))
    resource = uuid.uuid4().hex
    lock_id = provider.obtain_lock(resource)
    assert lock_id
    makers.server.log.clear()
    makers.server.log.wait_for(lambda request: "Move the expiry" in request.text, PATIENCE_S)
    assert provider.release_lock(resource, lock_id) is True
    assert makers.fresh("sql").obtain_lock(resource) is not None


def test_a_kept_lock_that_was_taken_away_is_false_at_its_release(makers: Makers) -> None:
    provider = makers.fresh("sql kept alive")
    resource = uuid.uuid4().hex
    lock_id = provider.obtain_lock(resource)
    assert lock_id
    assert LeaseStore(makers.dsn).break_lease(resource, lock_id) is not None
    assert provider.release_lock(resource, lock_id) is False


def test_a_kept_lock_that_is_never_released_is_a_contradiction(store: MemoryLeaseStore) -> None:
    with pytest.raises(LeaseValueError, match="keep_alive"):
        SqlLockProvider(store, keep_alive=True, release=False)
