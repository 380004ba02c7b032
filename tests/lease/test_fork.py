"""A forked child owns nothing of its parent's lease, and does not disturb it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

import pytest

from sqllease import LeaseInUse, LeaseLost, LeaseStore

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

pytestmark = [
    pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork that drivers survive"),
    # The stand-in's thread does not live on in the child, and the child asks nothing of it.
    pytest.mark.filterwarnings("ignore:.*multi-threaded.*fork:DeprecationWarning"),
]


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests count the server's connections."""
    return server.connection_string(driver=driver.odbc)


def in_child(questions: Callable[[], bool]) -> bool:
    """Asks in a forked child; False when an answer was False, or the child came to grief."""
    child = os.fork()
    if child == 0:
        code = 1
        try:
            code = 0 if questions() else 2
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def raises(error: type[Exception], call: Callable[[], object]) -> bool:
    try:
        call()
    except error:
        return True
    return False


def test_in_the_child_nothing_is_held(store: LeaseStore) -> None:
    lease = store.lease("job")
    lease.try_acquire()
    assert in_child(lambda: (lease.held, lease.remaining, lease.fencing_token) == (False, 0.0, None))
    assert in_child(lambda: raises(LeaseLost, lease.check))


def test_the_childs_copy_asks_the_server_nothing(store: LeaseStore, server: LocalSqlServer) -> None:
    lease = store.lease("job")
    lease.try_acquire()
    server.log.clear()
    assert in_child(lambda: not lease.try_renew())
    assert in_child(lambda: not lease.try_release())
    assert in_child(lambda: raises(LeaseInUse, lease.try_acquire))
    assert server.log.requests == []


def test_the_parents_lease_and_connection_go_on(store: LeaseStore, server: LocalSqlServer) -> None:
    lease = store.lease("job")
    lease.try_acquire()
    token = lease.fencing_token
    server.log.clear()
    for _ in range(3):
        assert in_child(lambda: not lease.held)
        assert lease.try_renew() is True
    assert lease.fencing_token == token
    assert lease.try_release() is True
    assert server.log.logins == 0


def test_a_child_that_drops_its_copy_cuts_no_link_of_the_parent(store: LeaseStore, server: LocalSqlServer) -> None:
    import gc

    lease = store.lease("job")
    lease.try_acquire()
    server.log.clear()

    def forget() -> bool:
        nonlocal lease, store
        lease.close()
        store.close()
        del lease, store
        gc.collect()
        return True

    assert in_child(forget)
    assert lease.try_renew() is True
    assert server.log.logins == 0
