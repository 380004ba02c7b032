"""The way out of a hold: in which order, what is sent, and what comes out of the block."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from sqllease import SYSTEM_CLOCK, Clock, LeaseLost, LeaseStoreError
from sqllease.testing import ManualClock
from tests.lease.support import PATIENCE_S, in_background, wait_until

from .scripted import AsyncScriptedLease, Gate, ScriptedLease, held_by, library_threads


@pytest.fixture
def lease() -> ScriptedLease:
    return ScriptedLease()


def renewal_is_due(lease: ScriptedLease) -> None:
    """A third of the duration passes: the keep-alive renews."""
    lease.clock.advance(10)


class TestTheOrder:
    def test_a_quiet_hold_acquires_and_releases(self, lease: ScriptedLease) -> None:
        with lease.hold() as held:
            assert lease.held
            assert held.remaining == 27
        assert lease.asked == ["acquire", "release"]
        assert not lease.held

    def test_the_release_waits_for_the_renewal_in_flight(self, lease: ScriptedLease) -> None:
        gate = Gate()
        lease.renews.append(gate)

        def work() -> None:
            with lease.hold():
                renewal_is_due(lease)
                gate.reached()

        leaving = in_background(work)
        gate.reached()
        assert not leaving.done()
        assert lease.asked == ["acquire", "renew"]
        gate.open()
        leaving.result(PATIENCE_S)
        assert lease.asked == ["acquire", "renew", "release"]

    def test_nothing_is_renewed_once_the_block_has_ended(self, lease: ScriptedLease) -> None:
        with lease.hold():
            pass
        lease.clock.advance(10)
        wait_until(lambda: not library_threads(), "the library's threads have ended")
        assert lease.asked == ["acquire", "release"]

    @pytest.mark.parametrize("clock", [SYSTEM_CLOCK, ManualClock()], ids=["real", "stopped"])
    def test_a_renewal_that_hangs_past_the_deadline_is_given_up_and_nothing_is_sent(self, clock: Clock) -> None:
        lease = ScriptedLease(duration=4, clock=clock)
        gate = Gate()
        lease.renews.append(gate)
        with pytest.raises(LeaseLost, match="its time has run out"), lease.hold() as held:
            gate.reached()
            assert held.remaining > 0
        assert lease.asked == ["acquire", "renew"]
        assert not lease.held
        gate.open()
        wait_until(lambda: not library_threads(), "the renewal has come back")
        assert not lease.held

    def test_after_the_deadline_no_release_is_sent(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost), lease.hold():
            lease.clock.advance(27)
        assert "release" not in lease.asked

    def test_up_to_the_deadline_one_is(self, lease: ScriptedLease) -> None:
        with lease.hold(keep_alive=False):
            lease.clock.advance(26.999)
        assert lease.asked == ["acquire", "release"]

    def test_held_is_false_before_the_release_is_sent(self, lease: ScriptedLease) -> None:
        seen: list[object] = []

        def look() -> bool:
            seen.extend((lease.held, held.remaining, held.lost.is_set()))
            with pytest.raises(LeaseLost, match="over"):
                held.check()
            return True

        lease.releases.append(look)
        with lease.hold() as held:
            pass
        assert seen == [False, 0.0, False]


class TestWhatComesOut:
    def test_the_bodys_error_alone_when_the_lease_was_not_lost(self, lease: ScriptedLease) -> None:
        with pytest.raises(ValueError, match="mine") as raised, lease.hold():
            raise ValueError("mine")
        assert lease.asked == ["acquire", "release"]
        assert not getattr(raised.value, "__notes__", [])

    def test_the_bodys_error_with_the_loss_as_a_note(self, lease: ScriptedLease) -> None:
        lease.releases.append(False)
        with pytest.raises(ValueError, match="mine") as raised, lease.hold():
            raise ValueError("mine")
        assert raised.value.__notes__ == ["lease 'job' was lost: its release found it gone or taken"]

    def test_lease_lost_when_the_lease_alone_was_lost(self, lease: ScriptedLease) -> None:
        lease.releases.append(False)
        with pytest.raises(LeaseLost) as raised, lease.hold():
            pass
        assert raised.value.reason == "its release found it gone or taken"

    def test_lease_lost_of_a_check_once_and_without_a_note(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost, match="run out") as raised, lease.hold() as held:
            lease.clock.advance(27)
            held.check()
        assert not getattr(raised.value, "__notes__", [])

    def test_the_loss_of_another_lease_with_a_note_of_ours(self, lease: ScriptedLease) -> None:
        other = ScriptedLease("other")
        other.releases.append(False)
        lease.releases.append(False)
        with pytest.raises(LeaseLost, match="'other'") as raised, lease.hold(), other.hold():
            pass
        assert ["'job'" in note for note in raised.value.__notes__] == [True]

    @pytest.mark.parametrize("ending", [SystemExit, KeyboardInterrupt, GeneratorExit])
    def test_endings_of_the_process_come_through_and_the_lease_is_released(
        self, lease: ScriptedLease, ending: type[BaseException]
    ) -> None:
        with pytest.raises(ending), lease.hold():
            raise ending
        assert lease.asked == ["acquire", "release"]

    def test_return_and_break_release(self, lease: ScriptedLease) -> None:
        def work() -> int:
            for _ in range(3):
                with lease.hold():
                    break
            with lease.hold():
                return 7

        assert work() == 7
        assert lease.asked == ["acquire", "release"] * 2

    def test_a_generator_that_is_closed_releases(self, lease: ScriptedLease) -> None:
        def steps() -> Generator[int, None, None]:
            with lease.hold():
                yield 1

        running = steps()
        assert next(running) == 1
        running.close()
        assert lease.asked == ["acquire", "release"]

    def test_gone_after_an_unanswered_release_is_no_loss(self, lease: ScriptedLease) -> None:
        lease.releases.append(None)
        with lease.hold() as held:
            pass
        assert not held.lost.is_set()

    def test_a_release_that_is_not_answered_is_logged_and_no_error(
        self, lease: ScriptedLease, caplog: pytest.LogCaptureFixture
    ) -> None:
        lease.releases.append(LeaseStoreError("down"))
        with lease.hold() as held:
            pass
        assert not held.lost.is_set()
        assert [record.levelname for record in caplog.records] == ["WARNING"]

    def test_a_bug_in_the_release_comes_out(self, lease: ScriptedLease) -> None:
        lease.releases.append(TypeError("a bug"))
        with pytest.raises(TypeError, match="a bug"), lease.hold():
            pass
        with lease.hold():
            pass

    def test_but_not_in_place_of_the_bodys_error(self, lease: ScriptedLease) -> None:
        lease.releases.append(TypeError("a bug"))
        with pytest.raises(ValueError, match="mine") as raised, lease.hold():
            raise ValueError("mine")
        assert raised.value.__notes__ == ["a bug"]

    def test_a_second_ctrl_c_during_the_release_ends_the_hold_all_the_same(self, lease: ScriptedLease) -> None:
        lease.releases.append(KeyboardInterrupt())
        with pytest.raises(KeyboardInterrupt), lease.hold() as held:
            pass
        assert not lease.held
        with pytest.raises(LeaseLost):
            held.check()
        wait_until(lambda: not library_threads(), "the library's threads have ended")
        with lease.hold():
            pass


class TestALoss:
    def test_is_final_whatever_the_lease_does_later(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost), lease.hold() as first:
            lease.clock.advance(27)
        with lease.hold() as second:
            assert first.lost.is_set()
            assert not second.lost.is_set()
            assert first.remaining == 0
            with pytest.raises(LeaseLost):
                first.check()

    def test_ends_the_belief_in_the_lease_too(self, lease: ScriptedLease) -> None:
        lease.renews.append(TypeError("a bug"))
        with pytest.raises(LeaseLost), lease.hold() as held:
            renewal_is_due(lease)
            assert held.lost.wait(PATIENCE_S)
            assert not lease.held
            with pytest.raises(LeaseLost):
                lease.check()

    def test_by_a_bug_in_the_renewing_releases_what_is_still_ours(self, lease: ScriptedLease) -> None:
        lease.renews.append(TypeError("a bug"))
        with pytest.raises(LeaseLost) as raised, lease.hold() as held:
            renewal_is_due(lease)
            assert held.lost.wait(PATIENCE_S)
        assert isinstance(raised.value.__cause__, TypeError)
        assert lease.asked == ["acquire", "renew", "release"]

    def test_told_by_the_server_is_followed_by_no_release(self, lease: ScriptedLease) -> None:
        lease.renews.append(False)
        with pytest.raises(LeaseLost, match="a renewal found it gone"), lease.hold() as held:
            renewal_is_due(lease)
            assert held.lost.wait(PATIENCE_S)
        assert lease.asked == ["acquire", "renew"]

    def test_at_the_deadline_is_not_undone_by_a_late_answer(self, lease: ScriptedLease) -> None:
        gate = Gate()
        lease.renews.append(gate)
        with pytest.raises(LeaseLost), lease.hold() as held:
            renewal_is_due(lease)
            gate.reached()
            lease.clock.advance(17)
            assert held.lost.wait(PATIENCE_S)
            gate.open()
            wait_until(lambda: "sqllease-renew" not in library_threads(), "the late answer has come")
            assert not lease.held
            assert held.lost.is_set()
        assert lease.asked == ["acquire", "renew"]

    def test_is_told_once(self, lease: ScriptedLease) -> None:
        heard: list[int] = []
        with pytest.raises(LeaseLost), lease.hold(on_lost=lambda: heard.append(1)) as held:
            lease.clock.advance(27)
            assert held.lost.wait(PATIENCE_S)
        assert heard == [1]

    def test_at_the_release_is_told_too(self, lease: ScriptedLease) -> None:
        heard: list[int] = []
        lease.releases.append(False)
        with pytest.raises(LeaseLost), lease.hold(on_lost=lambda: heard.append(1)):
            pass
        assert heard == [1]

    def test_is_never_told_of_a_hold_that_ended_in_order(self, lease: ScriptedLease) -> None:
        heard: list[int] = []
        with lease.hold(on_lost=lambda: heard.append(1)) as held:
            pass
        lease.clock.advance(100)
        assert not held.lost.is_set()
        assert not heard

    def test_in_a_callback_that_has_a_bug_stays_a_loss(self, lease: ScriptedLease) -> None:
        with pytest.raises(LeaseLost), lease.hold(on_lost=lambda: 1 / 0) as held:
            lease.clock.advance(27)
            held.check()


def test_a_block_that_is_used_again_and_got_nothing_leaves_nothing() -> None:
    lease = ScriptedLease()
    block = lease.try_hold()
    with block as first:
        assert first is not None
    lease.acquires.append(held_by())
    with block as second:
        assert second is None
        entered = lease.hold()
        held = entered.__enter__()
    held.check()
    entered.__exit__(None, None, None)
    assert lease.asked == ["acquire", "release", "acquire", "acquire", "release"]


async def test_an_async_one_too() -> None:
    lease = AsyncScriptedLease()
    block = lease.try_hold()
    async with block as first:
        assert first is not None
    lease.acquires.append(held_by())
    async with block as second:
        assert second is None
        entered = lease.hold()
        held = await entered.__aenter__()
    held.check()
    await entered.__aexit__(None, None, None)
    assert lease.asked == ["acquire", "release", "acquire", "acquire", "release"]
