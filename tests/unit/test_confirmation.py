"""Confirmation: what each look at the replica means, how long the search lasts, and how the call then ends."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from sqllease import LeaseConfigurationError, LeaseStoreError, ReplicaOptions
from sqllease.base import LeaseBase, ReplicaMemory
from sqllease.calls import Acquire, Renew
from sqllease.faults import Fault, Kind
from sqllease.grants import Verdict
from sqllease.replica import Confirmation
from sqllease.testing import ManualClock
from tests.unit.plain import NEW, OLD, OPTIONS, REPLICA, begun, done, plain_lease, win

PROCEED = replace(REPLICA, on_unconfirmed="proceed")
UNREACHABLE = Fault(Kind.MOVED, 0, "08001", sent=False)


class Scene(NamedTuple):
    clock: ManualClock
    lease: LeaseBase
    memory: ReplicaMemory
    search: Confirmation


def confirmation(verdict: Verdict) -> Confirmation:
    assert verdict.confirm is not None
    return verdict.confirm


def acquiring(options: ReplicaOptions = REPLICA) -> Scene:
    """A fresh tenure OLD, version 2001, that the replica has still to show."""
    clock, memory = ManualClock(), ReplicaMemory(options)
    lease = plain_lease(clock, replica=memory)
    return Scene(clock, lease, memory, confirmation(win(lease, OLD, 2001)))


def renewing(options: ReplicaOptions = REPLICA) -> Scene:
    """The same tenure, shown, and ten seconds later renewed as version 2005, which the replica has still to show."""
    scene = acquiring(options)
    scene.search.saw(shows())
    assert scene.search.verdict().value is True
    scene.clock.advance(10)
    renew = Renew(scene.lease)
    renew.prepare()
    return scene._replace(search=confirmation(renew.settle(done(OLD, 2005))))


def shows(owner: str = "me", began: str = OLD, version: int = 2001, role: Any = "READ_ONLY") -> list[tuple[Any, ...]]:
    return [(role, "nightly", owner, began, version)]


NO_ROW: list[tuple[Any, ...]] = [("READ_ONLY", None, None, None, None)]


# --- one look ---


@pytest.mark.parametrize("version", [2001, 2002, 9999])
def test_our_tenure_with_our_version_or_a_newer_one_confirms(version: int) -> None:
    scene = acquiring()
    scene.search.saw(shows(version=version))
    assert scene.search.pause() is None
    assert scene.search.verdict().value is True
    assert scene.lease.held
    assert scene.lease.confirmed is True


@pytest.mark.parametrize(
    "look",
    [
        NO_ROW,
        shows(version=2000),
        shows("other", NEW, 2000),
        shows("me", "2026-11-29T13:00:00.0000000+00:00", 1999),
        [("READ_ONLY", "Nightly", "me", OLD, 2001)],
    ],
    ids=["no row", "older version", "the holder before us", "our tenure before", "a name that only looks like ours"],
)
def test_what_the_replica_showed_before_our_write_is_a_reason_to_look_again(look: list[tuple[Any, ...]]) -> None:
    scene = acquiring()
    scene.search.saw(look)
    assert scene.search.pause() == 1.0
    assert not scene.lease.held
    scene.search.saw(shows())
    assert scene.search.verdict().value is True


def test_a_renewal_is_not_confirmed_by_the_row_before_it() -> None:
    scene = renewing()
    scene.search.saw(shows(version=2004))
    assert scene.search.pause() is not None
    scene.search.saw(shows(version=2005))
    assert scene.search.verdict().value is True
    assert scene.lease.remaining == 27.0


NEWER = pytest.mark.parametrize(
    "look", [shows("other", NEW, 2006), shows("me", NEW, 2006), shows("\x01me", OLD, 2006)],
    ids=["another owner", "another tenure of ours", "resting"],
)  # fmt: skip


@NEWER
def test_a_newer_row_that_is_not_our_tenure_says_that_a_new_lease_was_lost(look: list[tuple[Any, ...]]) -> None:
    scene = acquiring()
    scene.search.saw(look)
    assert scene.search.pause() is None
    verdict = scene.search.verdict()
    assert (verdict.value, verdict.give_back, verdict.error) == (False, True, None)
    assert not scene.lease.held


@NEWER
def test_a_newer_row_that_is_not_our_tenure_ends_a_lease_that_was_renewed(look: list[tuple[Any, ...]]) -> None:
    scene = renewing()
    assert scene.lease.held
    scene.search.saw(look)
    verdict = scene.search.verdict()
    assert (verdict.value, verdict.give_back, verdict.error) == (False, False, None)
    assert not scene.lease.held


# --- a database that takes writes ---


@pytest.mark.parametrize("role", ["READ_WRITE", None, ""])
def test_a_database_that_takes_writes_confirms_nothing_and_was_never_a_replica(role: Any) -> None:
    scene = acquiring()
    scene.search.saw(shows(role=role))
    assert scene.search.pause() is None
    verdict = scene.search.verdict()
    assert isinstance(verdict.error, LeaseConfigurationError)
    assert "ApplicationIntent" in str(verdict.error)
    assert verdict.give_back
    assert not scene.lease.held


def test_a_replica_that_has_become_the_primary_confirms_nothing_and_is_no_mistake_of_the_set_up() -> None:
    scene = acquiring()
    scene.search.saw(NO_ROW)
    scene.search.saw(shows(role="READ_WRITE"))
    assert scene.search.pause() is not None
    verdict = scene.search.verdict()
    assert (verdict.value, verdict.give_back, verdict.error) == (False, True, None)


def test_that_it_was_a_replica_is_known_to_the_next_lease_of_the_store() -> None:
    first = acquiring()
    first.search.saw(shows())
    second = confirmation(win(plain_lease(first.clock, replica=first.memory)))
    second.saw(shows(role="READ_WRITE"))
    assert second.verdict().error is None


# --- a replica that cannot be asked ---


@pytest.mark.parametrize("number", [229, 916, 18456])
def test_what_no_waiting_will_mend_ends_the_search_on_a_replica_that_never_worked(number: int) -> None:
    scene = acquiring()
    scene.search.failed(Fault(Kind.SET_UP, number))
    assert scene.search.pause() is None
    verdict = scene.search.verdict()
    assert isinstance(verdict.error, LeaseConfigurationError)
    assert f"error {number}" in str(verdict.error)
    assert "replica" in str(verdict.error)
    assert verdict.give_back


@pytest.mark.parametrize(
    "fault",
    [Fault(Kind.SET_UP, 208), UNREACHABLE, Fault(Kind.BUSY, text="all 1 were in use", sent=False)],
    ids=["the table has not arrived", "out of reach", "in use"],
)
def test_what_may_pass_is_looked_for_again(fault: Fault) -> None:
    scene = acquiring()
    scene.search.failed(fault)
    assert scene.search.pause() == 1.0
    scene.search.saw(shows())
    assert scene.search.verdict().value is True


def test_a_replica_that_has_worked_may_have_any_trouble_for_a_while() -> None:
    scene = acquiring()
    scene.search.saw(NO_ROW)
    scene.search.failed(Fault(Kind.SET_UP, 18456))
    assert scene.search.pause() is not None
    assert scene.search.verdict().error is None


# --- the end of the search ---


def look_in_vain(scene: Scene) -> list[float]:
    """Looks until there is nothing more to look for; gives the time of each look, counted from the first."""
    began, times = scene.clock.now(), []
    while (pause := scene.search.pause()) is not None:
        scene.clock.advance(pause)
        times.append(scene.clock.now() - began)
        scene.search.failed(UNREACHABLE)
    return times


def test_the_first_look_is_at_once_and_the_last_one_at_the_end_of_the_time() -> None:
    assert look_in_vain(acquiring(replace(REPLICA, timeout=2.5))) == [0.0, 1.0, 2.0, 2.5]


def test_no_look_is_later_than_the_belief_that_it_is_for() -> None:
    clock, memory = ManualClock(), ReplicaMemory(REPLICA)
    lease = plain_lease(clock, replica=memory)
    acquire = begun(Acquire(lease))
    clock.advance(25)
    scene = Scene(clock, lease, memory, confirmation(acquire.settle(done())))
    assert look_in_vain(scene) == [0.0, 1.0, 2.0]


def test_a_clock_that_a_test_has_stopped_does_not_make_the_search_endless() -> None:
    scene = acquiring()
    looks = 0
    while scene.search.pause() is not None:
        scene.search.failed(UNREACHABLE)
        looks += 1
        assert looks <= 6
    assert looks == 6


def test_a_new_lease_that_was_not_shown_in_time_is_refused_and_given_back() -> None:
    scene = acquiring()
    look_in_vain(scene)
    verdict = scene.search.verdict()
    assert (verdict.value, verdict.give_back, verdict.error) == (False, True, None)
    assert not scene.lease.held


def test_a_renewal_that_was_not_shown_in_time_is_an_error_and_what_was_shown_before_is_still_held() -> None:
    scene = renewing()
    look_in_vain(scene)
    verdict = scene.search.verdict()
    assert isinstance(verdict.error, LeaseStoreError)
    assert verdict.error.transient
    assert not verdict.give_back
    assert scene.lease.remaining == 27.0 - 10 - 5
    assert scene.lease.confirmed is True


def test_to_proceed_is_to_hold_and_to_say_that_it_was_not_confirmed() -> None:
    scene = acquiring(PROCEED)
    assert not scene.lease.held
    look_in_vain(scene)
    assert scene.search.verdict() == Verdict(True)
    assert scene.lease.held
    assert scene.lease.confirmed is False


def test_to_proceed_with_a_renewal_moves_the_deadline() -> None:
    scene = renewing(PROCEED)
    look_in_vain(scene)
    assert scene.search.verdict() == Verdict(True)
    assert (scene.lease.remaining, scene.lease.confirmed) == (22.0, False)


@pytest.mark.parametrize("options", [REPLICA, PROCEED], ids=["shown", "proceed"])
def test_nothing_is_true_after_the_deadline(options: ReplicaOptions) -> None:
    scene = acquiring(options)
    scene.clock.advance(27)
    if options is REPLICA:
        scene.search.saw(shows())
    verdict = scene.search.verdict()
    assert verdict.value is False
    assert verdict.give_back
    assert isinstance(verdict.error, LeaseStoreError)
    assert not scene.lease.held


def test_an_answer_of_the_replica_may_take_what_is_left_in_whole_seconds_and_one_at_least() -> None:
    scene = acquiring()
    assert scene.search.patience == OPTIONS.command_timeout
    patient = plain_lease(scene.clock, OPTIONS.but(command_timeout=4), scene.memory)
    search = confirmation(win(patient))
    assert search.patience == 4
    scene.clock.advance(2.5)
    assert search.patience == 2
    scene.clock.advance(2.4)
    assert search.patience == 1


# --- fresh or refreshed ---


def test_a_renewal_under_way_takes_nothing_from_what_was_confirmed() -> None:
    scene = renewing()
    assert scene.lease.remaining == 17.0
    assert scene.lease.fencing_token == 2001


def test_renewals_that_need_no_confirmation_are_believed_at_once() -> None:
    scene = acquiring(replace(REPLICA, confirm_renewals=False))
    scene.search.saw(shows())
    scene.search.verdict()
    renew = Renew(scene.lease)
    renew.prepare()
    assert renew.settle(done(OLD, 2005)) == Verdict(True)
    assert scene.lease.confirmed is True


def test_a_take_over_of_our_own_expired_lease_is_confirmed_anew() -> None:
    scene = acquiring(replace(REPLICA, confirm_renewals=False))
    scene.search.saw(shows())
    scene.search.verdict()
    assert win(scene.lease, NEW, 2007).confirm is not None
    assert not scene.lease.held


def test_only_an_acquire_settles_what_an_earlier_message_left_in_doubt() -> None:
    scene = acquiring()
    scene.search.saw(shows())
    scene.search.verdict()
    begun(Acquire(scene.lease)).exhausted(UNREACHABLE)
    renew = Renew(scene.lease)
    renew.prepare()
    renew.settle(done(OLD, 2005))
    assert scene.lease._belief.in_doubt
    win(scene.lease, OLD, 2006)
    assert not scene.lease._belief.in_doubt
