"""For who comes from Autumn's ``autumn_web::lock::Lock``: each of its verbs and promises has its equal here."""

from __future__ import annotations

import threading

import pytest

from sqllease import (
    AsyncMemoryLockProvider,
    LeaseLost,
    LeaseNotAcquired,
    LockProvider,
    MemoryLockProvider,
    SqlLockProvider,
    async_locked,
    locked,
)
from sqllease.testing import ManualClock, MemoryLeaseStore, MemoryTable
from tests.lease.support import PATIENCE_S, in_background


@pytest.fixture
def store() -> MemoryLeaseStore:
    return MemoryLeaseStore(MemoryTable(ManualClock()))


def test_try_with_is_run_who_comes_second_sees_that_it_was_skipped(store: MemoryLeaseStore) -> None:
    ran = store.lease("nightly-cleanup").run(lambda held: store.lease("nightly-cleanup").run(lambda held: "twice"))
    assert ran.ran is True
    assert ran.value is not None
    assert (ran.value.ran, ran.value.value) == (False, None)


def test_with_is_hold_each_waiter_runs_in_the_end(store: MemoryLeaseStore) -> None:
    inside, done, order = threading.Event(), threading.Event(), []

    def first() -> None:
        with store.lease("export").hold():
            inside.set()
            done.wait(PATIENCE_S)
            order.append("first")

    def second() -> None:
        inside.wait(PATIENCE_S)
        with store.lease("export").try_hold() as nothing:
            assert nothing is None
        done.set()
        with store.lease("export").hold(poll_interval=0.005):
            order.append("second")

    for waiter in [in_background(first), in_background(second)]:
        waiter.result(PATIENCE_S)
    assert order == ["first", "second"]


def test_with_timeout_is_hold_with_a_timeout(store: MemoryLeaseStore) -> None:
    with store.lease("export").hold(), pytest.raises(LeaseNotAcquired), store.lease("export").hold(0.02, 0.005):
        pass


def test_try_lock_is_try_hold_its_guard_is_the_hold_and_release_is_the_end_of_the_block(
    store: MemoryLeaseStore,
) -> None:
    with store.lease("export").try_hold() as guard:
        assert guard is not None
        guard.check()
    with pytest.raises(LeaseLost):
        guard.check()
    assert store.get("export") is None


class TestReleaseHoweverTheBlockEnds:
    def test_normal_return_and_early_return(self, store: MemoryLeaseStore) -> None:
        def early() -> int:
            with store.lease("export").hold():
                return 1

        assert early() == 1
        assert store.get("export") is None

    @pytest.mark.parametrize("trouble", [ValueError, KeyboardInterrupt, SystemExit])
    def test_an_exception_of_any_kind(self, store: MemoryLeaseStore, trouble: type[BaseException]) -> None:
        with pytest.raises(trouble), store.lease("export").hold():
            raise trouble
        assert store.get("export") is None

    @pytest.mark.parametrize("keep_alive", [False, True])
    def test_a_provider_with_locked(self, store: MemoryLeaseStore, keep_alive: bool) -> None:
        provider = SqlLockProvider(store, keep_alive=keep_alive)

        def work() -> None:
            with locked(provider, "export") as lock_id:
                assert lock_id is not None
                with locked(provider, "export") as nothing:
                    assert nothing is None
                assert provider.is_held("export", lock_id)
                raise ValueError("work")

        with pytest.raises(ValueError, match="work"):
            work()
        assert provider.obtain_lock("export") is not None

    async def test_a_provider_with_async_locked(self) -> None:
        provider = AsyncMemoryLockProvider()

        async def work() -> None:
            async with async_locked(provider, "export") as lock_id:
                assert lock_id is not None
                raise ValueError("work")

        with pytest.raises(ValueError, match="work"):
            await work()
        async with async_locked(provider, "export") as again:
            assert again is not None


@pytest.mark.parametrize("kind", ["sql", "memory"])
def test_a_prefix_is_a_key_space_of_its_own(store: MemoryLeaseStore, kind: str) -> None:
    def provider(prefix: str) -> LockProvider:
        return MemoryLockProvider(prefix=prefix) if kind == "memory" else SqlLockProvider(store, prefix=prefix)

    application, scheduler = provider("app:v1:"), provider("scheduler:")
    mine = application.obtain_lock("cleanup")
    assert mine
    assert scheduler.obtain_lock("cleanup") is not None
    assert application.obtain_lock("cleanup") is None
    assert scheduler.release_lock("cleanup", mine) is False
    assert application.release_lock("cleanup", mine) is True


def test_shards_are_claimed_one_by_one_under_names_of_their_own(store: MemoryLeaseStore) -> None:
    with store.lease("link-checker:shard:1").hold():
        claimed = [n for n in range(3) if store.lease(f"link-checker:shard:{n}").run(lambda held: None)]
    assert claimed == [0, 2]
