"""Whoever of wrapper, guard and command is killed or stopped: never do two copies of the command run."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqllease.cli import guard
from tests.lease.support import wait_until

from .support import (
    BEAT,
    Desk,
    alive,
    assert_one_at_a_time,
    group_alive,
    guard_of,
    ignores,
    job_of,
    late_guard,
    spans,
    write_python,
)

SHORT = ["--duration", "5", "--grace", "0.6"]


class Contest:
    """A copy of the job that is up, and another that waits for its turn."""

    def __init__(self, desk: Desk, name: str, log: Path, *how: str) -> None:
        self.desk, self.log, self.name = desk, log, name
        self.first = desk.start("run", "--name", name, *SHORT, "--", *BEAT, str(log), "60", *how)
        wait_until(lambda: spans(log), "the command runs")
        self.guard, self.job = guard_of(self.first.pid), job_of(self.first.pid)
        self.second = desk.start("run", "--name", name, *SHORT, "--wait", "40", "--", *BEAT, str(log), "0.3")

    def finish(self) -> None:
        """The other copy gets its turn, and it alone."""
        assert self.desk.ended(self.second).code == 0
        assert_one_at_a_time(self.log, 2)
        assert not group_alive(self.job)
        wait_until(lambda: not alive(self.guard), "the guard has ended")


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log"


@pytest.mark.parametrize("how", ["", "deaf"])
def test_the_wrapper_is_killed(desk: Desk, name: str, log: Path, how: str) -> None:
    contest = Contest(desk, name, log, how)
    contest.first.kill()
    contest.first.wait()
    wait_until(lambda: not group_alive(contest.job), "the command has ended")
    assert spans(log)[0].last < desk.expiry(name), "the command was still there after the lease"
    contest.finish()


def test_the_command_is_killed(desk: Desk, name: str, log: Path) -> None:
    contest = Contest(desk, name, log)
    os.kill(contest.job, signal.SIGKILL)
    assert desk.ended(contest.first).code == 137
    contest.finish()


def test_the_guard_is_killed_and_replaced_and_then_the_wrapper_is_killed(desk: Desk, name: str, log: Path) -> None:
    contest = Contest(desk, name, log, "deaf")
    os.kill(contest.guard, signal.SIGKILL)
    wait_until(lambda: not alive(contest.guard), "the guard has ended")
    another = guard_of(contest.first.pid)
    # The line that tells it what to watch was sent while it started; it waits in the socket.
    wait_until(lambda: ignores(another, signal.SIGTERM), "the guard has begun to read")
    contest.first.kill()
    contest.finish()
    wait_until(lambda: not alive(another), "the guard has ended")


def test_the_wrapper_is_stopped_past_the_lease(desk: Desk, name: str, log: Path) -> None:
    contest = Contest(desk, name, log, "deaf")
    contest.first.send_signal(signal.SIGSTOP)
    assert desk.ended(contest.second).code == 0
    assert_one_at_a_time(log, 2)
    contest.first.send_signal(signal.SIGCONT)
    assert desk.ended(contest.first).code == 73
    contest.finish()


def test_the_wrapper_is_stopped_for_a_moment(desk: Desk, name: str, log: Path) -> None:
    contest = Contest(desk, name, log)
    contest.first.send_signal(signal.SIGSTOP)
    time.sleep(0.5)
    contest.first.send_signal(signal.SIGCONT)
    with pytest.raises(subprocess.TimeoutExpired):
        contest.first.wait(3)
    contest.first.terminate()
    assert desk.ended(contest.first).code == 143
    contest.finish()


def test_a_service_manager_that_ends_everybody_ends_the_job_in_order(desk: Desk, name: str, log: Path) -> None:
    contest = Contest(desk, name, log)
    for pid in (contest.guard, contest.job, contest.first.pid):
        os.kill(pid, signal.SIGTERM)
    assert desk.ended(contest.first).code == 143
    contest.finish()


def test_a_job_that_the_guard_has_ended_did_not_succeed_whatever_its_code(
    desk: Desk, name: str, tmp_path: Path
) -> None:
    ended = tmp_path / "ended"
    job = f"trap '> {ended}; exit 0' TERM; echo on; while :; do sleep 0.1; done"
    wrapper = desk.start("run", "--name", name, "--duration", "6", "--grace", "3", "--", "sh", "-c", job)
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == "on\n"
    wrapper.send_signal(signal.SIGSTOP)
    wait_until(ended.exists, "the guard has sent TERM")
    assert desk.held(name)
    wrapper.send_signal(signal.SIGCONT)
    done = desk.ended(wrapper)
    assert done.code == 73
    assert done.err.endswith(f"sqllease: {name}: lease lost: this process stood still: the command is stopped\n")
    assert not desk.held(name)


def test_a_guard_that_starts_late_knows_the_renewals_since(desk: Desk, name: str, tmp_path: Path) -> None:
    desk.use_python(late_guard(tmp_path / "python", 4))  # longer than the first lease
    ended = desk.run(name, "--duration", "3", "--grace", "0.3", "--", "echo", "ran")
    assert (ended.code, ended.out, ended.err) == (0, "ran\n", "")


def test_the_guard_finds_the_libraries_that_its_python_needs(desk: Desk, name: str, tmp_path: Path) -> None:
    desk.use_python(write_python(tmp_path / "python", '[ -n "$LD_LIBRARY_PATH" ] || exit 127'))
    ended = desk.run(name, "--", "echo", "ran", LD_LIBRARY_PATH=str(tmp_path))
    assert (ended.code, ended.out, ended.err) == (0, "ran\n", "")


class TestNews:
    """What the guard makes of the lines that it is sent."""

    @pytest.fixture
    def job(self) -> Iterator[subprocess.Popen[bytes]]:
        with subprocess.Popen(["sleep", "60"], start_new_session=True) as process:
            yield process
            process.kill()

    def test_only_the_last_of_many_deadlines_counts(self, job: subprocess.Popen[bytes]) -> None:
        ours, its = socket.socketpair()
        with (
            ours,
            its,
            subprocess.Popen([sys.executable, "-I", "-S", guard.__file__], stdin=its.fileno()) as process,
        ):
            ours.settimeout(20)
            ours.sendall(f"watch {job.pid} {guard.now() + 60!r} 1.0\n".encode())
            assert ours.recv(1) == b"k"
            process.send_signal(signal.SIGSTOP)
            ours.sendall(b"".join(f"until {guard.now()!r}\n".encode() for _ in range(1_000)))
            ours.sendall(f"until {guard.now() + 60!r}\n".encode())
            process.send_signal(signal.SIGCONT)
            with pytest.raises(subprocess.TimeoutExpired):
                job.wait(1)
            ours.sendall(b"done\n")
