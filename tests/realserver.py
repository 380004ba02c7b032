"""A real SQL Server for the tests marked `sqlserver`, where there is one.

Knows the variable SQLLEASE_TEST_DSN, and how to start Microsoft's container image where Docker answers. Knows nothing
of the stand-in. The connection strings that it gives have no driver: the tests put in the one under test.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import closing, contextmanager

import pyodbc

from tests.drivers import Driver, with_driver

DSN_VARIABLE = "SQLLEASE_TEST_DSN"
IMAGE = "mcr.microsoft.com/mssql/server:2022-latest"
DATABASE = "sqllease_tests"


def docker_answers() -> bool:
    """Whether `docker info` reaches a daemon."""
    docker = shutil.which("docker")
    if docker is None:
        return False
    try:
        return subprocess.run([docker, "info"], capture_output=True, timeout=10, check=False).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def why_not() -> str | None:
    """The reason why there is no real server here; None where there is one."""
    if os.environ.get(DSN_VARIABLE) or docker_answers():
        return None
    return f"no real SQL Server: {DSN_VARIABLE} is not set and `docker info` does not answer"


@contextmanager
def real_server(driver: Driver) -> Iterator[str]:
    """A connection string, without a driver, of a database on a real server that the tests may fill.

    A database named in SQLLEASE_TEST_DSN is used as it is; otherwise the database `sqllease_tests` is created.
    """
    given = os.environ.get(DSN_VARIABLE)
    if given:
        yield given if "database=" in given.lower() else _with_database(given, driver)
        return
    # Imported late: it needs seconds, and most runs have no container.
    from testcontainers.community.mssql import SqlServerContainer

    with SqlServerContainer(IMAGE) as container:
        host, port = container.get_container_host_ip(), container.get_exposed_port(1433)
        server = f"SERVER={host},{port};UID={container.username};PWD={{{container.password}}}"
        yield _with_database(f"{server};Encrypt=yes;TrustServerCertificate=yes", driver)


def _with_database(dsn: str, driver: Driver) -> str:
    with closing(pyodbc.connect(with_driver(dsn, driver.odbc), autocommit=True, timeout=30)) as connection:
        connection.execute(f"IF DB_ID(N'{DATABASE}') IS NULL CREATE DATABASE {DATABASE}")
    return f"{dsn.rstrip(';')};DATABASE={DATABASE}"
