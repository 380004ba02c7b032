"""A renewal that was given up: its late answer changes nothing, on a real wire and at a replica."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from sqllease import AsyncLeaseStore, LeaseLost, ReplicaOptions, SqlLease
from sqllease.calls import Release, Renew
from sqllease.replica import Sight
from sqllease.tenure import Belief
from tests.lease.bench import RELEASE, RENEW, Bench
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import KEPT, ScriptedLease, library_threads


@pytest.fixture
async def store(bench: Bench) -> AsyncIterator[AsyncLeaseStore]:
    opened = AsyncLeaseStore(bench.dsn())
    yield opened
    await opened.aclose()


def test_true_after_the_deadline_revives_nothing(bench: Bench) -> None:
    lease = bench.lease()
    with pytest.raises(LeaseLost), lease.hold() as held:
        with bench.kept_back(RENEW, "after") as answer:
            bench.clock.advance(2)
            assert answer.held.wait(PATIENCE_S)
            bench.clock.advance(3.4)
            assert held.lost.wait(PATIENCE_S)
        wait_until(lambda: not library_threads(), "the answer has come")
        assert not lease.held
        assert lease.remaining == 0
    assert not bench.sent(RELEASE)


def test_and_leaves_the_next_hold_of_the_object_alone(bench: Bench) -> None:
    lease = bench.lease()
    with bench.kept_back(RENEW, "after") as answer:
        with pytest.raises(LeaseLost), lease.hold() as first:
            bench.clock.advance(2)
            assert answer.held.wait(PATIENCE_S)
            bench.clock.advance(3.4)
            first.check()
        bench.server.clock.advance(10)
        entering = in_background(lambda: lease.hold().__enter__())
    second = entering.result(PATIENCE_S)
    wait_until(lambda: not lease._turn.locked(), "the late answer has come")
    second.check()
    assert second.fencing_token > first.fencing_token
    assert not first.lost.cause


def test_false_after_the_deadline_is_no_second_loss(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(LeaseLost, match="its time has run out"), bench.lease().hold() as held:
        with bench.kept_back(RENEW) as question:
            bench.clock.advance(2)
            assert question.held.wait(PATIENCE_S)
            bench.clock.advance(3.4)
            assert held.lost.wait(PATIENCE_S)
            bench.server.execute("DELETE FROM [lease].[Leases]")
        wait_until(lambda: not library_threads(), "the answer has come")
    assert [record.levelname for record in caplog.records].count("ERROR") == 1


def test_true_in_the_very_moment_of_the_loss_revives_nothing() -> None:
    class Racing(ScriptedLease):
        """Is forsaken by another thread whenever it is about to believe something."""

        armed = False

        @property
        def _belief(self) -> Belief:
            return self._believed

        @_belief.setter
        def _belief(self, belief: Belief) -> None:
            if self.armed:
                self._era += 1
                self.armed = False
            self._believed = belief

    lease = Racing()
    assert lease._try_acquire()
    lease.armed = True
    assert not lease._try_renew()
    assert not lease.held


async def test_of_an_awaited_ensure_too(bench: Bench, store: AsyncLeaseStore) -> None:
    lease = store.lease("job", options=KEPT, clock=bench.clock)
    with pytest.raises(LeaseLost):
        async with lease.hold(keep_alive=False) as held:
            with bench.kept_back(RENEW, "after") as answer:
                ensuring = asyncio.create_task(held.ensure(100))
                await asyncio.wrap_future(in_background(lambda: answer.held.wait(PATIENCE_S)))
                bench.clock.advance(5.4)
                assert held.lost.is_set()
            with pytest.raises(LeaseLost):
                await ensuring
            assert not lease.held


class TestAtTheReplica:
    """The primary has renewed; before the replica has shown it, the hold is lost."""

    @pytest.fixture
    def lease(self, bench: Bench) -> SqlLease:
        lease = bench.lease(connection=bench.store(replica=ReplicaOptions(bench.dsn(), timeout=2)))
        plain = bench.lease(owner_id=lease.owner_id)
        assert plain.try_acquire()
        lease._belief = plain._belief
        return lease

    def confirmation(self, lease: SqlLease) -> Any:
        renew = Renew(lease)
        verdict = lease._store.ask(renew.prepare, renew.settle, command_timeout=1, login_timeout=1, patience=renew.left)
        assert verdict.confirm is not None
        return verdict.confirm

    @pytest.mark.parametrize("sight", [Sight.CONFIRMED, Sight.SUPERSEDED])
    def test_what_it_shows_later_revives_nothing_and_ends_nothing(self, lease: SqlLease, sight: Sight) -> None:
        confirmation = self.confirmation(lease)
        tenure = lease._belief.tenure
        assert tenure is not None
        lease._forsake(tenure.began)
        forsaken = lease._belief
        assert not lease.held
        confirmation._sight = sight
        assert not confirmation.verdict().value
        assert lease._belief == forsaken

    def test_nor_does_it_once_the_tenure_is_being_given_back(self, lease: SqlLease) -> None:
        confirmation = self.confirmation(lease)
        tenure = lease._belief.tenure
        assert tenure is not None
        Release(lease, tenure.began)  # behind the back of the renewal, as a closing loop has it
        confirmation._sight = Sight.CONFIRMED
        assert not confirmation.verdict().value
        assert not lease.held

    def test_without_a_loss_it_counts(self, lease: SqlLease) -> None:
        confirmation = self.confirmation(lease)
        confirmation._sight = Sight.CONFIRMED
        assert confirmation.verdict().value
        assert lease.held
