"""Holds on a real wire: the row while the block runs, and after it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable

import pytest

from sqllease import LeaseInUse, LeaseLost, LeaseNotAcquired, LeaseStore, LeaseValueError
from sqllease.testing.server.sqltypes import TICKS_PER_SECOND
from tests.lease.bench import ACQUIRE, RELEASE, RENEW, Bench
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import KEPT, library_threads

HOUR = 3600


@pytest.fixture
def store(bench: Bench) -> LeaseStore:
    return bench.store()


def gone(bench: Bench) -> None:
    """An administrator deletes the row."""
    bench.server.execute("DELETE FROM [lease].[Leases]")


def lasts(bench: Bench) -> float:
    """Seconds from the beginning of the tenure in the row to its end."""
    (ticks,) = bench.server.execute(
        "SELECT DATEDIFF_BIG(nanosecond, AcquiredAtUtc, ExpiresAtUtc) / 100 FROM [lease].[Leases]"
    )[0]
    assert isinstance(ticks, int)
    return ticks / TICKS_PER_SECOND


class TestTheRow:
    def test_is_there_while_the_block_runs_and_gone_after_it(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold() as held:
            assert bench.row().owner == lease.owner_id
            assert held.fencing_token == lease.fencing_token
        assert not bench.rows()

    def test_is_free_at_once_when_the_body_fails(self, bench: Bench) -> None:
        with pytest.raises(ZeroDivisionError), bench.lease().hold():
            _ = 1 / 0
        assert not bench.rows()

    def test_costs_one_question_in_and_one_out(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold():
            pass
        bench.server.log.clear()
        with lease.hold():
            pass
        assert bench.server.log.logins == 0
        assert bench.server.log.round_trips == 2

    def test_is_renewed_by_the_keep_alive(self, bench: Bench) -> None:
        with bench.lease().hold() as held:
            before = bench.row()
            bench.clock.advance(2)
            bench.finished(bench.arrived(RENEW))
            assert bench.row().version > before.version
            assert bench.row().acquired == before.acquired
            held.check()

    def test_is_a_new_tenure_with_a_higher_token_each_time(self, bench: Bench) -> None:
        lease = bench.lease()
        tokens = []
        for _ in range(3):
            with lease.hold() as held:
                tokens.append(held.fencing_token)
        assert tokens == sorted(set(tokens))


class TestContention:
    def test_a_try_gives_none_while_another_holds(self, store: LeaseStore, bench: Bench) -> None:
        with bench.lease(connection=store).hold(), bench.lease(connection=store).try_hold() as second:
            assert second is None

    def test_a_timeout_says_who_holds(self, store: LeaseStore, bench: Bench) -> None:
        holder = bench.lease(connection=store)
        with holder.hold(), pytest.raises(LeaseNotAcquired) as raised:
            bench.lease(connection=store).hold(timeout=0).__enter__()
        assert raised.value.holder is not None
        assert raised.value.holder.owner_id == holder.owner_id

    def test_a_waiting_hold_is_entered_when_the_holder_leaves(self, store: LeaseStore, bench: Bench) -> None:
        entered = threading.Event()

        def wait() -> None:
            with bench.lease(connection=store).hold(timeout=PATIENCE_S, poll_interval=0.01):
                entered.set()

        with bench.lease(connection=store).hold():
            waiting = in_background(wait)
            bench.server.log.wait_for(lambda request: len(bench.sent(ACQUIRE)) >= 4)
            assert not entered.is_set()
        waiting.result(PATIENCE_S)

    def test_the_raw_verbs_of_a_held_object_are_refused(self, bench: Bench) -> None:
        lease = bench.lease()
        verbs: list[Callable[[], bool]] = [lease.try_acquire, lease.try_renew, lease.try_release]
        with lease.hold():
            for verb in verbs:
                with pytest.raises(LeaseInUse, match="in use by a hold"):
                    verb()
        assert len(bench.sent(ACQUIRE)) == len(bench.sent(RELEASE)) == 1
        assert lease.try_acquire()
        assert lease.try_release()

    def test_and_at_once_also_while_a_renewal_hangs(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold(), bench.kept_back(RENEW) as renewal:
            bench.clock.advance(2)
            assert renewal.held.wait(PATIENCE_S)
            with pytest.raises(LeaseInUse):
                lease.try_release()
            renewal.release()

    def test_a_raw_verb_that_waited_for_its_turn_is_refused_when_a_hold_has_come_meanwhile(self, bench: Bench) -> None:
        lease = bench.lease()
        lease._turn = turn = WatchedLock()  # type: ignore[assignment]
        block = lease.hold()
        with bench.kept_back(ACQUIRE) as acquiring:
            first = in_background(lease.try_acquire)
            assert acquiring.held.wait(PATIENCE_S)
            releasing = in_background(lease.try_release)
            wait_until(lambda: turn.asked == 2, "the release waits for its turn")
            entering = in_background(block.__enter__)
            wait_until(lambda: turn.asked == 3, "the hold waits for its turn")
        assert first.result(PATIENCE_S)
        with pytest.raises(LeaseInUse):
            releasing.result(PATIENCE_S)
        entering.result(PATIENCE_S).check()
        block.__exit__(None, None, None)
        assert len(bench.sent(RELEASE)) == 1

    def test_a_hold_goes_on_with_a_tenure_that_the_object_has(self, bench: Bench) -> None:
        lease = bench.lease()
        assert lease.try_acquire()
        token = lease.fencing_token
        with lease.hold() as held:
            assert held.fencing_token == token
        assert not bench.rows()


class TestALostRow:
    def test_is_lease_lost_at_the_end_of_the_block(self, bench: Bench) -> None:
        with pytest.raises(LeaseLost, match="its release found it gone or taken"), bench.lease().hold():
            gone(bench)

    def test_is_a_note_on_the_bodys_error(self, bench: Bench) -> None:
        with pytest.raises(ValueError, match="mine") as raised, bench.lease().hold():
            gone(bench)
            raise ValueError("mine")
        assert len(raised.value.__notes__) == 1

    def test_is_noticed_by_the_next_renewal_and_told_at_once(self, bench: Bench) -> None:
        heard = threading.Event()
        with pytest.raises(LeaseLost), bench.lease().hold(on_lost=heard.set) as held:
            gone(bench)
            bench.clock.advance(2)
            assert heard.wait(PATIENCE_S)
            assert held.lost.is_set()
        assert not bench.sent(RELEASE)

    def test_that_another_has_taken_is_left_to_it(self, store: LeaseStore, bench: Bench) -> None:
        other = bench.lease(connection=store)
        with pytest.raises(LeaseLost), bench.lease(connection=store).hold():
            gone(bench)
            assert other.try_acquire()
        assert bench.row().owner == other.owner_id

    def test_by_the_clock_alone_is_not_gone_on_with_by_the_next_hold(self, bench: Bench) -> None:
        lease = bench.lease()
        with pytest.raises(LeaseLost), lease.hold() as first:
            bench.clock.advance(5.4)
            first.check()
        with lease.hold() as second:
            assert second.fencing_token > first.fencing_token


class TestTheRelease:
    def test_whose_answer_is_lost_is_no_loss(self, bench: Bench) -> None:
        bench.server.faults.drop("after", matching=RELEASE)
        with bench.lease().hold() as held:
            pass
        assert not held.lost.is_set()
        assert len(bench.sent(RELEASE)) == 2
        assert not bench.rows()

    def test_that_found_the_row_busy_and_then_gone_is_a_loss(self, bench: Bench) -> None:
        busy = bench.raw(autocommit=False)

        def commit() -> None:
            bench.server.log.wait_for(lambda request: RELEASE in request.text and 1222 in request.errors)
            busy.commit()

        with pytest.raises(LeaseLost), bench.lease().hold():
            busy.execute("DELETE FROM [lease].[Leases]")
            committing = in_background(commit)
        committing.result(PATIENCE_S)

    def test_that_cannot_be_sent_leaves_the_row_to_expire(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold() as held:
            bench.slow(3, "login")
            bench.hang_up()
            bench.server.faults.drop("login", times=1_000)
        assert not held.lost.is_set()
        assert not lease.held
        assert bench.row().owner == lease.owner_id

    def test_after_that_the_same_object_begins_anew(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold() as first:
            bench.hang_up()
            bench.slow(3, "login")
        bench.server.faults.clear()
        with lease.hold() as second:
            assert second.fencing_token > first.fencing_token


class TestHoldAtLeast:
    def test_the_row_rests_after_a_short_job_whoever_asks(self, store: LeaseStore, bench: Bench) -> None:
        lease = bench.lease(connection=store, owner_id="host")
        with lease.hold(hold_at_least=60):
            assert lasts(bench) == pytest.approx(60)
        assert lasts(bench) == pytest.approx(60)
        for again in (lease, bench.lease(connection=store, owner_id="host"), bench.lease(connection=store)):
            outcome = again.run(lambda held: 1)
            assert not outcome.ran
            assert outcome.holder is not None
            assert outcome.holder.resting
            assert outcome.holder.owner_id == "host"

    def test_a_job_that_fails_rests_too(self, store: LeaseStore, bench: Bench) -> None:
        with pytest.raises(ValueError, match="1"), bench.lease(connection=store).hold(hold_at_least=60):
            raise ValueError("1")
        assert not bench.lease(connection=store).run(lambda held: 1).ran

    def test_a_crash_does_not_shorten_it_and_a_renewal_neither(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold(hold_at_least=600) as held:
            for _ in range(3):
                held.ensure(100)
                assert lasts(bench) == pytest.approx(600)
                assert held.remaining < 6
                assert lease.expires_at is not None

    def test_a_job_that_ran_longer_frees_it_at_once(self, bench: Bench) -> None:
        bench.server.clock.freeze()
        with bench.lease().hold(hold_at_least=4, keep_alive=False):
            bench.server.clock.advance(4.1)
            bench.clock.advance(4.1)
        assert not bench.rows()

    def test_it_is_that_holds_alone(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold(hold_at_least=0.001):
            pass
        bench.server.clock.advance(1)
        with lease.hold():
            pass
        assert not bench.rows()

    def test_a_hold_may_drop_the_one_of_the_lease(self, bench: Bench) -> None:
        lease = bench.lease(options=KEPT.but(hold_at_least=HOUR))
        with lease.hold(hold_at_least=0):
            pass
        assert not bench.rows()

    def test_a_hold_without_work_need_not_rest(self, bench: Bench) -> None:
        lease = bench.lease(options=KEPT.but(hold_at_least=HOUR))
        with lease.hold() as held:
            assert lasts(bench) == pytest.approx(HOUR)
            held.skip_rest()
        assert not bench.rows()

    def test_a_hold_that_is_over_says_nothing_about_the_next(self, bench: Bench) -> None:
        lease = bench.lease()
        with lease.hold() as first:
            pass
        with lease.hold(hold_at_least=60):
            first.skip_rest()
        assert lasts(bench) == pytest.approx(60)


class TestExtend:
    def test_it_moves_the_end_of_the_row_and_the_belief(self, bench: Bench) -> None:
        with bench.lease().hold() as held:
            held.extend(100)
            assert held.remaining == pytest.approx(100 - 0.6)
            assert lasts(bench) == pytest.approx(100, abs=5)

    def test_it_never_shortens(self, bench: Bench) -> None:
        with bench.lease().hold() as held:
            held.extend(100)
            before = bench.row().expires
            held.extend(5)
            assert held.remaining == pytest.approx(99.4)
            assert bench.row().expires == before

    def test_a_duration_that_cannot_work_is_refused_before_it_is_asked(self, bench: Bench) -> None:
        with bench.lease().hold() as held:
            with pytest.raises(LeaseValueError):
                held.extend(1)
            held.check()
            assert not bench.sent(RENEW)


class WatchedLock:
    """A lock that tells how often it was asked for."""

    def __init__(self) -> None:
        self._lock, self.asked = threading.Lock(), 0

    def acquire(self, timeout: float) -> bool:
        self.asked += 1
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()


def test_nothing_is_left_running(bench: Bench) -> None:
    with contextlib.suppress(LeaseLost), bench.lease().hold():
        gone(bench)
    assert not [name for name in library_threads() if name == "sqllease-renew"]
