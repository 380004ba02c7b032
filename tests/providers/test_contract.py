"""What every lock provider promises, whatever keeps the locks: the contract of Brighter's ``IDistributedLock`` ("the id
of the lock that was acquired, or null", "only the holder can release it").
"""

from __future__ import annotations

import uuid
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from sqllease import AsyncLockProvider, LeaseValueError, LockProvider

from .desk import KINDS, Driven, Makers, Provider

WORKERS = 6


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def provider(makers: Makers, kind: str) -> Provider:
    return makers.fresh(kind)


@pytest.fixture
def resource() -> str:
    """A name that no other test has."""
    return f"OutboxSweeper-{uuid.uuid4().hex}"


def test_it_has_the_shape_of_the_contract(provider: Provider) -> None:
    if isinstance(provider, Driven):
        assert isinstance(provider.provider, AsyncLockProvider)
    else:
        assert isinstance(provider, LockProvider)


def test_a_free_lock_is_obtained_and_has_an_id(provider: Provider, resource: str) -> None:
    lock_id = provider.obtain_lock(resource)
    assert lock_id
    assert provider.is_held(resource, lock_id) is True


def test_two_workers_of_one_process_exclude_each_other(provider: Provider, resource: str) -> None:
    assert provider.obtain_lock(resource) is not None
    assert provider.obtain_lock(resource) is None


def test_workers_of_two_processes_exclude_each_other(makers: Makers, kind: str, resource: str) -> None:
    here, there = makers.fresh(kind), makers.fresh(kind)
    lock_id = here.obtain_lock(resource)
    assert lock_id
    assert there.obtain_lock(resource) is None
    assert here.release_lock(resource, lock_id) is True
    assert there.obtain_lock(resource) is not None


def test_different_resources_are_different_locks(provider: Provider, resource: str) -> None:
    assert provider.obtain_lock(resource) is not None
    assert provider.obtain_lock(resource + "-Archiver") is not None
    assert provider.obtain_lock(resource.upper()) is not None


def test_a_released_lock_is_free_and_its_next_id_is_another(provider: Provider, resource: str) -> None:
    first = provider.obtain_lock(resource)
    assert first
    assert provider.release_lock(resource, first) is True
    assert provider.is_held(resource, first) is False
    second = provider.obtain_lock(resource)
    assert second
    assert second != first


@pytest.mark.parametrize("wrong", ["", "nobody", "'; DROP TABLE t --", "\ud800"])
def test_a_wrong_id_does_nothing_to_anybody(provider: Provider, resource: str, wrong: str) -> None:
    lock_id = provider.obtain_lock(resource)
    assert lock_id
    assert provider.release_lock(resource, wrong) is False
    assert provider.is_held(resource, wrong) is False
    assert provider.is_held(resource, lock_id) is True
    assert provider.obtain_lock(resource) is None


def test_an_old_id_does_nothing_to_the_next_holder(provider: Provider, resource: str) -> None:
    old = provider.obtain_lock(resource)
    assert old
    provider.release_lock(resource, old)
    present = provider.obtain_lock(resource)
    assert present
    assert provider.release_lock(resource, old) is False
    assert provider.is_held(resource, old) is False
    assert provider.is_held(resource, present) is True
    assert provider.obtain_lock(resource) is None


def test_the_id_of_another_resource_releases_neither(provider: Provider, resource: str) -> None:
    one, other = provider.obtain_lock(f"{resource}-1"), provider.obtain_lock(f"{resource}-2")
    assert one
    assert other
    assert provider.release_lock(f"{resource}-1", other) is False
    assert provider.is_held(f"{resource}-1", other) is False
    assert provider.is_held(f"{resource}-2", other) is True
    assert provider.is_held(f"{resource}-1", one) is True


def test_of_many_workers_who_ask_at_once_one_obtains_it(provider: Provider, resource: str) -> None:
    barrier = Barrier(WORKERS)

    def ask(_: int) -> str | None:
        barrier.wait(20)
        return provider.obtain_lock(resource)

    with ThreadPoolExecutor(WORKERS) as threads:
        won = [lock_id for lock_id in threads.map(ask, range(WORKERS)) if lock_id is not None]
    assert len(won) == 1
    assert provider.release_lock(resource, won[0]) is True


@pytest.mark.parametrize("name", ["", " blank", "blank ", "cr\r", "nul\x00", "half \ud800", "e\u0301"])
def test_a_resource_that_is_no_exact_name_is_refused(provider: Provider, name: str) -> None:
    with pytest.raises(LeaseValueError):
        provider.obtain_lock(name)
