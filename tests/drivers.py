"""Where the two ODBC drivers of the tests are.

Knows how a connection string is moved from one driver to the other. Knows no server. Run as a program it loads both and
says what it found; it exits with 1 when one does not load.
"""

import ctypes
import re
import sys
from dataclasses import dataclass
from pathlib import Path

import pyodbc

from sqllease.testing import drivers

DRIVER_IDS = ("ms", "freetds")

# A value in braces ends at the first closing brace that is not doubled.
_DRIVER_KEYWORD = re.compile(r"(?:^|(?<=;))\s*driver\s*=\s*(?:\{(?:[^}]|\}\})*\}|[^;]*)\s*(?:;|$)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Driver:
    """One ODBC driver: a short id for test names, and what stands behind `DRIVER=` (a name or the path of a file)."""

    id: str
    odbc: str

    def __str__(self) -> str:
        return self.id


def find_driver(driver_id: str) -> Driver | None:
    """The driver with this id, or None when the machine does not have it."""
    odbc = drivers.find_driver(driver_id)
    return None if odbc is None else Driver(driver_id, odbc)


def with_driver(connection_string: str, odbc: str) -> str:
    """The same connection string for another driver."""
    return "DRIVER={" + odbc.replace("}", "}}") + "};" + _DRIVER_KEYWORD.sub("", connection_string)


def _why_not(odbc: str) -> str | None:
    """What keeps the driver from loading (mostly a library that it needs); None when it loads."""
    if Path(odbc).is_file():
        try:
            ctypes.CDLL(odbc)
        except OSError as error:
            return str(error)
        return None
    try:
        pyodbc.connect(with_driver("SERVER=127.0.0.1,1;UID=nobody;PWD=none", odbc), timeout=1)
    except pyodbc.Error as error:
        # Nobody listens there: any other message is the driver's own, so it did load.
        return str(error) if "Can't open lib" in str(error) else None
    return None


def main() -> int:
    complete = True
    for driver_id in DRIVER_IDS:
        driver = find_driver(driver_id)
        trouble = _why_not(driver.odbc) if driver else "not found"
        complete = complete and trouble is None
        print(f"{driver_id}: {driver.odbc if driver else ''} {trouble or 'loads'}")
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
