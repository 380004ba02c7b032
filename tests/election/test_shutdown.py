"""A leader's process is told to end: its work returns, the release is sent in spite of it, another leads at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sqllease import ElectionState
from sqllease.testing import LocalSqlServer
from tests.lease.support import PATIENCE_S, World, wait_until

from .stage import Candidate

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="Windows has no signals to send to one process")

SYNC = """
import signal, sys, threading
from sqllease import LeaderElection, LeaseStore

stubborn = threading.Event()

def work(leading):
    print("leads", flush=True)
    leading.stop.wait()
    print("told", flush=True)
    if {stubborn}:
        stubborn.wait()
    print("returned", flush=True)

election = LeaderElection(LeaseStore(sys.argv[1]).lease("job"), work, poll_interval=0.1)
{prepare}
election.run()
print(election.state.value, flush=True)
"""

ASYNC = """
import asyncio, signal, sys
from sqllease import AsyncLeaderElection, AsyncLeaseStore

async def work(held):
    print("leads", flush=True)
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.sleep(0.05)
        print("returned", flush=True)

async def sibling():
    await asyncio.to_thread(sys.stdin.readline)
    raise ValueError("the sibling's bug")

async def main():
    election = AsyncLeaderElection(AsyncLeaseStore(sys.argv[1]).lease("job"), work, poll_interval=0.1)
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    try:
{body}
    finally:
        print(election.state.value, flush=True)

asyncio.run(main())
"""

CHILDREN = {
    "sync, SIGTERM resigns": (
        SYNC.format(prepare="signal.signal(signal.SIGTERM, lambda *_: election.resign())", stubborn=False),
        signal.SIGTERM,
        0,
    ),
    "sync, SIGTERM raises": (
        SYNC.format(prepare="signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))", stubborn=False),
        signal.SIGTERM,
        7,
    ),
    "sync, Ctrl-C": (SYNC.format(prepare="", stubborn=False), signal.SIGINT, -signal.SIGINT),
    "async, SIGTERM resigns": (
        ASYNC.format(
            body="        loop.add_signal_handler(signal.SIGTERM, election.resign)\n        await election.run()"
        ),
        signal.SIGTERM,
        0,
    ),
    "async, SIGTERM cancels": (
        ASYNC.format(body="        loop.add_signal_handler(signal.SIGTERM, task.cancel)\n        await election.run()"),
        signal.SIGTERM,
        1,
    ),
    "async, Ctrl-C": (ASYNC.format(body="        await election.run()"), signal.SIGINT, -signal.SIGINT),
    "async, all tasks cancelled": (
        ASYNC.format(
            body="        running = asyncio.create_task(election.run())\n"
            "        await asyncio.to_thread(sys.stdin.readline)"
        ),
        None,
        0,
    ),
    "async, a sibling fails": (
        ASYNC.format(
            body="        async with asyncio.TaskGroup() as group:\n"
            "            group.create_task(election.run())\n            group.create_task(sibling())"
        ),
        None,
        1,
    ),
}


@contextmanager
def child(program: str, dsn: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(program), dsn],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def says(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.parametrize("name", CHILDREN)
def test_another_leads_long_before_the_expiry_when_the_leaders_process_is_told_to_end(name: str, dsn: str) -> None:
    program, number, code = CHILDREN[name]
    with child(program, dsn) as process:
        assert says(process) == "leads"
        other = Candidate("sync", dsn, poll_interval=0.1).start()
        try:
            wait_until(lambda: other.election.leader is not None, "saw the leader")
            asked = time.monotonic()
            if number is None:
                process.communicate("\n", timeout=PATIENCE_S)
            else:
                process.send_signal(number)
            other.leads()
            # One poll, one release, and a machine that has other things to do: far less than the lease of 30 s.
            assert other.script.starts[0] - asked < 15
            assert process.wait(PATIENCE_S) == code
        finally:
            other.close()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_the_work_returns_before_the_process_ends(number: signal.Signals, dsn: str, server: LocalSqlServer) -> None:
    program = SYNC.format(prepare="signal.signal(signal.SIGTERM, lambda *_: election.resign())", stubborn=False)
    with child(program, dsn) as process:
        assert says(process) == "leads"
        process.send_signal(number)
        output, _ = process.communicate(timeout=PATIENCE_S)
    ends = [ElectionState.STOPPED.value] if number is signal.SIGTERM else []
    assert output.split("\n")[:-1] == ["told", "returned", *ends]
    assert World(server).row("job") is None


def test_a_second_ctrl_c_ends_the_process_at_once_and_releases_nothing(dsn: str, server: LocalSqlServer) -> None:
    with child(SYNC.format(prepare="", stubborn=True), dsn) as process:
        assert says(process) == "leads"
        process.send_signal(signal.SIGINT)
        assert says(process) == "told"
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == -signal.SIGINT
    row = World(server).row("job")
    assert row is not None
    assert row.expires_in > 20
