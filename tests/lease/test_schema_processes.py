"""Many processes that provision one empty database at the same moment: none of them meets an error.

One round by default; SQLLEASE_TEST_FULL=1 runs the full fifty.
"""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

PROCESSES = 32
ROUNDS = 50 if os.environ.get("SQLLEASE_TEST_FULL") else 1

PROGRAM = textwrap.dedent(
    """
    import sys
    from sqllease import schema

    print("ready", flush=True)
    for line in sys.stdin:
        try:
            schema.ensure_created(line.rstrip("\\n"))
        except Exception as error:
            print(type(error).__name__, error, flush=True)
        else:
            print("well", flush=True)
    """
)


@contextmanager
def processes() -> Iterator[list[subprocess.Popen[str]]]:
    running = [
        subprocess.Popen([sys.executable, "-c", PROGRAM], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(PROCESSES)
    ]
    try:
        yield running
    finally:
        for process in running:
            process.kill()
        for process in running:
            process.communicate()


def told(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


@pytest.mark.timeout(300)
def test_processes_that_start_together_on_an_empty_database_meet_no_error(
    server: LocalSqlServer, driver: Driver
) -> None:
    with processes() as running:
        assert {told(process) for process in running} == {"ready"}
        for number in range(ROUNDS):
            server.engine.create_database(f"round{number}")
            dsn = server.connection_string(driver=driver.odbc, DATABASE=f"round{number}")
            for process in running:
                assert process.stdin is not None
                process.stdin.write(dsn + "\n")
            for process in running:  # a pipe's buffer holds it back until here: all start within a millisecond or so
                assert process.stdin is not None
                process.stdin.flush()
            assert [told(process) for process in running] == ["well"] * PROCESSES
    # The lock, not a retry, keeps them apart: nobody even tried to create what was there already.
    assert set(server.log.errors).isdisjoint({2714, 2759, 1913})
