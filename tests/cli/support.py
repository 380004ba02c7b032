"""What the tests of the command share: the real command in a child process, and what can be seen of it from outside."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from click.testing import CliRunner

from sqllease.cli.app import command_line
from tests.lease.support import TABLE, wait_until

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer

COMMAND = [sys.executable, "-m", "sqllease"]
BEAT = [sys.executable, "-I", "-S", str(Path(__file__).with_name("beat.py"))]
FULL = bool(os.environ.get("SQLLEASE_TEST_FULL"))


def boottime() -> float:
    return time.clock_gettime(time.CLOCK_BOOTTIME)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a command ended."""

    code: int
    out: str
    err: str


class Desk:
    """Runs the command against one server."""

    def __init__(self, server: LocalSqlServer, connection: str) -> None:
        self.server, self.connection = server, connection
        self.command = COMMAND
        self._started: list[subprocess.Popen[str]] = []

    def environment(self, **more: str) -> dict[str, str]:
        return {**os.environ, "SQLLEASE_CONNECTION": self.connection, "NO_COLOR": "1", **more}

    def use_python(self, path: Path) -> None:
        """From now on the command starts its own helpers, job and guard, with this Python."""
        code = f"import sys; sys.executable = {str(path)!r}; from sqllease.cli import main; sys.exit(main())"
        self.command = [sys.executable, "-c", code]

    def start(
        self,
        *arguments: str,
        stdin: int | None = subprocess.DEVNULL,
        stderr: int = subprocess.PIPE,
        **more: str,
    ) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [*self.command, *arguments],
            stdin=stdin,
            stdout=subprocess.PIPE,
            stderr=stderr,
            text=True,
            env=self.environment(**more),
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def ended(self, process: subprocess.Popen[str], stdin: str | None = None) -> Ended:
        """Waits for its end, and for that of everybody who has its stdout."""
        out, err = process.communicate(stdin, timeout=50)
        return Ended(process.returncode, out, err)

    def __call__(self, *arguments: str, stdin: str | None = None, **more: str) -> Ended:
        stdin_kind = subprocess.DEVNULL if stdin is None else subprocess.PIPE
        process = self.start(*arguments, stdin=stdin_kind, stderr=subprocess.PIPE, **more)
        return self.ended(process, stdin)

    def run(self, name: str, *arguments: str, **more: str) -> Ended:
        return self("run", "--name", name, *arguments, **more)

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                with suppress(ProcessLookupError):
                    os.kill(process.pid, signal.SIGCONT)
                process.kill()
            process.communicate()

    # what stands in the table

    def owner(self, name: str) -> str | None:
        """Who is in the row, held or not; None when there is none."""
        rows = self.server.execute(f"SELECT OwnerInstanceId FROM {TABLE} WHERE LeaseName = N'{name}'")
        return str(rows[0][0]) if rows else None

    def held(self, name: str) -> bool:
        """Whether somebody's unexpired row is there, resting or not."""
        return bool(
            self.server.execute(
                f"SELECT 1 FROM {TABLE} WHERE LeaseName = N'{name}' "
                "AND ExpiresAtUtc > CAST(SYSUTCDATETIME() AS datetimeoffset)"
            )
        )

    def expiry(self, name: str) -> float:
        """When the row expires, on the clock of ``boottime``, at the earliest."""
        asked = boottime()
        ((left,),) = self.server.execute(
            "SELECT DATEDIFF_BIG(microsecond, CAST(SYSUTCDATETIME() AS datetimeoffset), ExpiresAtUtc) "
            f"FROM {TABLE} WHERE LeaseName = N'{name}'"
        )
        assert isinstance(left, int)
        return asked + left / 1e6


def write_python(path: Path, first: str) -> Path:
    """A Python that does something else first, in sh; $* is what it is to run."""
    path.write_text(f'#!/bin/sh\n{first}\nexec {sys.executable} "$@"\n')
    path.chmod(0o755)
    return path


def late_guard(path: Path, seconds: float) -> Path:
    """A Python with which the guard starts so late."""
    return write_python(path, f'case "$*" in *guard.py*) sleep {seconds};; esac')


class Inside:
    """Runs the command inside the test's own process: for what starts nothing and takes over no signals."""

    def __init__(self, connection: str | None) -> None:
        self._connection = connection

    def __call__(self, *arguments: str, stdin: str | None = None, **more: str) -> Ended:
        environment = {"SQLLEASE_CONNECTION": self._connection, "SQLLEASE_REPLICA_CONNECTION": None, **more}
        result = CliRunner().invoke(command_line, list(arguments), input=stdin, env=environment)
        if result.exception is not None and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Ended(result.exit_code, result.stdout, result.stderr)


def children(pid: int) -> list[int]:
    """The pids of the direct children, the dead among them left out."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[1]) == pid and fields[0] != "Z":
                    found.append(int(entry.name))
    return sorted(found)


def started_as(pid: int) -> str:
    """What the process was started as; "" when it has gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def guard_of(pid: int) -> int:
    """The guard of this wrapper."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [child for child in children(pid) if "guard.py" in started_as(child)]
        return bool(found)

    wait_until(look, "the guard runs")
    return found[0]


def job_of(pid: int) -> int:
    """The command of this wrapper, once it is that."""
    found: list[int] = []

    def look() -> bool:
        found[:] = [
            child
            for child in children(pid)
            if started_as(child) and not any(own in started_as(child) for own in ("guard.py", "launch.py"))
        ]
        found[:] = [child for child in found if "-m sqllease" not in started_as(child)]
        return bool(found)

    wait_until(look, "the command runs")
    return found[0]


def alive(pid: int) -> bool:
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def ignores(pid: int, number: signal.Signals) -> bool:
    """Whether the process ignores this signal."""
    with suppress(OSError):
        status = Path(f"/proc/{pid}/status").read_text()
        mask = next(line for line in status.splitlines() if line.startswith("SigIgn:")).split()[1]
        return bool(int(mask, 16) >> (number - 1) & 1)
    return False


def group_alive(pgid: int) -> bool:
    """Whether any living process is in the group."""
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(fields[2]) == pgid and fields[0] != "Z":
                    return True
    return False


@dataclass(frozen=True, slots=True)
class Span:
    """One copy of the job: from its first to its last sign of life."""

    pid: int
    first: float
    last: float


def spans(log: Path) -> list[Span]:
    """The copies of the job that left a trace, in the order of their beginnings."""
    seen: dict[int, Span] = {}
    if log.exists():
        for line in log.read_text().splitlines():
            pid, moment = int(line.split()[0]), float(line.split()[1])
            seen[pid] = Span(pid, seen[pid].first if pid in seen else moment, moment)
    return sorted(seen.values(), key=lambda span: span.first)


def assert_one_at_a_time(log: Path, copies: int) -> None:
    """So many copies ran, none beside another."""
    found = spans(log)
    assert len(found) == copies, found
    for one, other in pairwise(found):
        assert one.last < other.first, found
