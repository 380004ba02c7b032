"""A cancel while the fence waits for its answer: nothing is closed under a running statement, nothing committed."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S, wait_until_somebody_waits_for_a_lock


def test_two_cancels_wait_for_the_statement_and_the_driver_does_not_crash(
    server: LocalSqlServer, driver: Driver
) -> None:
    server.execute(schema.create_script())
    server.execute("CREATE TABLE dbo.Work (Done nvarchar(50) NOT NULL)")
    program = subprocess.Popen(
        [sys.executable, "-X", "faulthandler", "-m", "tests.fence.cancelling", server.connection_string(driver.odbc)],
        cwd=Path(__file__).parents[2],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        assert program.stdout is not None
        assert program.stdout.readline() == "asks\n"
        wait_until_somebody_waits_for_a_lock(server)
        _, err = program.communicate("\n", timeout=PATIENCE_S)
        assert (program.returncode, err) == (0, "")
        assert server.execute("SELECT Done FROM dbo.Work") == []
    finally:
        program.kill()
        program.communicate()
