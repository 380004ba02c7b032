"""Locks by sp_getapplock: names, return codes, connections, and what becomes of a lock whose session dies.

Return codes are from Microsoft's "sp_getapplock (Transact-SQL)".
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pyodbc
import pytest

from sqllease import AppLockProvider, AsyncAppLockProvider, LeaseConfigurationError, LeaseStoreError, LeaseValueError
from sqllease.applocks import AppLocks
from sqllease.connection import Connection
from sqllease.faults import Retry
from sqllease.names import applock_name
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import wait_until

from .desk import Makers

TAKE = (
    "DECLARE @r int; EXEC @r = sp_getapplock @Resource = ?, @LockMode = 'Exclusive', @LockOwner = 'Session', "
    "@LockTimeout = 0, @DbPrincipal = 'public'; SELECT @r"
)
"""As Brighter's provider asks."""


FORKING = """
import asyncio, os, sys
from sqllease import AppLockProvider, AsyncAppLockProvider

async def call(answer):
    return await answer if asyncio.iscoroutine(answer) else answer

async def child():
    return (await call(provider.is_held("a", lock_id)), await call(provider.release_lock("a", lock_id)),
            await call(provider.obtain_lock("a")))

async def parent():
    return await call(provider.is_held("a", lock_id)), await call(provider.release_lock("a", lock_id))

provider = (AppLockProvider if sys.argv[1] == "sync" else AsyncAppLockProvider)(sys.argv[2])
loop = asyncio.new_event_loop()
lock_id = loop.run_until_complete(call(provider.obtain_lock("a")))
if (forked := os.fork()) == 0:
    print("child", *asyncio.new_event_loop().run_until_complete(child()), flush=True)
    os._exit(0)
assert os.waitpid(forked, 0)[1] == 0
print("parent", *loop.run_until_complete(parent()), flush=True)
os._exit(0)
"""


class TestALostSession:
    def test_its_lock_is_free_and_the_holder_is_told(self, makers: Makers) -> None:
        here, there = makers.fresh("applock"), makers.fresh("applock")
        old = here.obtain_lock("lost")
        assert old
        makers.server.drop_links()
        present = there.obtain_lock("lost")
        assert present
        assert here.is_held("lost", old) is False
        assert here.release_lock("lost", old) is False
        assert there.is_held("lost", present) is True
        assert there.release_lock("lost", present) is True

    def test_a_release_that_finds_it_dead_is_false_and_raises_nothing(self, makers: Makers) -> None:
        provider = makers.fresh("applock")
        lock_id = provider.obtain_lock("dead")
        assert lock_id
        makers.server.drop_links()
        assert provider.release_lock("dead", lock_id) is False

    def test_the_same_worker_can_obtain_it_again(self, makers: Makers) -> None:
        provider = makers.fresh("applock", max_locks=1)
        lock_id = provider.obtain_lock("again")
        assert lock_id
        makers.server.drop_links()
        assert provider.is_held("again", lock_id) is False
        assert provider.obtain_lock("again") is not None

    def test_a_session_that_lives_without_its_lock_does_not_hold_it(self, makers: Makers) -> None:
        provider = makers.fresh("applock")
        lock_id = provider.obtain_lock("freed")
        assert lock_id
        (session,) = (one for one in makers.server.engine.sessions.values() if one.applocks)
        makers.server.execute("SELECT 1")
        makers.server.engine.instance.locks.release_all(session.owner)
        assert provider.is_held("freed", lock_id) is False

    def test_a_release_that_failed_ends_the_session_and_with_it_the_lock(self, makers: Makers) -> None:
        here, there = makers.fresh("applock"), makers.fresh("applock")
        lock_id = here.obtain_lock("failed")
        assert lock_id
        makers.server.faults.error(8645, "no memory for that", matching="sp_releaseapplock")
        assert here.release_lock("failed", lock_id) is False
        wait_until(lambda: there.obtain_lock("failed"), "its session has ended")


class TestConnections:
    def test_a_lost_try_and_a_release_leave_a_connection_for_the_next(self, makers: Makers) -> None:
        holder, provider = makers.fresh("applock"), makers.fresh("applock")
        lock_id = holder.obtain_lock("logins")
        assert lock_id
        assert provider.obtain_lock("logins") is None
        before = makers.server.log.logins
        for _ in range(3):
            assert provider.obtain_lock("logins") is None
        holder.release_lock("logins", lock_id)
        for _ in range(3):
            mine = provider.obtain_lock("logins")
            assert mine
            assert provider.release_lock("logins", mine) is True
        assert makers.server.log.logins == before

    def test_idle_connections_that_were_cut_are_replaced(self, makers: Makers) -> None:
        provider = makers.fresh("applock")
        lock_id = provider.obtain_lock("cut")
        assert lock_id
        provider.release_lock("cut", lock_id)
        makers.server.drop_links()
        assert provider.obtain_lock("cut") is not None

    def test_one_more_than_max_locks_is_refused_without_asking_for_long(
        self, server: LocalSqlServer, ms_driver: Driver, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        provider = AppLockProvider(server.connection_string(driver=ms_driver.odbc), max_locks=1, login_timeout=1)
        lock_id = provider.obtain_lock("one")
        assert lock_id
        takes, take = [], provider._pool.take

        def impatient(login_timeout: int, patience: float) -> AbstractContextManager[Connection]:
            takes.append(patience)
            return take(login_timeout, 0.01)

        monkeypatch.setattr(provider._pool, "take", impatient)
        with pytest.raises(LeaseStoreError, match="no connection was free"):
            provider.obtain_lock("two")
        assert takes == [1]
        assert provider.release_lock("one", lock_id) is True
        assert provider.obtain_lock("two") is not None
        provider.close()

    def test_a_close_frees_every_lock(self, server: LocalSqlServer, driver: Driver) -> None:
        dsn = server.connection_string(driver=driver.odbc)
        closed, other = AppLockProvider(dsn), AppLockProvider(dsn)
        lock_id = closed.obtain_lock("a")
        assert lock_id
        assert closed.obtain_lock("b")
        closed.close()
        assert closed.is_held("a", lock_id) is False
        assert _obtained(other, "a")
        assert _obtained(other, "b")
        other.close()

    def test_a_provider_that_is_forgotten_frees_its_locks(self, server: LocalSqlServer, ms_driver: Driver) -> None:
        dsn = server.connection_string(driver=ms_driver.odbc)
        forgotten: AppLockProvider | None = AppLockProvider(dsn)
        assert forgotten is not None
        assert forgotten.obtain_lock("a")
        forgotten = None
        other = AppLockProvider(dsn)
        assert _obtained(other, "a")
        other.close()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_forked_child_holds_nothing_and_leaves_the_parents_lock_alone(
    server: LocalSqlServer, driver: Driver, colour: str
) -> None:
    command = [sys.executable, "-c", FORKING, colour, server.connection_string(driver=driver.odbc)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=50, check=False)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split() == ["child", "False", "False", "None", "parent", "True", "True"]


class TestNames:
    def test_it_excludes_whoever_takes_the_same_application_lock(
        self, makers: Makers, shared_server: LocalSqlServer
    ) -> None:
        provider = makers.fresh("applock")
        beside = pyodbc.connect(makers.dsn, autocommit=True)
        assert beside.execute(TAKE, "OutboxSweeper").fetchall()[0][0] == 0
        assert provider.obtain_lock("OutboxSweeper") is None
        beside.close()

    def test_locks_of_one_key_space_do_not_meet_those_of_another(self, makers: Makers) -> None:
        billing, mail = makers.fresh("applock", prefix="billing:"), makers.fresh("applock", prefix="mail:")
        assert billing.obtain_lock("sweeper") is not None
        assert mail.obtain_lock("sweeper") is not None
        assert makers.fresh("applock").obtain_lock("mail:sweeper") is None

    @pytest.mark.parametrize("end", ["x", "\U0001f512"])
    def test_long_names_that_differ_only_past_255_units_are_different_locks(self, makers: Makers, end: str) -> None:
        provider = makers.fresh("applock", prefix=f"{makers.colour}{end}")
        assert provider.obtain_lock("n" * 300 + "1") is not None
        assert provider.obtain_lock("n" * 300 + "2") is not None
        assert provider.obtain_lock("n" * 300 + "1") is None

    @pytest.mark.parametrize(
        ("resource", "kept"), [("n" * 255, 255), ("n" * 256, 190), ("\U0001f512" * 127, 127), ("\U0001f512" * 128, 95)]
    )
    def test_a_name_is_kept_up_to_255_units_and_then_cut_before_its_hash(self, resource: str, kept: int) -> None:
        name = applock_name(resource)
        assert len(name.encode("utf-16-le")) // 2 <= 255
        assert name[:kept] == resource[:kept]
        assert (name == resource) is (kept == len(resource))


class TestReturnCodes:
    @pytest.fixture
    def granted(self) -> Callable[[int], bool]:
        locks = AppLocks(lambda: None, prefix="", principal="public", max_locks=1, login_timeout=None)
        return lambda code: locks._granted([(code,)])

    @pytest.mark.parametrize(("code", "expected"), [(0, True), (1, True), (-1, False)])
    def test_granted_at_once_after_a_wait_or_not(
        self, granted: Callable[[int], bool], code: int, expected: bool
    ) -> None:
        assert granted(code) is expected

    @pytest.mark.parametrize("code", [-2, -3])
    def test_cancelled_or_deadlocked_is_asked_again(self, granted: Callable[[int], bool], code: int) -> None:
        with pytest.raises(Retry):
            granted(code)

    def test_wrong_parameters_say_what_to_look_at(self, granted: Callable[[int], bool]) -> None:
        with pytest.raises(LeaseConfigurationError, match=r"-999.*'public'"):
            granted(-999)

    @pytest.mark.parametrize("keywords", [{"max_locks": 0}, {"principal": ""}, {"login_timeout": 0}])
    def test_arguments_that_cannot_work_are_refused_at_once(self, keywords: dict[str, Any]) -> None:
        with pytest.raises(LeaseValueError):
            AppLockProvider("DRIVER=none", **keywords)

    def test_a_login_that_is_refused_says_what_to_change(self, server: LocalSqlServer, driver: Driver) -> None:
        provider = AppLockProvider(server.connection_string(driver=driver.odbc))
        server.faults.refuse_login(18456)
        with pytest.raises(LeaseConfigurationError, match="login failed"):
            provider.obtain_lock("x")


def _obtained(provider: AppLockProvider, resource: str) -> bool:
    """Asks until the server has seen that the other session has ended."""
    wait_until(lambda: provider.obtain_lock(resource), f"{resource} is free")
    return True


@pytest.mark.parametrize("colour", ["sync", "async"])
def test_a_grant_whose_link_broke_behind_the_answer_is_none(
    ms_driver: Driver, server: LocalSqlServer, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    """The lock goes with its session, so the row in hand says nothing any more."""
    dsn = server.connection_string(driver=ms_driver.odbc)
    ask = Connection.ask
    cut: list[bool] = []

    def cut_once(self: Connection, *arguments: Any) -> Any:
        rows = ask(self, *arguments)
        if not cut:
            cut.append(True)
            self.drop()
        return rows

    monkeypatch.setattr(Connection, "ask", cut_once)
    with asyncio.Runner() as runner:
        if colour == "sync":
            provider = AppLockProvider(dsn)
            lock_id = provider.obtain_lock("a")
            held = lock_id is not None and provider.is_held("a", lock_id)
            provider.close()
        else:
            awaited = AsyncAppLockProvider(dsn)
            lock_id = runner.run(awaited.obtain_lock("a"))
            held = lock_id is not None and runner.run(awaited.is_held("a", lock_id))
            runner.run(awaited.aclose())
    assert cut
    assert held
