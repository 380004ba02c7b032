"""How ``hold()`` waits for a lease that another one has. The clock is the test's, so nothing here takes time."""

from __future__ import annotations

from typing import Any

import pytest

from sqllease import LeaseNotAcquired, LeaseStoreError, LeaseValueError, holding

from .scripted import ScriptedLease, Slept, held_by, library_threads


@pytest.fixture
def lease() -> ScriptedLease:
    return ScriptedLease()


@pytest.fixture
def slept(lease: ScriptedLease, monkeypatch: pytest.MonkeyPatch) -> Slept:
    instead = Slept(lease.clock)
    monkeypatch.setattr(holding, "time", instead)
    return instead


def test_a_timeout_of_zero_is_one_real_try(lease: ScriptedLease, slept: Slept) -> None:
    lease.acquires.append(held_by())
    with pytest.raises(LeaseNotAcquired), lease.hold(timeout=0):
        pytest.fail("entered")
    assert lease.asked == ["acquire"]
    assert not slept.pauses


def test_a_timeout_of_zero_is_enough_for_a_free_lease(lease: ScriptedLease) -> None:
    with lease.hold(timeout=0) as held:
        assert held.name == "job"


def test_who_has_it_is_in_the_error_and_in_its_text(lease: ScriptedLease) -> None:
    other = held_by("somebody")
    lease.acquires.append(other)
    with pytest.raises(LeaseNotAcquired, match=r"is held by somebody until 2030-01-01T12:00:00\+00:00") as raised:
        lease.hold(timeout=0).__enter__()
    assert raised.value.holder is other
    assert isinstance(raised.value, TimeoutError)


def test_a_resting_lease_is_told_as_such(lease: ScriptedLease) -> None:
    lease.acquires.append(held_by("somebody", resting=True))
    with pytest.raises(LeaseNotAcquired, match="rests, last held by somebody"):
        lease.hold(timeout=0).__enter__()


def test_it_polls_with_jitter_while_the_holder_has_long_to_go(lease: ScriptedLease, slept: Slept) -> None:
    lease.acquires.extend([held_by(remaining=100)] * 50)
    with lease.hold(poll_interval=2):
        pass
    assert len(slept.pauses) == 50
    assert all(1.8 <= pause <= 2.0 for pause in slept.pauses)
    assert len(set(slept.pauses)) > 40


def test_it_comes_sooner_when_the_holder_has_to_be_done(lease: ScriptedLease, slept: Slept) -> None:
    lease.acquires.extend([held_by(remaining=0.25), held_by(remaining=0.5)])
    with lease.hold(poll_interval=2):
        pass
    assert slept.pauses == [0.25, 0.5]


def test_the_last_try_comes_at_the_end_of_the_timeout(lease: ScriptedLease, slept: Slept) -> None:
    lease.acquires.extend([held_by()] * 10)
    with pytest.raises(LeaseNotAcquired, match=r"within 2\.5 s"):
        lease.hold(timeout=2.5, poll_interval=1).__enter__()
    assert sum(slept.pauses) == pytest.approx(2.5)
    assert len(lease.asked) == len(slept.pauses) + 1


def test_a_clock_that_stands_still_does_not_make_the_wait_endless(
    lease: ScriptedLease, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []

    class Frozen:
        sleep = staticmethod(slept.append)

    monkeypatch.setattr(holding, "time", Frozen)
    lease.acquires.extend([held_by()] * 10)
    with pytest.raises(LeaseNotAcquired):
        lease.hold(timeout=2.5, poll_interval=1).__enter__()
    assert sum(slept) == pytest.approx(2.5)


def test_without_a_timeout_it_waits_on(lease: ScriptedLease, slept: Slept) -> None:
    lease.acquires.extend([held_by()] * 500)
    with lease.hold():
        pass
    assert len(slept.pauses) == 500


def test_trouble_with_the_database_ends_the_wait_and_leaves_the_object_free(lease: ScriptedLease) -> None:
    lease.acquires.append(LeaseStoreError("down"))
    with pytest.raises(LeaseStoreError, match="down"):
        lease.hold().__enter__()
    with lease.hold():
        pass


def test_ctrl_c_while_waiting_leaves_the_object_free(lease: ScriptedLease) -> None:
    lease.acquires.append(KeyboardInterrupt())
    with pytest.raises(KeyboardInterrupt):
        lease.hold().__enter__()
    with lease.hold():
        pass


def test_a_lease_that_cannot_be_kept_alive_is_given_back(lease: ScriptedLease, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*arguments: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(holding, "KeepAlive", no_thread)
    with pytest.raises(RuntimeError, match="new thread"):
        lease.hold().__enter__()
    assert lease.asked == ["acquire", "release"]
    assert not lease.held
    monkeypatch.undo()
    with lease.hold():
        pass


def test_try_hold_gives_none_when_another_has_it_and_leaves_the_object_free(lease: ScriptedLease) -> None:
    lease.acquires.append(held_by())
    with lease.try_hold() as held:
        assert held is None
    assert lease.asked == ["acquire"]
    with lease.try_hold() as held:
        assert held is not None
    assert lease.asked == ["acquire", "acquire", "release"]


def test_try_hold_does_not_swallow_a_not_acquired_of_the_body(lease: ScriptedLease) -> None:
    with pytest.raises(LeaseNotAcquired, match="my own"), lease.try_hold():
        raise LeaseNotAcquired("my own")


@pytest.mark.parametrize(
    ("terms", "told"),
    [
        ({"timeout": -1}, "timeout"),
        ({"timeout": "soon"}, "timeout"),
        ({"poll_interval": 0}, "poll_interval"),
        ({"hold_at_least": -1}, "hold_at_least"),
        ({"max_hold": 0}, "max_hold"),
        ({"max_hold": float("inf")}, "max_hold"),
    ],
)
def test_terms_that_cannot_work_are_refused_before_anything_is_asked(
    lease: ScriptedLease, terms: dict[str, Any], told: str
) -> None:
    with pytest.raises(LeaseValueError, match=told):
        lease.hold(**terms)
    assert not lease.asked


def test_a_coroutine_function_cannot_be_told_of_a_loss(lease: ScriptedLease) -> None:
    async def on_lost() -> None: ...

    with pytest.raises(LeaseValueError, match="on_lost"):
        lease.hold(on_lost=on_lost)


def test_a_duration_too_short_to_be_kept_alive_is_refused() -> None:
    from sqllease import LeaseOptions

    lease = ScriptedLease()
    lease._options = LeaseOptions(duration=10, command_timeout=6)
    with pytest.raises(LeaseValueError, match=r"interval \(3\.33333 s\) \+ command_timeout \(6 s\)"):
        lease.hold()
    with lease.hold(keep_alive=False):
        assert not library_threads()
