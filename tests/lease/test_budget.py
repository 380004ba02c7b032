"""How much time a call has for its attempts: counted by what the server was asked, never by a watch."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease import SYSTEM_CLOCK, LeaseOptions, LeaseStoreError
from sqllease.testing import LocalSqlServer, ManualClock
from tests.drivers import Driver

from .bench import ACQUIRE, FOR_EVER, QUICK, RELEASE, RENEW, Bench
from .support import PATIENCE_S, in_background

LONG = LeaseOptions(duration=30, command_timeout=1)
"""Attempts for ten seconds after the call began, belief for 27."""

EACH_VERB = pytest.mark.parametrize(
    ("verb", "text"), [("try_acquire", ACQUIRE), ("try_renew", RENEW), ("try_release", RELEASE)]
)


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def test_a_call_on_a_link_that_swallows_answers_starts_no_attempt_after_a_third_of_the_duration(bench: Bench) -> None:
    # Each attempt takes the time-out of one second at least: so many fit into the two seconds that there are.
    lease = bench.lease(options=QUICK, clock=SYSTEM_CLOCK)
    bench.server.faults.silence("before", times=FOR_EVER)
    call = in_background(lease.try_acquire)
    with pytest.raises(LeaseStoreError, match="outcome is unknown"):
        call.result(PATIENCE_S)
    assert 1 <= len(bench.sent(ACQUIRE)) <= 1 + QUICK.retry_budget / QUICK.command_timeout


@EACH_VERB
def test_no_attempt_starts_after_a_third_of_the_duration(bench: Bench, verb: str, text: str) -> None:
    # Attempts at 0, 3, 6 and 9 s by the lease's clock; the fifth would be at 12.
    lease = bench.lease(options=LONG)
    if verb != "try_acquire":
        lease.try_acquire()
    bench.server.log.clear()
    bench.slow(3.0)
    bench.server.faults.drop("before", times=FOR_EVER)
    with pytest.raises(LeaseStoreError):
        getattr(lease, verb)()
    assert len(bench.sent(text)) == 4


@EACH_VERB
def test_the_third_of_the_duration_counts_logins_too(bench: Bench, verb: str, text: str) -> None:
    lease = bench.lease(options=LONG)
    if verb != "try_acquire":
        lease.try_acquire()
        bench.hang_up()
    bench.server.log.clear()
    bench.slow(5.0, at="login")
    bench.server.faults.drop("login", times=2)
    with pytest.raises(LeaseStoreError):
        getattr(lease, verb)()
    assert bench.sent(text) == []
    assert bench.server.log.logins == 2


def test_a_renew_uses_all_of_the_time_that_is_left_of_the_lease(bench: Bench) -> None:
    # One second is left. Attempts at 0, 0.3 and 0.6 s, after waits of 0.05 and 0.1 s and more.
    lease = bench.lease(options=LONG)
    lease.try_acquire()
    bench.clock.advance(26)
    assert lease.remaining == 1.0
    bench.server.log.clear()
    bench.slow(0.3)
    bench.server.faults.drop("before", times=2)
    assert lease.try_renew() is True
    assert len(bench.sent(RENEW)) == 3
    assert lease.remaining == pytest.approx(27 - 0.3)


def test_a_renew_starts_no_attempt_when_the_lease_is_over(bench: Bench) -> None:
    lease = bench.lease(options=LONG)
    lease.try_acquire()
    bench.clock.advance(26)
    bench.server.log.clear()
    bench.slow(0.6)
    bench.server.faults.drop("before", times=FOR_EVER)
    with pytest.raises(LeaseStoreError):
        lease.try_renew()
    assert len(bench.sent(RENEW)) == 2
    assert not lease.held


def test_a_lease_whose_time_is_over_is_asked_for_once(bench: Bench) -> None:
    # The server may know better: the row is gone, or expired. There is no time to ask again.
    lease = bench.lease(options=LONG)
    lease.try_acquire()
    bench.clock.advance(27)
    bench.server.log.clear()
    bench.server.faults.drop("before", times=FOR_EVER)
    with pytest.raises(LeaseStoreError):
        lease.try_renew()
    assert len(bench.sent(RENEW)) == 1


def test_a_clock_that_stands_still_makes_no_call_endless(bench: Bench) -> None:
    lease = bench.lease(options=LeaseOptions(duration=2, command_timeout=1), clock=ManualClock())
    bench.server.faults.error(1222, times=FOR_EVER)
    with pytest.raises(LeaseStoreError):
        lease.try_acquire()
    # Waits of 0.05, 0.1 and 0.2 s and more fit into two thirds of a second; 0.4 s does not.
    assert len(bench.sent(ACQUIRE)) <= 4


def test_the_longest_lock_timeout_is_taken_by_the_server(bench: Bench) -> None:
    lease = bench.lease(options=LeaseOptions(duration=366 * 86_400))
    assert lease.try_acquire() is True
    (request,) = bench.sent(ACQUIRE)
    assert f"SET LOCK_TIMEOUT {86_400_000};" in request.text
