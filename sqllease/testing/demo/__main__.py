"""``python -m sqllease.testing.demo``: sets the stage, a stand-in server or a real one, and runs the acts."""

from __future__ import annotations

import argparse
import logging
import os
import sys
from contextlib import ExitStack
from pathlib import Path

from sqllease.odbc import parse, with_default
from sqllease.testing.drivers import find_driver

from .failover import play
from .handover import Handover
from .timeline import CHARACTER_S, Timeline, as_svg, as_text

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
    parser.add_argument("--timeline", metavar="FILE.svg", help="write the second act's timelines as a picture")
    chosen = parser.parse_args(arguments)
    real = os.environ.get(REAL_SERVER_VARIABLE) if chosen.real else None
    driver: str | None = chosen.driver or find_driver("ms") or find_driver("freetds")
    if chosen.real and not real:
        parser.error(f"{REAL_SERVER_VARIABLE} is not set")
    with ExitStack() as stage:
        if real:
            print("on the real server that is named in the environment\n")
            connection_string = _with_driver(real, driver)
        else:
            if driver is None:
                parser.error("no ODBC driver for SQL Server is found: install one, or name it with --driver")
            from sqllease.testing.server import LocalSqlServer

            server = stage.enter_context(LocalSqlServer(database="demo"))
            print(
                f"on a stand-in SQL Server at 127.0.0.1:{server.port}: "
                "real driver, real wire, real locks, not the real engine\n"
                f"driver: {os.path.basename(driver)}\n"
            )
            connection_string = server.connection_string(driver=driver)
        print("Act one: a holder dies\n")
        good = Handover(connection_string, sys.stdout).play()
    if not real and driver is not None:
        good = second_act(driver, chosen.timeline) and good
    return 0 if good else 1


def _with_driver(connection_string: str, driver: str | None) -> str:
    """The string as it is, where it names a driver or a data source that does; else with this one."""
    if driver is None or any(key in ("driver", "dsn", "filedsn") for key, _ in parse(connection_string)):
        return connection_string
    return with_default(connection_string, "DRIVER", driver)


def second_act(driver: str, picture: str | None) -> bool:
    """Both runs of act two, drawn; True when two worked without confirmation, and one with it."""
    print(
        "\nAct two: a failover that loses the lease\n\n"
        "An asynchronous replica; the primary dies before ada's row arrived there.\n"
        f"· asks   ▒ works, not confirmed   █ works, confirmed   one character: {CHARACTER_S:g} s\n"
    )
    log = logging.getLogger("sqllease")
    level = log.level
    log.setLevel(logging.CRITICAL)  # the picture says it all
    try:
        runs = [play(driver, confirm=False), play(driver, confirm=True)]
    finally:
        log.setLevel(level)
    for run in runs:
        print(as_text(run) + "\n")
    counts = [sum(bool(lane.working()) for lane in run.lanes) for run in runs]
    print(f"workers without confirmation: {counts[0]}, at once for {_seconds(runs[0])}")
    print(f"workers with confirmation:    {counts[1]}, at once for {_seconds(runs[1])}")
    if picture is not None:
        Path(picture).write_text(as_svg(runs), encoding="utf-8")
        print(f"written: {picture}")
    return bool(runs[0].overlaps()) and not runs[1].overlaps() and counts[1] == 1


def _seconds(run: Timeline) -> str:
    return f"{sum(end - start for start, end in run.overlaps()):.1f} s"


if __name__ == "__main__":
    sys.exit(main())
