"""`python -m sqllease ddl`: scripts for a DBA, on a machine that has nothing else."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sqllease import schema
from sqllease.__main__ import main

Captured = pytest.CaptureFixture[str]


@pytest.mark.parametrize(
    ("arguments", "script"),
    [
        ([], schema.create_script()),
        (["--schema", "ops"], schema.create_script("ops")),
        (["--schema", "a]b", "--table", "o'hara"], schema.create_script("a]b", "o'hara")),
        (["--drop"], schema.drop_script()),
        (["--drop", "--table", "Jobs"], schema.drop_script(table="Jobs")),
        (["--grant", "app"], schema.grant_script(role="app")),
        (["--grant", "app", "--schema", "ops", "--table", "Jobs"], schema.grant_script("ops", "Jobs", role="app")),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_ddl_prints_the_script_that_was_asked_for_and_nothing_else(
    capsys: Captured, arguments: list[str], script: str
) -> None:
    assert main(["ddl", *arguments]) == 0
    assert capsys.readouterr() == (script, "")


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["ddl", "--grant", "app", "--drop"],
        ["ddl", "--schema", ""],
        ["ddl", "--table", "t" * 129],
        ["ddl", "--grant", ""],
        ["ddl", "extra"],
        ["nonsense"],
    ],
    ids=lambda arguments: " ".join(arguments)[:40],
)
def test_bad_arguments_end_with_2_one_message_and_no_script(capsys: Captured, arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    told = capsys.readouterr()
    assert (ended.value.code, told.out) == (2, "")
    assert "error: " in told.err
    assert "Traceback" not in told.err


def test_it_runs_as_a_module() -> None:
    ran = subprocess.run([sys.executable, "-m", "sqllease", "ddl"], capture_output=True, check=True, text=True)
    assert ran.stdout == schema.create_script()


def test_it_needs_no_driver_manager() -> None:
    # pyodbc fails to import where unixODBC's library is missing.
    script = "import sys; sys.modules['pyodbc'] = None; from sqllease.__main__ import main; sys.exit(main(['ddl']))"
    subprocess.run([sys.executable, "-c", script], capture_output=True, check=True)
