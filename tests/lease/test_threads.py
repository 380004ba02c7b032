"""One lease object in many threads, and many objects in many threads. An object is one owner, wherever it is used."""

from __future__ import annotations

from concurrent.futures import Future
from concurrent.futures import TimeoutError as StillRunning
from typing import TYPE_CHECKING

import pytest

from sqllease import LeaseLost, LeaseOptions, LeaseStore, LeaseStoreError

from .support import at_once, in_background

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

SLOW = LeaseOptions(duration=120, command_timeout=10)
GLANCE_S = 0.3


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests keep requests back on the server."""
    return server.connection_string(driver=driver.odbc)


def unanswered(call: Future[bool]) -> bool:
    """Whether the call is still waiting after a moment in which it would have been answered."""
    try:
        call.result(GLANCE_S)
    except StillRunning:
        return True
    return False


class TestOneObject:
    def test_threads_that_acquire_it_together_refresh_one_tenure(self, store: LeaseStore) -> None:
        lease = store.lease("job", options=SLOW)

        def acquire() -> tuple[bool, int | None]:
            return lease.try_acquire(), lease.fencing_token

        answers = at_once([acquire] * 8)
        assert {won for won, _ in answers} == {True}
        assert len({token for _, token in answers}) == 1
        assert len(store.list()) == 1

    def test_its_calls_go_out_one_after_the_other(self, store: LeaseStore, server: LocalSqlServer) -> None:
        lease = store.lease("job", options=SLOW)
        lease.try_acquire()
        kept_back = server.faults.hold("before")
        first = in_background(lease.try_renew)
        assert kept_back.held.wait(20)
        second = in_background(lease.try_renew)
        assert unanswered(second)
        kept_back.release()
        assert (first.result(20), second.result(20)) == (True, True)

    def test_an_acquire_does_not_begin_after_a_third_of_the_duration(
        self, store: LeaseStore, server: LocalSqlServer
    ) -> None:
        lease = store.lease("job", options=LeaseOptions(duration=6, command_timeout=5))
        kept_back = server.faults.hold("before")
        first = in_background(lease.try_acquire)
        assert kept_back.held.wait(20)
        with pytest.raises(LeaseStoreError, match="another call has not come back"):
            lease.try_acquire()  # after two seconds
        kept_back.release()
        assert first.result(20) is True

    def test_one_object_never_needs_a_second_connection(self, store: LeaseStore, server: LocalSqlServer) -> None:
        lease = store.lease("job", options=SLOW)
        server.log.clear()

        def work() -> None:
            for _ in range(10):
                lease.try_acquire()
                lease.try_renew()

        at_once([work] * 6)
        assert server.log.logins == 0
        assert server.connections == 1

    def test_after_a_release_by_one_thread_no_thread_is_told_that_it_holds(self, store: LeaseStore) -> None:
        lease = store.lease("job", options=SLOW)
        lease.try_acquire()
        assert sorted(at_once([lease.try_release] * 4)) == [False, False, False, True]
        assert lease.held is False
        assert lease.try_renew() is False


class TestDifferentObjects:
    def test_they_exclude_each_other(self, store: LeaseStore) -> None:
        leases = [store.lease("job", options=SLOW) for _ in range(8)]
        won = at_once([lease.try_acquire for lease in leases])
        assert won.count(True) == 1
        assert [lease.held for lease in leases] == won

    def test_one_that_waits_for_its_answer_holds_up_no_other(self, store: LeaseStore, server: LocalSqlServer) -> None:
        slow, quick = store.lease("slow", options=SLOW), store.lease("quick", options=SLOW)
        slow.try_acquire()
        quick.try_acquire()
        kept_back = server.faults.hold("before")
        renewing = in_background(slow.try_renew)
        assert kept_back.held.wait(20)
        assert quick.try_renew() is True
        assert not renewing.done()
        kept_back.release()
        assert renewing.result(20) is True


class TestWhileAVerbIsUnderWay:
    @pytest.mark.parametrize("when", ["before", "after"])
    def test_held_remaining_and_check_answer_during_a_renew(
        self, store: LeaseStore, server: LocalSqlServer, when: str
    ) -> None:
        lease = store.lease("job", options=SLOW)
        lease.try_acquire()
        token = lease.fencing_token
        kept_back = server.faults.hold(when)
        renewing = in_background(lease.try_renew)
        assert kept_back.held.wait(20)
        assert in_background(lambda: (lease.held, lease.fencing_token)).result(5) == (True, token)
        assert in_background(lambda: lease.remaining).result(5) > 0
        assert in_background(lease.check).result(5) is None
        assert not renewing.done()
        kept_back.release()
        assert renewing.result(20) is True

    def test_a_first_acquire_is_not_held_before_its_answer(self, store: LeaseStore, server: LocalSqlServer) -> None:
        lease = store.lease("job", options=SLOW)
        kept_back = server.faults.hold("after")
        acquiring = in_background(lease.try_acquire)
        assert kept_back.held.wait(20)
        assert lease.held is False
        kept_back.release()
        assert acquiring.result(20) is True
        assert lease.held is True

    def test_a_release_is_no_longer_held_before_the_server_hears_of_it(
        self, store: LeaseStore, server: LocalSqlServer
    ) -> None:
        lease = store.lease("job", options=SLOW)
        lease.try_acquire()
        kept_back = server.faults.hold("before")
        releasing = in_background(lease.try_release)
        assert kept_back.held.wait(20)
        assert lease.held is False
        with pytest.raises(LeaseLost):
            lease.check()
        kept_back.release()
        assert releasing.result(20) is True
