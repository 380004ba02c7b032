"""``python -m sqllease.testing.demo``: sets the stage, a stand-in server or a real one, and runs the acts."""

from __future__ import annotations

import argparse
import os
import sys
from contextlib import ExitStack

from sqllease.testing.drivers import find_driver

from .handover import Handover

REAL_SERVER_VARIABLE = "SQLLEASE_TEST_DSN"


def main(arguments: list[str] | None = None) -> int:
    """0 when everything went as it should, 1 when not, 2 when something is missing."""
    parser = argparse.ArgumentParser(
        prog="demo", description="A lease is won, renewed, lost by a dead holder and taken over."
    )
    parser.add_argument(
        "--driver", help="ODBC driver: a name, or the path of a shared object (default: the best that is found)"
    )
    parser.add_argument(
        "--real",
        action="store_true",
        help=f"use the real server of {REAL_SERVER_VARIABLE} (an ODBC connection string) in place of the stand-in",
    )
    chosen = parser.parse_args(arguments)
    real = os.environ.get(REAL_SERVER_VARIABLE) if chosen.real else None
    if chosen.real and not real:
        parser.error(f"{REAL_SERVER_VARIABLE} is not set")
    with ExitStack() as stage:
        if real:
            print("on the real server that is named in the environment\n")
            connection_string = real
        else:
            driver = chosen.driver or find_driver("ms") or find_driver("freetds")
            if driver is None:
                parser.error("no ODBC driver for SQL Server is found: install one, or name it with --driver")
            from sqllease.testing import LocalSqlServer

            server = stage.enter_context(LocalSqlServer(database="demo"))
            print(
                f"on a stand-in SQL Server at 127.0.0.1:{server.port}: "
                "real driver, real wire, real locks, not the real engine\n"
                f"driver: {os.path.basename(driver)}\n"
            )
            connection_string = server.connection_string(driver=driver)
        return 0 if Handover(connection_string, sys.stdout).play() else 1


if __name__ == "__main__":
    sys.exit(main())
