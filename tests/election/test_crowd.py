"""Many processes start at once on an empty database, and one call in twenty fails: all live on, never do two lead.

The usual run is a slice, 12 processes and one round; SQLLEASE_TEST_FULL=1 runs 50 processes and 20 rounds.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from typing import Any

import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.requestlog import Request
from sqllease.testing.server.sqltypes import TICKS_PER_SECOND, Moment
from sqllease.testing.server.transactions import Commit, RowImage
from tests.drivers import Driver
from tests.lease.bench import FOR_EVER

FULL = bool(os.environ.get("SQLLEASE_TEST_FULL"))
PROCESSES, ROUNDS = (50, int(os.environ.get("SQLLEASE_TEST_ROUNDS", "20"))) if FULL else (12, 1)
TENURES = 8 if FULL else 5
FAILED = 5
FAILING = 0.05

PROGRAM = textwrap.dedent(
    """
    import asyncio, json, logging, sys, threading, time
    import sqllease

    records, terms = [], []

    class Keep(logging.Handler):
        def emit(self, record):
            if record.levelno >= logging.WARNING:
                records.append([record.levelname, record.getMessage(), record.exc_info is not None])

    logging.getLogger().addHandler(Keep())
    options = sqllease.LeaseOptions(duration=6, command_timeout=1)

    def work(leading):
        began = time.monotonic()
        leading.stop.wait(0.15)
        terms.append([began, time.monotonic(), leading.fencing_token])

    async def work_async(held):
        began = time.monotonic()
        try:
            await asyncio.sleep(0.15)
        finally:
            terms.append([began, time.monotonic(), held.fencing_token])

    print("ready", flush=True)
    for line in sys.stdin:
        dsn = line.strip()
        records.clear(), terms.clear()
        if sys.argv[1] == "sync":
            store = sqllease.LeaseStore(dsn)
            election = sqllease.LeaderElection(store.lease("job", options=options), work,
                                               poll_interval=0.25, prepare=store.ensure_created)
            running = threading.Thread(target=election.run)
        else:
            store = sqllease.AsyncLeaseStore(dsn)
            election = sqllease.AsyncLeaderElection(store.lease("job", options=options), work_async,
                                                    poll_interval=0.25, prepare=store.ensure_created)
            running = threading.Thread(target=lambda: asyncio.run(election.run()))
        running.start()
        sys.stdin.readline()
        lived = running.is_alive() and election.healthy()
        election.resign()
        running.join()
        print(json.dumps([lived, election.state.value, terms, records]), flush=True)
    """
)


@contextmanager
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    running = [
        subprocess.Popen(
            [sys.executable, "-c", PROGRAM, ("sync", "async")[number % 2]],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for number in range(PROCESSES)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.communicate()


def hear(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def tell_all(running: list[subprocess.Popen[str]], line: str) -> None:
    for process in running:
        assert process.stdin is not None
        process.stdin.write(line + "\n")
    for process in running:  # a pipe's buffer holds it back until here: all hear it within a millisecond or so
        assert process.stdin is not None
        process.stdin.flush()


def fail_some_calls(server: LocalSqlServer, seed: int) -> list[Request]:
    """From here on one call in twenty meets one of these; gives those that did."""
    kinds = 9
    chance = random.Random(seed)
    failed: list[Request] = []

    def unlucky(request: Request) -> bool:
        asked = request.kind in ("batch", "rpc") and not request.housekeeping
        if asked and chance.random() < FAILING / kinds:
            failed.append(request)
            return True
        return False

    def unlucky_creation(request: Request) -> bool:
        return "CREATE" in request.text and unlucky(request)

    for number in (1205, 1222, 2627):
        server.faults.error(number, times=FOR_EVER, matching=unlucky)
    server.faults.error(2714, times=FOR_EVER, matching=unlucky_creation)
    for when in ("before", "after", "middle"):
        server.faults.drop(when, times=FOR_EVER, matching=unlucky)
    for when in ("before", "after"):  # the driver gives up with HYT00
        server.faults.silence(when, times=FOR_EVER, matching=unlucky)
    return failed


class History:
    """Each state that the row of the lease has had: owner, begin of the tenure, expiry; None: no row."""

    def __init__(self, server: LocalSqlServer, database: str) -> None:
        server.engine.create_database(database)
        self._database = server.engine.instance.databases[database]
        self._commits: list[Commit] = []
        self._database.on_commit = self._commits.append

    def rows(self) -> list[tuple[str, Moment, Moment] | None]:
        table = self._database.table("lease", "Leases")
        if table is None:
            return []
        return [
            None if change.row is None else (change.row[1], change.row[2], change.row[4])  # type: ignore[misc]
            for commit in list(self._commits)
            for change in commit.changes
            if isinstance(change, RowImage) and change.table == table.id
        ]

    def tenures(self) -> int:
        return len({row[1].ticks for row in self.rows() if row is not None})


def until_enough(history: History, failed: list[Request]) -> None:
    deadline = time.monotonic() + 90
    while history.tenures() < TENURES or len(failed) < FAILED:
        assert time.monotonic() < deadline, f"only {history.tenures()} tenures, {len(failed)} failures"
        time.sleep(0.05)


@pytest.mark.timeout(1800 if FULL else 120)
def test_of_many_that_start_at_once_all_live_on_and_one_leads(ms_driver: Driver) -> None:
    with LocalSqlServer(tls=False) as server, processes() as running:
        assert {hear(process) for process in running} == {"ready"}
        told: list[list[Any]] = []
        for number in range(ROUNDS):
            database = f"round{number}"
            history = History(server, database)
            failed = fail_some_calls(server, seed=number)
            tell_all(running, server.connection_string(driver=ms_driver.odbc, DATABASE=database))
            until_enough(history, failed)
            server.faults.clear()
            server.drop_links()  # some have fallen silent
            tell_all(running, "stop")
            answers = [json.loads(hear(process)) for process in running]

            assert [answer[:2] for answer in answers] == [[True, "stopped"]] * PROCESSES
            never_two_by_the_clock_of_the_machine(answers)
            never_two_by_the_rows(history.rows())
            told += [record for answer in answers for record in answer[3]]
            server.log.clear()
        assert all(process.poll() is None for process in running)
    assert [record for record in told if record[2]] == []  # stack traces
    losses = [record for record in told if record[0] == "ERROR" and "lost" not in record[1]]
    assert losses == []


def never_two_by_the_clock_of_the_machine(answers: list[list[Any]]) -> None:
    terms = sorted(term for answer in answers for term in answer[2])
    assert len(terms) >= TENURES / 2
    for (_, ended, token), (began, _, later) in pairwise(terms):
        assert began >= ended
        assert later > token


def never_two_by_the_rows(rows: list[tuple[str, Moment, Moment] | None]) -> None:
    for before, after in pairwise(rows):
        if before is not None and after is not None and before[1] != after[1]:
            same_owner = before[0] == after[0]  # an object that begins anew on its own unanswered acquire
            assert same_owner or before[2].ticks <= after[1].ticks, (before, after, TICKS_PER_SECOND)
