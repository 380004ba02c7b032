"""The job is the whole process group: signals reach it, the lease lasts as long as it, and nothing leaks into it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.lease.support import wait_until

from .support import BEAT, COMMAND, Desk, alive, children, group_alive, job_of

DEAF = "trap '' TERM INT HUP QUIT; echo on; sleep 60 & wait; sleep 60; true"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGQUIT])
def test_a_signal_to_the_wrapper_ends_the_whole_group_and_then_the_lease(
    desk: Desk, name: str, number: signal.Signals
) -> None:
    wrapper = desk.start("run", "--name", name, "--", "sh", "-c", "ulimit -c 0; echo on; sleep 300; true")
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == "on\n"
    job = job_of(wrapper.pid)
    wrapper.send_signal(number)
    ended = desk.ended(wrapper)
    assert ended.code == 128 + number
    assert not group_alive(job)
    assert not desk.held(name)


def test_a_group_that_does_not_hear_is_killed_after_the_grace_and_holds_the_lease_until_then(
    desk: Desk, name: str
) -> None:
    wrapper = desk.start("run", "--name", name, "--grace", "1", "--", "sh", "-c", DEAF)
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == "on\n"
    job = job_of(wrapper.pid)
    began = time.monotonic()
    wrapper.send_signal(signal.SIGTERM)
    while group_alive(job):
        held = desk.held(name)
        assert held or not group_alive(job)
        time.sleep(0.02)
    assert time.monotonic() - began >= 1
    assert desk.ended(wrapper).code == 143
    assert not desk.held(name)


def test_a_command_that_heeds_the_signal_keeps_its_own_code(desk: Desk, name: str) -> None:
    wrapper = desk.start("run", "--name", name, "--", "sh", "-c", "trap 'exit 6' TERM; echo on; sleep 60 & wait")
    assert wrapper.stdout is not None
    assert wrapper.stdout.readline() == "on\n"
    wrapper.send_signal(signal.SIGTERM)
    ended = desk.ended(wrapper)
    assert ended.code == 6
    assert ended.err == f"sqllease: {name}: stopped by SIGTERM; the command ended with 6\n"


# The child in the background goes on until it is told; it says when its parent has been buried.
BACKGROUND = "(while kill -0 $$; do sleep 0.02; done; >alone; until [ -e go ]; do sleep 0.02; done) >/dev/null 2>&1 &"


def test_a_background_child_keeps_the_lease(desk: Desk, name: str, tmp_path: Path) -> None:
    wrapper = desk.start("run", "--name", name, "--", "sh", "-c", f"cd {tmp_path}; {BACKGROUND} exit 5")
    wait_until((tmp_path / "alone").exists, "the command itself has ended")
    assert desk.held(name)
    assert wrapper.poll() is None
    (tmp_path / "go").touch()
    assert desk.ended(wrapper).code == 5
    assert not desk.held(name)


def test_child_only_releases_at_the_direct_childs_end(desk: Desk, name: str, tmp_path: Path) -> None:
    pid_file = tmp_path / "pid"
    wrapper = desk.start(
        "run",
        "--name",
        name,
        "--child-only",
        "--",
        "sh",
        "-c",
        f"sleep 30 >/dev/null 2>&1 & echo $! > {pid_file}; exit 5",
    )
    assert desk.ended(wrapper).code == 5
    assert not desk.held(name)
    left_behind = int(pid_file.read_text())
    assert alive(left_behind)
    os.kill(left_behind, signal.SIGKILL)


def test_nothing_but_the_three_streams_is_inherited(desk: Desk, name: str) -> None:
    ended = desk.run(name, "--", "sh", "-c", "ls /proc/$$/fd")
    assert ended.out.split() == ["0", "1", "2"]


def test_a_closed_stdin_becomes_no_descriptor_of_ours(desk: Desk, name: str) -> None:
    ran = subprocess.run(
        ["sh", "-c", 'exec "$@" <&-', "sh", *COMMAND, "run", "--name", name, "--", "readlink", "/proc/self/fd/0"],
        env=desk.environment(),
        capture_output=True,
        check=True,
        text=True,
    )
    assert ran.stdout == "/dev/null\n"


def test_stdin_is_the_commands_own(desk: Desk, name: str) -> None:
    ended = desk("run", "--name", name, "--", "cat", stdin="one\ntwo\n")
    assert (ended.code, ended.out) == (0, "one\ntwo\n")


def test_a_thousand_inherited_descriptors_do_no_harm(desk: Desk, name: str) -> None:
    code = (
        "import os, resource, sys\n"
        "resource.setrlimit(resource.RLIMIT_NOFILE, (2048, resource.getrlimit(resource.RLIMIT_NOFILE)[1]))\n"
        "for number in range(3, 1100):\n"
        "    os.dup2(0, number)\n"
        "os.execv(sys.executable, [sys.executable, '-m', 'sqllease', *sys.argv[1:]])\n"
    )
    desk.command = [sys.executable, "-c", code]
    ended = desk.run(name, "--", "echo", "ran")
    assert (ended.code, ended.out, ended.err) == (0, "ran\n", "")


def test_the_environment_names_the_lease_and_hides_the_connection(desk: Desk, name: str) -> None:
    ended = desk.run(name, "--", "sh", "-c", 'sleep 0.5; env; echo "$SQLLEASE_OWNER"', LC_ALL="C")
    seen = dict(line.split("=", 1) for line in ended.out.splitlines()[:-1] if "=" in line)
    assert seen["SQLLEASE_NAME"] == name
    assert int(seen["SQLLEASE_TOKEN"]) > 0
    assert seen["SQLLEASE_OWNER"] == ended.out.splitlines()[-1] != ""
    assert not {key for key in seen if "CONNECTION" in key}
    assert desk.server.password not in ended.out


def test_the_environment_is_otherwise_untouched(desk: Desk, name: str) -> None:
    # In the C locale Python adds an LC_CTYPE of its own.
    environment = {key: value for key, value in desk.environment().items() if not key.startswith(("LC_", "LANG"))}
    ran = subprocess.run(
        [*COMMAND, "run", "--name", name, "--", "env"], env=environment, capture_output=True, check=True, text=True
    )
    seen = {line.split("=", 1)[0] for line in ran.stdout.splitlines()}
    assert seen - set(environment) == {"SQLLEASE_NAME", "SQLLEASE_OWNER", "SQLLEASE_TOKEN"}


def test_the_output_is_not_kept_open_by_the_guard(desk: Desk, name: str) -> None:
    # As cron reads it: until nobody has the pipe any more.
    wrapper = desk.start("run", "--name", name, "--child-only", "--", "echo", "done")
    began = time.monotonic()
    assert desk.ended(wrapper).out == "done\n"
    assert time.monotonic() - began < 20


def test_no_zombie_keeps_a_group_alive(desk: Desk, name: str) -> None:
    # The grandchild ends after its parent: nobody but the wrapper can bury it.
    ended = desk.run(name, "--", "sh", "-c", "(sleep 0.5 >/dev/null 2>&1 &) ; exit 0")
    assert ended.code == 0


def test_the_wrapper_does_not_poll_busily(desk: Desk, name: str, tmp_path: Path) -> None:
    wrapper = desk.start("run", "--name", name, "--", *BEAT, str(tmp_path / "log"), "30")
    job_of(wrapper.pid)
    time.sleep(0.5)
    watched = [wrapper.pid, *(pid for pid in children(wrapper.pid))]
    guard = next(pid for pid in watched if b"guard.py" in Path(f"/proc/{pid}/cmdline").read_bytes())

    def switches(pid: int) -> int:
        status = Path(f"/proc/{pid}/status").read_text()
        return int(next(line for line in status.splitlines() if line.startswith("voluntary")).split()[1])

    before = {pid: switches(pid) for pid in (wrapper.pid, guard)}
    time.sleep(2)
    assert all(switches(pid) - before[pid] < 30 for pid in before)
