"""Losses, outages, work that drains, work that does not stop: renew until it is over, then release; or neither."""

from __future__ import annotations

import asyncio
import logging
import threading
import time

import pytest

from sqllease import ElectionState, LeaseConfigurationError, LeaseOptions, LeaseStoreError
from sqllease.testing import LocalSqlServer
from tests.lease.bench import ACQUIRE, FOR_EVER, RELEASE, RENEW
from tests.lease.support import PATIENCE_S, World, requests_of, wait_until

from .conftest import Enter
from .stage import Candidate, Script

BRIEF = LeaseOptions(duration=2)
KEPT = LeaseOptions(duration=4)
"""For a lease that must not be lost on a machine that stands still for a second."""


def row_lasts(server: LocalSqlServer) -> float:
    """Seconds until the row expires by the server's clock."""
    row = World(server).row("job")
    assert row is not None
    return row.expires_in


def draining(candidate: Candidate) -> None:
    candidate.leads()
    candidate.script.let_go.clear()
    candidate.election.resign()
    candidate.until(ElectionState.DRAINING)
    wait_until(lambda: candidate.script.told, "the work was told to stop")


def sent(server: LocalSqlServer) -> tuple[int, int]:
    """How many renewals and releases the server has got."""
    return len(requests_of(server, RENEW)), len(requests_of(server, RELEASE))


def test_the_lease_is_renewed_while_the_work_drains_and_released_after_it(enter: Enter, server: LocalSqlServer) -> None:
    first = enter(options=KEPT)
    draining(first)
    second = enter(options=KEPT)
    told = first.script.told[0]
    wait_until(lambda: time.monotonic() > told + KEPT.duration, "drained longer than the lease lasts")
    assert first.election.is_leader
    assert first.state is ElectionState.DRAINING
    assert first.election.healthy()
    assert not second.script.starts
    assert sent(server)[1] == 0
    first.script.let_go.set()
    second.leads()
    first.join()
    assert second.script.starts[0] >= first.script.ends[0]
    assert first.script.causes == [None]
    assert sent(server)[1] == 1


def test_when_renewals_fail_the_work_is_told_before_the_lease_expires(enter: Enter, server: LocalSqlServer) -> None:
    candidate = enter(options=KEPT.but(safety_margin=1.5)).leads()
    server.faults.silence(times=FOR_EVER)
    wait_until(lambda: candidate.script.told, "told to stop")
    assert row_lasts(server) > 0
    server.faults.clear()
    server.drop_links()
    candidate.leads(times=2)


def test_an_outage_is_visible_and_the_candidate_comes_back(
    enter: Enter, server: LocalSqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sqllease")
    candidate = enter(options=BRIEF).leads()
    server.stop()
    candidate.until(ElectionState.NO_DATABASE)
    assert not candidate.election.is_leader
    assert candidate.election.leader is None
    assert candidate.election.healthy()
    server.start()
    candidate.leads(times=2)
    assert candidate.state is ElectionState.LEADING


def test_a_start_without_a_database_is_tried_again_and_said_once_aloud(
    enter: Enter, server: LocalSqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "sqllease")
    server.stop()
    candidate = enter(options=BRIEF).until(ElectionState.NO_DATABASE)

    def told() -> list[logging.LogRecord]:
        return [record for record in caplog.records if "cannot campaign" in record.message]

    wait_until(lambda: len(told()) >= 2, "tried some more")
    assert candidate.election.healthy()
    server.start()
    candidate.leads()
    wait_until(lambda: any("the database answers" in record.message for record in caplog.records), "said so")
    assert [record.levelno for record in told()[:2]] == [logging.WARNING, logging.DEBUG]
    assert not any(record.exc_info for record in told())


def test_what_has_to_be_prepared_is_tried_until_it_works(enter: Enter) -> None:
    tries: list[int] = []

    def prepare() -> None:
        tries.append(1)
        if len(tries) < 4:
            raise (LeaseStoreError("down"), LeaseConfigurationError("no right yet"), ValueError("a bug"))[
                len(tries) - 1
            ]

    candidate = enter(prepare=prepare).leads()
    assert len(tries) == 4
    candidate.script.finish.set()
    candidate.leads(times=2)
    assert len(tries) == 4


@pytest.mark.parametrize("colour", ["async"])
def test_what_is_prepared_may_have_awaited_something_that_was_cancelled(
    enter: Enter, caplog: pytest.LogCaptureFixture
) -> None:
    tries: list[int] = []

    async def prepare() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise asyncio.CancelledError

    candidate = enter(prepare=prepare).leads()
    assert len(tries) == 2
    told = [record for record in caplog.records if "cannot campaign" in record.message]
    assert [record.levelno for record in told] == [logging.WARNING]
    candidate.stop()
    assert candidate.state is ElectionState.STOPPED


def test_work_that_outlives_a_lost_lease_is_reported_and_nobody_starts_it_again(
    enter: Enter, server: LocalSqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    candidate = enter(Script(stubborn=True), options=BRIEF).leads()
    candidate.script.let_go.clear()
    server.execute("DELETE FROM [lease].[Leases]")
    candidate.until(ElectionState.OUTLIVED)
    assert not candidate.election.healthy()
    assert not candidate.election.is_leader
    outlived = [record for record in caplog.records if "has outlived the lease" in record.message]
    assert [record.levelno for record in outlived] == [logging.ERROR]
    other = enter().leads()
    renewed = sent(server)[0]
    assert sent(server)[1] == 0
    assert len(candidate.script.starts) == 1
    candidate.script.let_go.set()
    candidate.until(ElectionState.CANDIDATE)
    assert candidate.election.healthy()
    assert sent(server) == (renewed, 0)
    other.stop()
    candidate.leads(times=2)


def test_past_the_drain_timeout_neither_a_renewal_nor_a_release_is_sent(
    enter: Enter, server: LocalSqlServer, caplog: pytest.LogCaptureFixture
) -> None:
    candidate = enter(Script(stubborn=True), options=BRIEF, drain_timeout=0.1, poll_interval=0.05)
    draining(candidate)
    if candidate.loop is None:
        candidate.join()  # a thread of the work does not keep run() from returning
    else:
        candidate.until(ElectionState.OUTLIVED)  # asyncio.run() waits for the task of the work all the same
    before = sent(server)
    assert candidate.state is ElectionState.OUTLIVED
    assert not candidate.election.healthy()
    assert not candidate.election.is_leader
    assert row_lasts(server) > 0
    other = enter(options=BRIEF).leads()
    # The other one took over what had expired: nothing was sent for two seconds, nor when the work returned at last.
    candidate.script.let_go.set()
    wait_until(lambda: candidate.script.ends, "the work returned")
    candidate.join()
    assert before[1] == sent(server)[1] == 0
    assert before[0] + len(requests_of(server, RENEW)[before[0] :]) == sent(server)[0]
    assert renewals_by(server, candidate, before[0]) == 0
    other.stop()
    assert any("drain_timeout" in record.message for record in caplog.records)


def renewals_by(server: LocalSqlServer, candidate: Candidate, since: int) -> int:
    """Renewals that one candidate's sessions sent, without the first ones."""
    acquirers = {request.session for request in server.log.requests if "MERGE INTO" in request.text}
    first = min(acquirers)
    return sum(request.session == first for request in requests_of(server, RENEW)[since:])


def test_a_resignation_while_the_work_outlives_its_lease_waits_for_it(enter: Enter, server: LocalSqlServer) -> None:
    candidate = enter(Script(stubborn=True), options=BRIEF).leads()
    candidate.script.let_go.clear()
    server.execute("DELETE FROM [lease].[Leases]")
    candidate.until(ElectionState.OUTLIVED)
    candidate.election.resign()
    candidate.script.let_go.set()
    candidate.join()
    assert candidate.state is ElectionState.STOPPED
    assert candidate.script.floor.inside == 0


def test_a_release_that_hangs_does_not_keep_a_resigning_leader(
    enter: Enter, server: LocalSqlServer, monkeypatch: pytest.MonkeyPatch, colour: str, caplog: pytest.LogCaptureFixture
) -> None:
    module = "sqllease.election" if colour == "sync" else "sqllease.aio.election"
    monkeypatch.setattr(f"{module}.RELEASE_LIMIT_S", 0.2)
    candidate = enter().leads()
    kept_back = server.faults.hold(matching=RELEASE)
    asked = time.monotonic()
    candidate.election.resign()
    candidate.until(ElectionState.STOPPED)
    if colour == "sync":
        candidate.join()
        assert time.monotonic() - asked < 5  # less less than the driver's own time-outs
    wait_until(lambda: any("nobody waits for it" in record.message for record in caplog.records), "said so")
    kept_back.release()


def test_a_release_that_hangs_does_not_keep_one_that_resigns_meanwhile(
    enter: Enter, server: LocalSqlServer, monkeypatch: pytest.MonkeyPatch, colour: str
) -> None:
    module = "sqllease.election" if colour == "sync" else "sqllease.aio.election"
    monkeypatch.setattr(f"{module}.RELEASE_LIMIT_S", 0.2)
    ended = threading.Event()
    monkeypatch.setattr("sqllease.journal.leaves_unreleased", lambda *_: ended.set())
    monkeypatch.setattr("sqllease.journal.leaves_unanswered", lambda *_: ended.set())
    candidate = enter().leads()
    kept_back = server.faults.hold(matching=RELEASE)
    candidate.script.finish.set()
    assert kept_back.held.wait(PATIENCE_S)
    candidate.until(ElectionState.BACKING_OFF)
    candidate.election.resign()
    assert ended.wait(PATIENCE_S)
    kept_back.release()


def test_a_candidate_whose_question_is_not_answered_resigns_all_the_same(
    enter: Enter, server: LocalSqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sqllease.election.RELEASE_LIMIT_S", 0.2)
    kept_back = server.faults.hold(matching=ACQUIRE)
    candidate = enter()
    assert kept_back.held.wait(PATIENCE_S)
    asked = time.monotonic()
    candidate.election.resign()
    candidate.join()
    assert time.monotonic() - asked < 5  # less less than the driver's own time-outs
    assert not candidate.script.starts
    kept_back.release()


@pytest.mark.parametrize("colour", ["async"])
def test_a_loss_that_a_busy_loop_cannot_hear_of_is_unhealthy(enter: Enter, server: LocalSqlServer) -> None:
    busy, go_on = threading.Event(), threading.Event()

    async def work(held: object) -> None:
        if not busy.is_set():
            busy.set()
            go_on.wait(20)

    candidate = enter(options=BRIEF, on_started=work)
    assert busy.wait(20)
    server.execute("DELETE FROM [lease].[Leases]")
    wait_until(lambda: not candidate.election.healthy(), "a thread sees it")
    assert candidate.state is ElectionState.LEADING
    assert not candidate.election.is_leader
    go_on.set()
    wait_until(candidate.election.healthy, "healthy again")


@pytest.mark.parametrize("colour", ["async"])
def test_work_that_blocks_the_loop_keeps_its_lease(enter: Enter, server: LocalSqlServer) -> None:
    renewed = threading.Event()

    async def work(held: object) -> None:
        wait_until(lambda: len(requests_of(server, RENEW)) >= 3, "renewed three times")
        renewed.set()

    enter(options=KEPT, on_started=work)
    assert renewed.wait(20)
