"""``scripts/bench``: measures every pair with both drivers and prints what it found."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager

from sqllease.testing.drivers import find_driver

from .dlock import HELD_AT_ONCE, WAYS, dlock_pair, logins_for_many
from .leases import TITLES, async_pair, sync_pair
from .pairs import Pair, compare
from .report import Many, Report
from .standin import StandIn

DRIVERS = {"ms": "Microsoft's ODBC driver", "freetds": "FreeTDS"}
ROUNDS, QUICK_ROUNDS = 300, 40
CALLS_A_ROUND = 4


def main(arguments: list[str] | None = None) -> int:
    """0 when everything could be measured, whatever came out."""
    parser = argparse.ArgumentParser(
        prog="bench",
        description="What a lease costs beside the bare driver and beside sqlalchemy-dlock: ratios of paired rounds.",
    )
    parser.add_argument("--quick", action="store_true", help="a short run: fewer rounds, wider spread")
    parser.add_argument("--json", action="store_true", help="print JSON in place of the table")
    parser.add_argument("--driver", choices=DRIVERS, help="only this ODBC driver (default: both)")
    chosen = parser.parse_args(arguments)
    began = time.monotonic()
    names = {key: name for key, name in DRIVERS.items() if chosen.driver in (None, key)}
    report = Report(names, [], [], 0.0)
    rounds = QUICK_ROUNDS if chosen.quick else ROUNDS
    with StandIn() as server:
        for driver in names:
            odbc = find_driver(driver)
            if odbc is None:
                parser.error(f"{names[driver]} is not installed: scripts/setup installs it")
            connection_string = server.connection_string(odbc)
            for opening in _pairs(connection_string):
                server.counts()
                with opening as pair:
                    print(f"{names[driver]}: {pair.title} beside {pair.other} ...", file=sys.stderr, flush=True)
                    report.comparisons.append(compare(pair, server, driver, rounds, CALLS_A_ROUND))
            report.many.append(Many(driver, HELD_AT_ONCE, *logins_for_many(connection_string, server)))
    report = Report(names, report.comparisons, report.many, time.monotonic() - began)
    print(report.as_json() if chosen.json else report.as_table())
    return 0


def _pairs(connection_string: str) -> Iterator[AbstractContextManager[Pair]]:
    for title in TITLES:
        yield sync_pair(title, connection_string)
    for title in TITLES:
        yield async_pair(title, connection_string)
    for way in WAYS:
        yield dlock_pair(way, connection_string)


if __name__ == "__main__":
    sys.exit(main())
