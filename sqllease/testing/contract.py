"""The promises that any ``Lease`` must keep, as pytest classes: subclass them and give the fixture ``make_lease``.

    class TestMyLease(LeaseContract):
        @pytest.fixture
        def make_lease(self) -> MakeLease:
            return lambda **keywords: MyLease("job", **keywords)

``make_lease(**keywords)`` makes a contender for one and the same free lease, each an owner of its own; keywords:
``owner_id``, and ``name`` for another lease. ``LeaseTimeContract`` also needs ``pass_time(seconds)``, which moves every
clock that the leases know. Uses the verbs and properties of ``Lease``, nothing else.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any, Protocol

import pytest

from sqllease.errors import LeaseLost
from sqllease.protocols import Lease

CONTENDERS = 8


class MakeLease(Protocol):
    """Makes a contender for the lease of this test."""

    def __call__(self, **keywords: Any) -> Lease: ...


class PassTime(Protocol):
    """Lets so many seconds pass, by every clock that the leases know."""

    def __call__(self, seconds: float, /) -> object: ...


class LeaseContract:
    """What holds at every moment."""

    def test_it_has_the_shape_of_a_lease(self, make_lease: MakeLease) -> None:
        assert isinstance(make_lease(), Lease)

    def test_a_free_lease_is_won_and_held(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        assert lease.try_acquire() is True
        assert lease.held is True
        assert lease.remaining > 0
        assert isinstance(lease.fencing_token, int)

    def test_before_the_first_acquire_nothing_is_believed(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        assert lease.held is False
        assert lease.remaining == 0.0
        assert lease.expires_at is None
        assert lease.fencing_token is None
        assert lease.holder is None

    def test_each_contender_is_an_owner_of_its_own(self, make_lease: MakeLease) -> None:
        assert make_lease().owner_id != make_lease().owner_id

    def test_a_held_lease_is_refused_to_another_owner(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(), make_lease()
        assert holder.try_acquire()
        assert other.try_acquire() is False
        assert other.held is False
        assert other.remaining == 0.0
        assert other.fencing_token is None
        assert holder.held is True

    def test_a_lost_try_tells_who_holds_and_until_when(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(), make_lease()
        assert holder.try_acquire()
        assert other.try_acquire() is False
        seen = other.holder
        assert seen is not None
        assert (seen.name, seen.owner_id, seen.resting) == (holder.name, holder.owner_id, False)
        assert seen.expires_at == holder.expires_at
        assert seen.remaining > 0

    def test_the_holder_seen_is_forgotten_once_the_lease_is_ours(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        assert other.try_acquire() is False
        holder.try_release()
        assert other.try_acquire() is True
        assert other.holder is None

    def test_different_names_are_different_leases(self, make_lease: MakeLease) -> None:
        name = make_lease().name
        first, second = make_lease(name=f"{name}-1"), make_lease(name=f"{name}-2")
        assert first.try_acquire() is True
        assert second.try_acquire() is True

    def test_of_many_who_ask_at_once_one_wins(self, make_lease: MakeLease) -> None:
        contenders = [make_lease() for _ in range(CONTENDERS)]
        barrier = threading.Barrier(CONTENDERS)

        def ask(lease: Lease) -> bool:
            barrier.wait(20)
            return lease.try_acquire()

        with ThreadPoolExecutor(CONTENDERS) as threads:
            won = list(threads.map(ask, contenders))
        assert won.count(True) == 1
        assert [lease.held for lease in contenders] == won

    def test_acquiring_while_holding_is_a_refresh_that_keeps_the_token(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        token = lease.fencing_token
        assert lease.try_acquire() is True
        assert lease.held is True
        assert lease.fencing_token == token

    def test_a_held_lease_is_renewed_and_keeps_its_token(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        before, token = lease.expires_at, lease.fencing_token
        assert lease.try_renew() is True
        assert lease.fencing_token == token
        assert before is not None
        assert lease.expires_at is not None
        assert lease.expires_at >= before

    def test_who_never_acquired_renews_nothing(self, make_lease: MakeLease) -> None:
        assert make_lease().try_renew() is False

    def test_another_owner_renews_nothing(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        other.try_acquire()
        assert other.try_renew() is False
        assert other.held is False

    def test_a_released_lease_is_not_held_and_free_for_the_next(self, make_lease: MakeLease) -> None:
        first, second = make_lease(), make_lease()
        first.try_acquire()
        assert first.try_release() is True
        assert first.held is False
        assert first.remaining == 0.0
        assert first.fencing_token is None
        assert second.try_acquire() is True

    def test_there_is_nothing_to_release_twice(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.try_release()
        assert lease.try_release() is False

    def test_who_never_acquired_releases_nothing(self, make_lease: MakeLease) -> None:
        assert make_lease().try_release() is False

    def test_another_owner_releases_nothing(self, make_lease: MakeLease) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        other.try_acquire()
        assert other.try_release() is False
        assert holder.try_renew() is True

    def test_a_renew_after_a_release_brings_nothing_back(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        lease.try_release()
        assert lease.try_renew() is False
        assert make_lease().try_acquire() is True

    def test_the_token_rises_with_each_tenure(self, make_lease: MakeLease) -> None:
        tokens = []
        for contender in (make_lease(), make_lease(), make_lease()):
            for _ in range(2):
                assert contender.try_acquire()
                tokens.append(contender.fencing_token or 0)
                contender.try_release()
        assert tokens == sorted(set(tokens))

    def test_equal_owner_ids_are_one_owner(self, make_lease: MakeLease) -> None:
        first, second = make_lease(owner_id="web-1"), make_lease(owner_id="web-1")
        assert first.owner_id == "web-1"
        assert first.try_acquire() is True
        assert second.try_acquire() is True

    def test_the_second_object_of_one_owner_begins_a_tenure_of_its_own(self, make_lease: MakeLease) -> None:
        first, second = make_lease(owner_id="web-1"), make_lease(owner_id="web-1")
        first.try_acquire()
        token = first.fencing_token
        second.try_acquire()
        assert token is not None
        assert second.fencing_token is not None
        assert second.fencing_token > token

    @pytest.mark.parametrize("verb", ["try_renew", "try_release"])
    def test_a_message_of_an_earlier_tenure_touches_nothing_of_a_later_one(
        self, make_lease: MakeLease, verb: str
    ) -> None:
        earlier, later = make_lease(owner_id="web-1"), make_lease(owner_id="web-1")
        earlier.try_acquire()
        later.try_acquire()
        assert getattr(earlier, verb)() is False
        assert earlier.held is False
        assert later.try_renew() is True

    def test_a_check_passes_while_it_is_held_and_raises_before_and_after(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        with pytest.raises(LeaseLost):
            lease.check()
        lease.try_acquire()
        lease.check()
        lease.try_release()
        with pytest.raises(LeaseLost):
            lease.check()

    def test_expires_at_is_aware_utc(self, make_lease: MakeLease) -> None:
        lease = make_lease()
        lease.try_acquire()
        assert lease.expires_at is not None
        assert lease.expires_at.utcoffset() == timedelta(0)

    def test_a_close_releases_nothing(self, make_lease: MakeLease) -> None:
        holder = make_lease()
        holder.try_acquire()
        holder.close()
        assert make_lease().try_acquire() is False


class LeaseTimeContract:
    """What holds while time passes. The leases of ``make_lease`` last for ``duration`` seconds, with no grace and no
    hold-at-least.
    """

    duration = 30.0

    def test_belief_counts_down_and_never_outlasts_the_duration(
        self, make_lease: MakeLease, pass_time: PassTime
    ) -> None:
        lease = make_lease()
        lease.try_acquire()
        at_first = lease.remaining
        assert at_first <= self.duration
        pass_time(self.duration / 3)
        assert lease.remaining == pytest.approx(at_first - self.duration / 3, abs=0.5)

    def test_belief_has_ended_once_another_can_win(self, make_lease: MakeLease, pass_time: PassTime) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        pass_time(self.duration)
        assert holder.held is False
        with pytest.raises(LeaseLost):
            holder.check()
        assert other.try_acquire() is True

    def test_an_unexpired_lease_is_refused_to_the_last(self, make_lease: MakeLease, pass_time: PassTime) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        pass_time(self.duration * 0.99)
        assert other.try_acquire() is False

    @pytest.mark.parametrize("verb", ["try_renew", "try_acquire"])
    def test_a_renew_or_refresh_counts_the_duration_anew(
        self, make_lease: MakeLease, pass_time: PassTime, verb: str
    ) -> None:
        holder, other = make_lease(), make_lease()
        holder.try_acquire()
        at_first, token = holder.remaining, holder.fencing_token
        pass_time(self.duration / 2)
        assert getattr(holder, verb)() is True
        assert holder.remaining == pytest.approx(at_first, abs=0.5)
        assert holder.fencing_token == token
        pass_time(self.duration * 0.75)
        assert other.try_acquire() is False

    def test_a_renew_never_revives_what_has_expired(self, make_lease: MakeLease, pass_time: PassTime) -> None:
        lease = make_lease()
        lease.try_acquire()
        pass_time(self.duration)
        assert lease.try_renew() is False
        assert lease.held is False

    def test_an_expired_lease_of_ones_own_is_a_new_tenure(self, make_lease: MakeLease, pass_time: PassTime) -> None:
        lease = make_lease()
        lease.try_acquire()
        token = lease.fencing_token
        pass_time(self.duration)
        assert lease.try_acquire() is True
        assert token is not None
        assert lease.fencing_token is not None
        assert lease.fencing_token > token

    @pytest.mark.parametrize("verb", ["try_renew", "try_release"])
    def test_who_was_taken_over_touches_nothing_of_the_new_holder(
        self, make_lease: MakeLease, pass_time: PassTime, verb: str
    ) -> None:
        late, holder = make_lease(), make_lease()
        late.try_acquire()
        pass_time(self.duration)
        assert holder.try_acquire() is True
        assert getattr(late, verb)() is False
        assert holder.try_renew() is True

    def test_at_no_moment_do_two_believe_that_they_hold(self, make_lease: MakeLease, pass_time: PassTime) -> None:
        contenders = [make_lease() for _ in range(3)]
        for step in range(12):
            contenders[step % 3].try_acquire()
            contenders[(step + 1) % 3].try_renew()
            assert sum(lease.held for lease in contenders) <= 1
            pass_time(self.duration * 0.4)
            assert sum(lease.held for lease in contenders) <= 1
