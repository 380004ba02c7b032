"""One leads, the others wait; what each of them tells; and how the work that ends hands the lead over."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest

from sqllease import (
    AsyncHold,
    AsyncLeaderElection,
    AsyncLeaseStore,
    ElectionState,
    LeaderElection,
    LeaseInfo,
    LeaseInUse,
    LeaseLost,
    LeaseOptions,
    LeaseStore,
    LeaseValueError,
    assert_held,
)
from sqllease.election import Stop
from sqllease.testing import LocalSqlServer
from tests.lease.bench import ACQUIRE, RELEASE
from tests.lease.support import PATIENCE_S, World, in_background, requests_of, wait_until

from .conftest import Enter
from .stage import POLL_S, STEP_S, Candidate, Floor, Script

BRIEF = LeaseOptions(duration=2)


def test_one_leads_and_the_others_see_who(enter: Enter) -> None:
    leader = enter().leads()
    others = [enter(), enter()]
    for other in others:
        wait_until(lambda other=other: other.election.leader is not None, "saw the leader")  # type: ignore[misc]
    assert leader.election.is_leader
    assert leader.state is ElectionState.LEADING
    assert [other.election.is_leader for other in others] == [False, False]
    assert {other.state for other in others} == {ElectionState.CANDIDATE}
    seen = [candidate.election.leader for candidate in (leader, *others)]
    assert {info.owner_id for info in seen if info is not None} == {leader.owner_id}
    assert len({info.acquired_at for info in seen if info is not None}) == 1
    assert all(candidate.election.healthy() for candidate in (leader, *others))


def test_after_a_resignation_another_leads_and_does_not_wait_for_the_expiry(enter: Enter) -> None:
    leader = enter(poll_interval=0.2).leads()
    other = enter(poll_interval=0.2)
    wait_until(lambda: other.election.leader is not None, "saw the leader")
    asked = time.monotonic()
    leader.stop()
    assert leader.state is ElectionState.STOPPED
    other.leads()
    # A poll of 0.2 s, and the time of four round trips on a busy machine: far below the lease of 30 s.
    assert other.script.starts[0] - asked < 15
    assert leader.script.causes == [None]


def test_news_of_a_leader_comes_once_for_each_change(enter: Enter, server: LocalSqlServer) -> None:
    first = enter().leads()
    second = enter()
    wait_until(lambda: second.script.leaders, "heard of the first leader")
    polls = len(requests_of(server, ACQUIRE))
    wait_until(lambda: len(requests_of(server, ACQUIRE)) > polls + 3, "polled some more")
    first.stop()
    second.leads()
    wait_until(lambda: len(second.script.leaders) == 2, "heard of itself")
    assert [info.owner_id for info in second.script.leaders] == [first.owner_id, second.owner_id]
    assert [info.owner_id for info in first.script.leaders] == [first.owner_id]


def test_news_come_in_order_and_one_at_a_time(enter: Enter, colour: str) -> None:
    begun: list[str] = []
    heard: list[str] = []
    go_on = threading.Event()

    def hear(info: LeaseInfo) -> None:
        begun.append(info.owner_id)
        if len(begun) == 1:
            go_on.wait(PATIENCE_S)
        heard.append(info.owner_id)

    async def hear_async(info: LeaseInfo) -> None:
        begun.append(info.owner_id)
        if len(begun) == 1:
            await asyncio.to_thread(go_on.wait, PATIENCE_S)
        heard.append(info.owner_id)

    first = enter().leads()
    second = enter(on_new_leader=hear if colour == "sync" else hear_async)
    wait_until(lambda: begun, "hears of the first leader")
    first.stop()
    second.leads()
    assert begun == [first.owner_id]
    go_on.set()
    wait_until(lambda: len(heard) == 2, "heard of both")
    assert heard == [first.owner_id, second.owner_id]


@pytest.mark.parametrize("colour", ["async"])
def test_news_that_are_due_at_the_end_are_still_told(enter: Enter) -> None:
    begun, go_on = threading.Event(), asyncio.Event()
    heard: list[str] = []

    async def hear(info: LeaseInfo) -> None:
        begun.set()
        await go_on.wait()
        await asyncio.sleep(0.1)  # outlasts the release and the end of run()
        heard.append(info.owner_id)

    async def stopped(cause: object) -> None:
        go_on.set()

    candidate = enter(on_new_leader=hear, on_stopped=stopped).leads()
    assert begun.wait(PATIENCE_S)
    candidate.stop()
    assert heard == [candidate.owner_id]


@pytest.mark.parametrize("colour", ["async"])
def test_news_that_hang_at_the_end_are_cut_off_and_said_to_be(
    enter: Enter, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("sqllease.aio.election.RELEASE_LIMIT_S", 0.1)

    async def hang(info: LeaseInfo) -> None:
        await asyncio.sleep(PATIENCE_S)

    candidate = enter(on_new_leader=hang).leads()
    candidate.stop()
    assert any("is cut off" in record.message for record in caplog.records)


@pytest.mark.parametrize("cause", [ValueError("a bug"), SystemExit(3)], ids=["raises", "exits"])
def test_work_that_fails_steps_down_and_another_leads(
    enter: Enter, cause: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    first = enter(Script(raises=cause), poll_interval=0.5).leads()
    second = enter()
    wait_until(lambda: second.election.leader is not None, "saw the leader")
    first.script.finish.set()
    second.leads()
    wait_until(lambda: first.state is ElectionState.CANDIDATE, "stood back, then polled again")
    assert first.script.causes == [cause]
    assert len(first.script.starts) == 1
    failed = [record for record in caplog.records if "failed, it steps down" in record.message]
    assert [record.levelno for record in failed] == [logging.ERROR]
    assert failed[0].exc_info is not None


def test_work_that_returns_steps_down_and_another_leads(enter: Enter, caplog: pytest.LogCaptureFixture) -> None:
    first = enter(poll_interval=0.5).leads()
    second = enter()
    wait_until(lambda: second.election.leader is not None, "saw the leader")
    first.script.finish.set()
    second.leads()
    assert first.script.causes == [None]
    assert any("has returned by itself" in record.message for record in caplog.records)


def test_work_that_only_starts_a_thread_has_returned(enter: Enter, colour: str) -> None:
    hand_over = threading.Event()

    def start_and_return(_: Any) -> None:
        threading.Thread(target=hand_over.wait, args=(PATIENCE_S,), daemon=True).start()

    async def start_and_return_async(held: Any) -> None:
        start_and_return(held)

    first = enter(on_started=start_and_return if colour == "sync" else start_and_return_async, poll_interval=0.5)
    wait_until(lambda: first.script.causes == [None], "stepped down")
    enter().leads()
    hand_over.set()


async def coroutine(argument: object) -> None: ...


def generator(argument: object) -> Iterator[None]:
    yield


async def asynchronous_generator(argument: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("colour", ["sync"])
@pytest.mark.parametrize("makes", [coroutine, generator, asynchronous_generator])
def test_work_that_was_only_made_and_has_not_run_has_failed(
    enter: Enter, makes: Callable[[object], object], caplog: pytest.LogCaptureFixture
) -> None:
    candidate = enter(on_started=lambda leading: makes(leading))
    wait_until(lambda: candidate.script.causes, "stopped")
    assert isinstance(candidate.script.causes[0], LeaseValueError)
    assert any("failed, it steps down" in record.message for record in caplog.records)


@pytest.mark.parametrize(("colour", "makes"), [("sync", coroutine), ("sync", generator), ("async", generator)])
def test_a_callback_that_was_only_made_and_has_not_run_has_failed(
    enter: Enter, makes: Callable[[object], object], caplog: pytest.LogCaptureFixture
) -> None:
    def told(name: str) -> bool:
        return any(f"{name} returned" in str(record.exc_info) for record in caplog.records)

    enter(on_new_leader=lambda info: makes(info), on_stopped=lambda cause: makes(cause)).leads().stop()
    wait_until(lambda: told("on_stopped") and told("on_new_leader"), "logged both")


@pytest.mark.parametrize("colour", ["sync"])
def test_what_was_only_to_be_prepared_is_not_prepared(enter: Enter) -> None:
    made: list[object] = []

    def prepare() -> object:
        made.append(None)
        return coroutine(None) if len(made) < 3 else None

    enter(prepare=prepare).leads()
    assert len(made) == 3


def test_work_that_always_ends_at_once_does_not_make_the_candidate_spin(enter: Enter) -> None:
    script = Script(raises=ValueError("always"))
    times: list[float] = []

    def note(_: object) -> None:
        times.append(time.monotonic())
        script.finish.set()

    script.finish.set()
    enter(script, on_stopped=note, poll_interval=0.05)
    wait_until(lambda: len(times) >= 4, "failed four times")
    gaps = [later - earlier for earlier, later in pairwise(times)]
    assert all(gap >= back * 0.05 for gap, back in zip(gaps, (2, 4, 8), strict=False))


def test_the_work_finds_its_hold_deep_inside(enter: Enter, colour: str) -> None:
    found: list[object] = []

    def work(leading: Any) -> None:
        found.append(assert_held("job") is leading.hold)
        leading.check()
        found.append(leading.fencing_token)

    async def work_async(held: Any) -> None:
        found.append(assert_held("job") is held)
        held.check()
        found.append(held.fencing_token)

    enter(on_started=work if colour == "sync" else work_async, poll_interval=0.5)
    wait_until(lambda: len(found) == 2, "the work ran")
    assert found[0] is True
    assert isinstance(found[1], int)


def test_bugs_of_callbacks_are_logged_and_break_nothing(enter: Enter, caplog: pytest.LogCaptureFixture) -> None:
    def fail(argument: object) -> None:
        raise RuntimeError("a callback's bug")

    def leave(argument: object) -> None:
        sys.exit(1)

    candidate = enter(on_stopped=fail, on_new_leader=leave).leads()
    candidate.script.finish.set()
    candidate.leads(times=2)
    candidate.stop()
    assert candidate.state is ElectionState.STOPPED
    assert sum("a callback failed" in record.message for record in caplog.records) >= 2


def test_a_callback_that_raises_a_cancel_of_its_own_has_failed(enter: Enter, caplog: pytest.LogCaptureFixture) -> None:
    def fail(argument: object) -> None:
        raise asyncio.CancelledError

    candidate = enter(on_stopped=fail, on_new_leader=fail).leads()
    candidate.stop()
    assert candidate.state is ElectionState.STOPPED
    assert sum("a callback failed" in record.message for record in caplog.records) == 2


def test_work_that_raises_a_cancel_of_its_own_has_failed(enter: Enter, colour: str) -> None:
    def work(leading: object) -> None:
        raise asyncio.CancelledError

    async def work_async(held: object) -> None:
        work(held)

    candidate = enter(on_started=work if colour == "sync" else work_async)
    wait_until(lambda: len(candidate.script.causes) >= 2, "led twice")
    assert isinstance(candidate.script.causes[0], asyncio.CancelledError)


def test_news_that_nobody_wants_do_not_pile_up(enter: Enter) -> None:
    candidate = enter(on_new_leader=None).leads()
    assert candidate.election._news.empty()


def test_a_callback_for_news_that_hangs_keeps_nobody_from_resigning(server: LocalSqlServer, dsn: str) -> None:
    hangs, go_on = threading.Event(), threading.Event()
    store = LeaseStore(dsn)
    script = Script()
    script.let_go.set()

    def hang(_: object) -> None:
        hangs.set()
        go_on.wait(3 * PATIENCE_S)

    election = LeaderElection(store.lease("job"), script.work, None, hang, poll_interval=POLL_S)
    running = threading.Thread(target=election.run, daemon=True)
    running.start()
    assert hangs.wait(PATIENCE_S)
    wait_until(lambda: script.starts, "leads all the same")
    election.resign()
    running.join(PATIENCE_S)
    assert not running.is_alive()
    assert election.state is ElectionState.STOPPED
    go_on.set()
    store.close()


def test_a_loss_wakes_work_that_waits_for_its_stop_whoever_brings_the_news(dsn: str) -> None:
    store = LeaseStore(dsn)
    with suppress(LeaseLost), store.lease("job").hold() as held:
        stop = Stop(held)
        waiting = in_background(stop.wait)
        held.lost.set("news of the test")
        assert waiting.result(PATIENCE_S)
    store.close()


@pytest.mark.parametrize("colour", ["async"])
def test_coroutine_functions_as_callbacks_are_awaited(enter: Enter) -> None:
    heard: list[object] = []

    async def hear(argument: object) -> None:
        await asyncio.sleep(0)
        heard.append(argument)

    candidate = enter(on_new_leader=hear, on_stopped=hear, prepare=lambda: hear("prepared")).leads()
    wait_until(lambda: len(heard) == 2, "prepared, and heard of itself")
    candidate.stop()
    assert heard[0] == "prepared"
    assert heard[2] is None


def test_one_that_resigns_before_it_runs_asks_the_server_nothing(dsn: str, server: LocalSqlServer) -> None:
    store = LeaseStore(dsn)
    election = LeaderElection(store.lease("job"), lambda leading: None)
    election.resign()
    election.run()
    awaited = AsyncLeaderElection(AsyncLeaseStore(dsn).lease("job"), lambda held: asyncio.sleep(0))
    awaited.resign()
    asyncio.run(awaited.run())
    assert {election.state, awaited.state} == {ElectionState.STOPPED}
    assert server.log.logins == 0


def test_a_win_that_is_answered_after_the_resignation_is_given_back(enter: Enter, server: LocalSqlServer) -> None:
    kept_back = server.faults.hold("after", matching=ACQUIRE)
    candidate = enter()
    assert kept_back.held.wait(PATIENCE_S)
    candidate.election.resign()
    kept_back.release()
    candidate.join()
    assert candidate.state is ElectionState.STOPPED
    assert World(server).row("job") is None


def test_an_election_is_run_once(enter: Enter) -> None:
    candidate = enter().leads()
    candidate.stop()
    with pytest.raises(LeaseInUse):
        candidate.start().join()


def test_a_lease_object_in_other_use_ends_the_run_with_an_error(dsn: str) -> None:
    store = LeaseStore(dsn)
    lease = store.lease("job")
    election = LeaderElection(lease, lambda leading: None, poll_interval=POLL_S)
    with lease.hold(), pytest.raises(LeaseInUse):
        election.run()
    assert not election.healthy()
    store.close()


def test_numbers_and_functions_that_cannot_work_are_refused(dsn: str) -> None:
    store = LeaseStore(dsn)
    too_tight = store.lease("job", options=LeaseOptions(duration=3, command_timeout=1, safety_margin=1))

    with pytest.raises(LeaseValueError, match="interval"):
        LeaderElection(too_tight, lambda leading: None)
    with pytest.raises(LeaseValueError, match="poll_interval"):
        LeaderElection(store.lease("job"), lambda leading: None, poll_interval=0)
    with pytest.raises(LeaseValueError, match="drain_timeout"):
        LeaderElection(store.lease("job"), lambda leading: None, drain_timeout=-1)
    with pytest.raises(LeaseValueError, match=r"on_started.*AsyncLeaderElection"):
        LeaderElection(store.lease("job"), coroutine)
    for name in ("on_stopped", "on_new_leader", "prepare"):
        functions: dict[str, Any] = {name: coroutine}
        with pytest.raises(LeaseValueError, match=rf"{name}.*AsyncLeaderElection"):
            LeaderElection(store.lease("job"), lambda leading: None, **functions)


@pytest.mark.parametrize("colour", ["both"])
def test_never_two_work_at_once_while_leaders_come_and_go(enter: Enter) -> None:
    floor = Floor()
    candidates = [enter(Script(floor), colour=colour, options=BRIEF) for colour in ("sync", "async", "sync", "async")]
    ended = 0
    while ended < 12:
        wait_until(lambda: floor.inside, "somebody works")
        for candidate in candidates:
            if candidate.election.is_leader:
                ends = len(candidate.script.ends)
                candidate.script.finish.set()
                wait_until(lambda candidate=candidate, ends=ends: len(candidate.script.ends) > ends, "it ended")  # type: ignore[misc]
                ended += 1
    assert floor.most == 1
    assert floor.visits >= 12


def test_the_release_is_sent_after_the_last_callback(enter: Enter, server: LocalSqlServer) -> None:
    released_before: list[int] = []
    candidate = enter(on_stopped=lambda cause: released_before.append(len(requests_of(server, RELEASE)))).leads()
    candidate.stop()
    assert released_before == [0]
    assert len(requests_of(server, RELEASE)) == 1


def test_the_loss_is_the_cause_that_on_stopped_is_told(enter: Enter, server: LocalSqlServer) -> None:
    candidate = enter(options=BRIEF).leads()
    server.execute("DELETE FROM [lease].[Leases]")
    wait_until(lambda: candidate.script.causes, "stopped")
    assert isinstance(candidate.script.causes[0], LeaseLost)
    candidate.leads(times=2)


async def test_a_cancel_comes_through_only_after_the_work_and_the_release(dsn: str, server: LocalSqlServer) -> None:
    script, store = Script(), AsyncLeaseStore(dsn)
    election = AsyncLeaderElection(store.lease("job"), script.work_async, script.causes.append, poll_interval=POLL_S)
    running = asyncio.create_task(election.run())
    await asyncio.to_thread(wait_until, lambda: script.starts, "leads")
    running.cancel()
    await asyncio.to_thread(wait_until, lambda: script.told, "the work was told to stop")
    assert not running.done()
    assert election.is_leader
    script.let_go.set()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert election.state is ElectionState.STOPPED
    assert script.causes == [None]
    assert World(server).row("job") is None
    await store.aclose()


async def test_a_second_cancel_is_handed_to_the_work(dsn: str) -> None:
    script, store = Script(), AsyncLeaseStore(dsn)
    election = AsyncLeaderElection(store.lease("job"), script.work_async, poll_interval=POLL_S)
    running = asyncio.create_task(election.run())
    await asyncio.to_thread(wait_until, lambda: script.starts, "leads")
    running.cancel()
    await asyncio.to_thread(wait_until, lambda: script.told, "the work was told to stop")
    running.cancel()  # the work, which would drain without end, takes this one for its end
    with pytest.raises(asyncio.CancelledError):
        await running
    assert election.state is ElectionState.STOPPED
    assert script.floor.inside == 0
    await store.aclose()


class Closing:
    """An on_stopped that lasts until its candidate does not lead any more, and a moment longer."""

    def __init__(self) -> None:
        self.candidate: Candidate | None = None
        self.began, self.over = threading.Event(), threading.Event()
        self.whole = False

    def told(self) -> bool:
        return self.candidate is not None and self.candidate.state is not ElectionState.LEADING

    async def __call__(self, cause: object) -> None:
        self.began.set()
        try:
            await asyncio.to_thread(wait_until, self.told, "told")
            await asyncio.sleep(STEP_S)
            self.whole = True
        finally:
            self.over.set()


@pytest.mark.parametrize("colour", ["async"])
def test_a_loss_that_the_work_finds_by_itself_does_not_cut_off_what_it_does_last(enter: Enter) -> None:
    closing = Closing()

    async def work(held: AsyncHold) -> None:
        if not closing.began.is_set():
            held.lost.set("news of the test")
        held.check()
        await asyncio.sleep(PATIENCE_S)

    closing.candidate = enter(on_started=work, on_stopped=closing)
    assert closing.over.wait(PATIENCE_S)
    assert closing.whole


@pytest.mark.parametrize("colour", ["async"])
def test_a_resignation_does_not_cut_off_what_the_work_does_last(enter: Enter) -> None:
    closing = Closing()
    closing.candidate = candidate = enter(on_stopped=closing).leads()
    candidate.script.finish.set()
    assert closing.began.wait(PATIENCE_S)
    candidate.stop()
    assert closing.whole
    assert candidate.state is ElectionState.STOPPED


async def test_a_second_cancel_cuts_off_what_the_work_does_last(dsn: str) -> None:
    store, closing, cut = AsyncLeaseStore(dsn), asyncio.Event(), asyncio.Event()

    async def close(cause: object) -> None:
        closing.set()
        try:
            await asyncio.sleep(PATIENCE_S)
        except asyncio.CancelledError:
            cut.set()
            raise

    election = AsyncLeaderElection(store.lease("job"), lambda held: asyncio.sleep(0), close, poll_interval=POLL_S)
    running = asyncio.create_task(election.run())
    await closing.wait()
    running.cancel()
    await asyncio.to_thread(wait_until, lambda: election.state is ElectionState.DRAINING, "drains")
    await asyncio.sleep(STEP_S)
    assert not cut.is_set()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert cut.is_set()
    await store.aclose()
