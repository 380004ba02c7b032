"""The exit code says what happened, and no two things share one by accident."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from sqllease import SqlLease, schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver, find_driver
from tests.lease.support import wait_until

from .support import COMMAND, Desk, Inside, late_guard


@pytest.mark.parametrize("code", [0, 1, 75, 255])
def test_the_commands_code_is_passed_on(desk: Desk, name: str, code: int) -> None:
    ended = desk.run(name, "--", "sh", "-c", f"exit {code}")
    told = f"sqllease: {name}: the command ended with {code}\n" if code else ""
    assert (ended.code, ended.out, ended.err) == (code, "", told)
    assert not desk.held(name)


def test_a_command_that_a_signal_killed_is_128_and_the_signal(desk: Desk, name: str) -> None:
    ended = desk.run(name, "--", "sh", "-c", "kill -9 $$")
    assert (ended.code, ended.err) == (137, f"sqllease: {name}: the command was killed by signal 9 (Killed)\n")


def test_what_cannot_be_started_is_126_or_127_as_in_a_shell(desk: Desk, name: str, tmp_path: Path) -> None:
    no_program = tmp_path / "notes.txt"
    no_program.write_text("hello")
    assert desk.run(name, "-q", "--", str(no_program)).code == 126
    ended = desk.run(name, "-q", "--", "no-such-command-anywhere")
    assert (ended.code, ended.err) == (127, "sqllease: no-such-command-anywhere: command not found\n")
    assert not desk.held(name)


class TestNothingBegan:
    """The row does not rest: another host may still do this tick's work."""

    REST = ("--hold-at-least", "60")

    def test_no_process_can_be_started(self, desk: Desk, name: str, tmp_path: Path) -> None:
        desk.use_python(tmp_path / "none")
        ended = desk.run(name, *self.REST, "--", "true")
        told = f"sqllease: {name}: no process can be started: No such file or directory; the command was not run\n"
        assert (ended.code, ended.err) == (71, told)
        assert desk.owner(name) is None

    def test_a_signal_comes_first(self, desk: Desk, name: str, tmp_path: Path) -> None:
        desk.use_python(late_guard(tmp_path / "python", 2))
        wrapper = desk.start("run", "--name", name, *self.REST, "--", "echo", "ran")
        wait_until(lambda: desk.held(name), "the lease is held")
        wrapper.terminate()
        ended = desk.ended(wrapper)
        assert (ended.code, ended.out) == (143, "")
        assert desk.owner(name) is None

    def test_a_command_that_has_begun_rests_also_when_it_fails(self, desk: Desk, name: str) -> None:
        assert desk.run(name, *self.REST, "--", "false").code == 1
        assert desk.held(name)


@pytest.mark.parametrize(("options", "code"), [([], 75), (["-E", "0"], 0), (["-E", "3", "--wait", "0.5"], 3)])
def test_somebody_elses_lease_means_that_nothing_runs(
    desk: Desk, name: str, tmp_path: Path, options: list[str], code: int
) -> None:
    trace = tmp_path / "trace"
    other = SqlLease(name, desk.connection)
    assert other.try_acquire()
    ended = desk.run(name, *options, "--", "touch", str(trace))
    assert (ended.code, ended.out) == (code, "")
    assert ended.err.startswith(f"sqllease: {name}: not run: the lease is held by {other.owner_id} since ")
    assert ended.err.count("\n") == 1
    assert not trace.exists()
    other.try_release()
    other.close()


def test_quiet_says_nothing_of_normal_contention(desk: Desk, name: str) -> None:
    other = SqlLease(name, desk.connection)
    assert other.try_acquire()
    ended = desk.run(name, "--quiet", "--", "true")
    assert (ended.code, ended.out, ended.err) == (75, "", "")
    other.close()


def test_waiting_gets_the_lease_when_it_becomes_free(desk: Desk, name: str) -> None:
    other = SqlLease(name, desk.connection)
    assert other.try_acquire()
    waiting = desk.start("run", "--name", name, "--wait", "30", "--", "echo", "mine")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(1.5)
    assert other.try_release()
    assert desk.ended(waiting).out == "mine\n"
    other.close()


def test_a_signal_ends_the_waiting(desk: Desk, name: str) -> None:
    other = SqlLease(name, desk.connection)
    assert other.try_acquire()
    waiting = desk.start("run", "--name", name, "--wait", "60", "--", "echo", "mine")
    with pytest.raises(subprocess.TimeoutExpired):
        waiting.wait(2)
    waiting.terminate()
    ended = desk.ended(waiting)
    assert (ended.code, ended.out) == (143, "")
    assert ended.err == f"sqllease: {name}: stopped (Terminated) before the command began\n"
    assert desk.owner(name) == other.owner_id
    other.try_release()
    other.close()


@pytest.mark.parametrize(
    "options",
    [
        ["-E", "256"],
        ["-E", "600"],
        ["-E", "-9"],
        ["--grace", "18"],
        ["--duration", "1"],
        ["--wait", "nan"],
        ["--duration", "6", "--grace", "3.5"],
        ["--max-runtime", "-1"],
        ["--on-db-error", "ignore"],
        ["--connection", "a=b", "--connection-file", "x"],
    ],
    ids=" ".join,
)
def test_options_that_cannot_work_are_refused_before_anything_happens(
    inside: Inside, desk: Desk, name: str, options: list[str]
) -> None:
    ended = inside("run", "--name", name, *options, "--", "true")
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err
    assert desk.owner(name) is None


def test_a_name_that_cannot_be_one_is_refused(inside: Inside) -> None:
    ended = inside("run", "--name", " padded", "--", "true")
    assert (ended.code, ended.out) == (2, "")
    assert "Error: " in ended.err


class TestTheDatabaseFails:
    """74 and one line, also with --quiet; never the code that says that somebody else has the lease."""

    @pytest.fixture
    def nobody_listens(self, desk: Desk, ms_driver: Driver) -> Desk:
        desk.connection = f"DRIVER={{{ms_driver.odbc}}};SERVER=127.0.0.1,1;UID=sa;PWD=hidden-1;Encrypt=no"
        return desk

    @pytest.mark.parametrize(
        ("options", "code", "out", "said"),
        [
            ([], 74, "", "not run, the database failed: "),
            (["--on-db-error", "skip"], 75, "", "skipped, the database failed: "),
            (["--on-db-error", "skip", "-E", "9"], 9, "", "skipped, the database failed: "),
            (["--on-db-error", "run"], 0, "ran\n", "running WITHOUT a lease, the database failed: "),
        ],
        ids=lambda value: " ".join(value) if isinstance(value, list) else "",
    )
    def test_it_is_down(
        self, nobody_listens: Desk, name: str, options: list[str], code: int, out: str, said: str
    ) -> None:
        ended = nobody_listens.run(name, "--quiet", "--duration", "3", *options, "--", "echo", "ran")
        assert (ended.code, ended.out) == (code, out)
        assert ended.err.startswith(f"sqllease: {name}: {said}")
        assert ended.err.count("\n") == 1
        assert "hidden-1" not in ended.err

    def test_the_password_is_wrong(self, desk: Desk, name: str) -> None:
        desk.connection = desk.connection.replace(desk.server.password, "Wrong-pass-1")
        self._fails(desk, name)

    def test_the_driver_is_missing(self, desk: Desk, name: str) -> None:
        desk.connection = "DRIVER={No Such Driver};SERVER=127.0.0.1;UID=sa;PWD=Wrong-pass-1"
        self._fails(desk, name)

    def test_the_certificate_is_not_trusted(self, desk: Desk, name: str) -> None:
        desk.connection = desk.connection.replace("TrustServerCertificate=yes", "TrustServerCertificate=no")
        self._fails(desk, name)

    def test_the_table_is_missing(self, server: LocalSqlServer, desk: Desk, name: str, ms_driver: Driver) -> None:
        desk.connection = server.connection_string(driver=ms_driver.odbc)
        self._fails(desk, name)

    def test_a_right_is_missing(self, server: LocalSqlServer, desk: Desk, name: str, ms_driver: Driver) -> None:
        server.execute(schema.create_script())
        server.execute("CREATE LOGIN app WITH PASSWORD = 'App-Pass-1'; CREATE USER app FOR LOGIN app;")
        desk.connection = server.connection_string(driver=ms_driver.odbc, user="app", password="App-Pass-1")
        self._fails(desk, name)

    @staticmethod
    def _fails(desk: Desk, name: str) -> None:
        ended = desk.run(name, "--quiet", "--duration", "6", "--", "echo", "ran")
        assert (ended.code, ended.out) == (74, "")
        assert ended.err.startswith(f"sqllease: {name}: not run, the database failed: ")
        assert ended.err.count("\n") == 1
        assert "Wrong-pass-1" not in ended.err


def test_the_other_driver_works_too(desk: Desk, name: str) -> None:
    driver = find_driver("freetds")
    if driver is None:
        pytest.skip("FreeTDS is not installed")
    desk.connection = desk.server.connection_string(driver=driver.odbc)
    ended = desk.run(name, "--", "sh", "-c", 'test -n "$SQLLEASE_TOKEN" && exit 4')
    assert ended.code == 4
    assert not desk.held(name)


def test_a_full_runtime_is_124_and_ends_the_group(desk: Desk, name: str) -> None:
    ended = desk.run(name, "--max-runtime", "0.3", "--grace", "0.3", "--", "sh", "-c", "trap '' TERM; sleep 60; true")
    assert ended.code == 124
    assert ended.err == f"sqllease: {name}: the command has run for 0.3 s: it is stopped\n"
    assert not desk.held(name)


def test_what_follows_the_dashes_is_passed_byte_for_byte(desk: Desk, name: str) -> None:
    odd = os.fsdecode(b"\xff\xfe caf\xe9")
    arguments = ["--help", "--", "-E", "", " ", "a\nb", "$HOME", odd]
    process = subprocess.run(
        [*COMMAND, "run", "--name", name, "--", "printf", "%s|", *arguments],
        env=desk.environment(),
        capture_output=True,
        check=True,
    )
    assert process.stdout == b"".join(os.fsencode(argument) + b"|" for argument in arguments)
