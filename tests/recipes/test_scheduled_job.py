"""The APScheduler recipe on the real library: two schedulers, as on two hosts, and one run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime
from queue import Queue

import pytest
from apscheduler.events import EVENT_JOB_ERROR, EVENT_JOB_EXECUTED, JobExecutionEvent
from apscheduler.schedulers.background import BackgroundScheduler

from sqllease import Outcome
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S

from .scheduled_job import schedule

JOB = "nightly-invoices"


class Host:
    """One scheduler, and what became of its job."""

    def __init__(self, dsn: str) -> None:
        self.sent = 0
        self.events: Queue[JobExecutionEvent] = Queue()
        self.scheduler: BackgroundScheduler = schedule(dsn, self.send)
        self.scheduler.add_listener(self.events.put, EVENT_JOB_EXECUTED | EVENT_JOB_ERROR)
        self.scheduler.start()

    def send(self) -> int:
        self.sent += 1
        return 7

    def strikes_two(self) -> Outcome[int]:
        """Its clock says that it is time."""
        self.scheduler.modify_job(JOB, next_run_time=datetime.now(UTC))
        event = self.events.get(timeout=PATIENCE_S)
        assert event.exception is None, event.traceback
        outcome: Outcome[int] = event.retval
        return outcome


@pytest.fixture
def hosts(server: LocalSqlServer, driver: Driver) -> Iterator[list[Host]]:
    with ExitStack() as stack:
        started = []
        for _ in range(2):
            host = Host(server.connection_string(driver=driver.odbc))
            stack.callback(host.scheduler.shutdown)
            started.append(host)
        yield started


def test_the_job_runs_on_the_host_that_comes_first(hosts: list[Host]) -> None:
    early, late = hosts
    assert early.strikes_two() == Outcome(True, value=7)
    skipped = late.strikes_two()
    assert skipped.ran is False
    assert skipped.holder is not None
    assert skipped.holder.resting is True
    assert (early.sent, late.sent) == (1, 0)


def test_a_host_whose_clock_is_late_runs_it_not_again_but_the_next_night_it_runs(
    server: LocalSqlServer, hosts: list[Host]
) -> None:
    early, late = hosts
    early.strikes_two()
    server.clock.advance(599)
    assert late.strikes_two().ran is False
    server.clock.advance(86_400 - 599)
    assert late.strikes_two().ran is True
