"""Where an ODBC driver for SQL Server may be on this machine. Knows no server.

Microsoft's driver 18 also comes in the PyPI package ``mssql-python-odbc`` ("not intended for direct use", says its
page): good for tests on machines that have no Microsoft feed.
"""

from __future__ import annotations

from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

MICROSOFT = "ODBC Driver 18 for SQL Server"
FREETDS = "FreeTDS"


def find_driver(kind: str) -> str | None:
    """What to write behind ``DRIVER=`` for "ms" or "freetds": a name or the path of a shared object; None when there
    is none.
    """
    import pyodbc

    installed = pyodbc.drivers()
    if kind == "ms":
        # The wheel first: every run of the tests then uses the same version, whatever the machine has installed.
        return next(_wheel(), MICROSOFT if MICROSOFT in installed else None)
    return FREETDS if FREETDS in installed else next(_shared_objects(), None)


def _wheel() -> Iterator[str]:
    spec = find_spec("mssql_python_odbc")
    for location in (spec and spec.submodule_search_locations) or ():
        yield from map(
            str, sorted(Path(location).glob("libs/linux/debian_ubuntu/*/lib/libmsodbcsql-18*.so*"), reverse=True)
        )


def _shared_objects() -> Iterator[str]:
    for root in ("/usr", "/usr/local", "/opt/homebrew"):
        for pattern in ("lib/*/odbc/libtdsodbc.so*", "lib64/libtdsodbc.so*", "lib/libtdsodbc.so*"):
            yield from map(str, sorted(Path(root).glob(pattern)))
