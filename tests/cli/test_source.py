"""Where the connection string comes from, and that it goes nowhere else; the help; what works without the extra."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqllease import schema
from sqllease.cli.app import command_line
from sqllease.cli.source import Source

from .support import Desk, Inside


@pytest.fixture
def secret_file(desk: Desk, tmp_path: Path) -> Path:
    path = tmp_path / "connection"
    path.write_text(desk.connection + "\n")
    path.chmod(0o600)
    return path


def test_it_may_be_an_option_a_variable_or_a_file(desk: Desk, inside: Inside, secret_file: Path) -> None:
    assert inside("list").code == 0
    assert Inside(None)("list", "--connection", desk.connection).code == 0
    assert Inside("SERVER=nowhere")("list", "--connection-file", str(secret_file)).code == 0


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o620])
@pytest.mark.skipif(os.name != "posix", reason="no modes")
def test_a_file_that_others_may_touch_is_refused(secret_file: Path, mode: int) -> None:
    secret_file.chmod(mode)
    ended = Inside(None)("list", "--connection-file", str(secret_file))
    assert ended.code == 2
    assert f"chmod 600 {secret_file}" in ended.err


@pytest.mark.parametrize("content", [b"", b"\n", b"\xff\xfeS3cret"])
def test_a_file_that_holds_no_string_is_refused(secret_file: Path, content: bytes) -> None:
    secret_file.write_bytes(content)
    ended = Inside(None)("list", "--connection-file", str(secret_file))
    assert (ended.code, "S3cret" in ended.err) == (2, False)


def test_a_missing_file_is_told(tmp_path: Path) -> None:
    ended = Inside(None)("list", "--connection-file", str(tmp_path / "none"))
    assert (ended.code, "No such file" in ended.err) == (2, True)


def test_no_database_says_what_to_do() -> None:
    ended = Inside(None)("list")
    assert ended.code == 2
    assert "set SQLLEASE_CONNECTION" in ended.err


def test_a_source_shows_no_secret() -> None:
    assert "S3cret" not in repr(Source("PWD=S3cret", "PWD=S3cret", "lease", "Leases"))


@pytest.mark.parametrize("command", sorted(command_line.commands))
def test_the_help_has_an_example_and_fits_80_columns(command: str) -> None:
    ended = Inside(None)(command, "--help", COLUMNS="80")
    assert ended.code == 0
    assert f"sqllease {command}" in ended.out.partition("Example:")[2]
    assert max(map(len, ended.out.splitlines())) <= 80


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_scripts_can_be_had(shell: str) -> None:
    environment = {**os.environ, "_SQLLEASE_COMPLETE": f"{shell}_source"}
    program = "import sys; sys.argv = ['sqllease']; from sqllease.cli import main; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True, text=True)
    assert "_SQLLEASE_COMPLETE=" in ran.stdout


@pytest.mark.parametrize("missing", ["click", "rich"])
def test_without_the_extra_the_command_says_what_to_install(missing: str) -> None:
    program = f"import sys; sys.modules['{missing}'] = None; from sqllease.cli import main; sys.exit(main())"
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "pip install 'sqllease[cli]'" in ran.stderr


def test_as_a_module_it_is_the_whole_command_or_ddl_alone() -> None:
    def run(missing: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        program = (
            f"import runpy, sys; sys.modules['{missing}'] = None; sys.argv = ['sqllease', *{arguments!r}]; "
            "runpy.run_module('sqllease', run_name='__main__')"
        )
        return subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)

    assert run("nothing", "list", "--help").returncode == 0
    assert run("click", "ddl").stdout == schema.create_script()
    assert run("click", "list").returncode == 2
    assert run("pyodbc", "ddl").stdout == schema.create_script()


def test_without_testing_the_demo_says_what_to_install() -> None:
    program = (
        "import sys; sys.modules['greenlet'] = None; sys.argv = ['sqllease', 'demo']; "
        "from sqllease.cli import main; sys.exit(main())"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False, text=True)
    assert (ran.returncode, ran.stdout) == (1, "")
    assert "pip install 'sqllease[testing]'" in ran.stderr
