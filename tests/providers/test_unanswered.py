"""A release that is not answered, an obtain that is cancelled: no True, no False and no lock that nobody knows of."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from sqllease import AsyncSqlLockProvider, LeaseOptions, LeaseStoreError, SqlLockProvider
from sqllease.testing import AsyncMemoryLeaseStore, ManualClock, MemoryLeaseStore, MemoryTable

OPTIONS = LeaseOptions(duration=60)


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def table(clock: ManualClock) -> MemoryTable:
    return MemoryTable(clock)


@pytest.fixture(params=["sync", "async"])
def provider(request: pytest.FixtureRequest, table: MemoryTable, keep_alive: bool) -> Iterator[Any]:
    if request.param == "sync":
        yield SqlLockProvider(MemoryLeaseStore(table), options=OPTIONS, keep_alive=keep_alive)
        return
    with asyncio.Runner() as runner:
        provider = AsyncSqlLockProvider(AsyncMemoryLeaseStore(table), options=OPTIONS, keep_alive=keep_alive)

        class Blocking:
            def obtain_lock(self, resource: str) -> str | None:
                return runner.run(provider.obtain_lock(resource))

            def release_lock(self, resource: str, lock_id: str) -> bool:
                return runner.run(provider.release_lock(resource, lock_id))

            is_held = provider.is_held

        yield Blocking()


@pytest.fixture(params=[True, False], ids=["kept alive", "plain"])
def keep_alive(request: pytest.FixtureRequest) -> bool:
    kept: bool = request.param
    return kept


def test_a_release_that_is_not_answered_is_an_exception_and_may_be_repeated(provider: Any, table: MemoryTable) -> None:
    lock_id = provider.obtain_lock("nightly")
    table.outage = True
    with pytest.raises(LeaseStoreError):
        provider.release_lock("nightly", lock_id)
    assert not provider.is_held("nightly", lock_id)
    table.outage = False
    assert provider.obtain_lock("nightly") is None, "the row is still there"
    assert provider.obtain_lock("other") is not None, "what was left is not forgotten with the next obtain"
    assert provider.release_lock("nightly", lock_id) is True
    assert provider.obtain_lock("nightly") is not None


def test_one_whose_time_is_over_is_forgotten(provider: Any, table: MemoryTable, clock: ManualClock) -> None:
    lock_id = provider.obtain_lock("nightly")
    table.outage = True
    with pytest.raises(LeaseStoreError):
        provider.release_lock("nightly", lock_id)
    table.outage = False
    clock.advance(61)
    assert provider.obtain_lock("nightly") is not None
    assert provider.release_lock("nightly", lock_id) is False


async def test_an_obtain_that_is_cancelled_in_the_moment_of_its_success_gives_the_lock_back(
    table: MemoryTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    provider = AsyncSqlLockProvider(AsyncMemoryLeaseStore(table), options=OPTIONS, keep_alive=True)
    create_task = asyncio.create_task
    obtaining = create_task(provider.obtain_lock("nightly"))

    def cancelling(*arguments: Any, **keywords: Any) -> asyncio.Task[Any]:
        task = create_task(*arguments, **keywords)
        task.add_done_callback(lambda _: obtaining.cancel())
        return task

    monkeypatch.setattr(asyncio, "create_task", cancelling)
    await asyncio.wait([obtaining])
    monkeypatch.undo()
    assert obtaining.cancelled()
    assert await provider.obtain_lock("nightly") is not None
