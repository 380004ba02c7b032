"""Where the connection string comes from, and which table is meant. Never shows the string, and never hands it on."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable, Iterator, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import Any, TypeVar

import click

from sqllease.errors import LeaseValueError
from sqllease.options import ReplicaOptions, seconds
from sqllease.store import LeaseStore

CONNECTION_VARIABLE = "SQLLEASE_CONNECTION"
REPLICA_VARIABLE = "SQLLEASE_REPLICA_CONNECTION"
SECRET_VARIABLES = (CONNECTION_VARIABLE, REPLICA_VARIABLE)

F = TypeVar("F", bound=Callable[..., Any])


class SecondsType(click.ParamType[float]):
    """A number of seconds, judged by the library."""

    name = "seconds"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number; fails with the library's own words."""
        with suppress(ValueError):
            value = float(value)
        try:
            return seconds("it", value)
        except LeaseValueError as error:
            self.fail(str(error), param, ctx)


SECONDS = SecondsType()


@dataclass(frozen=True, slots=True)
class Source:
    """A lease table somewhere. The strings are in no repr."""

    connection: str = field(repr=False)
    replica: str | None = field(repr=False)
    schema: str
    table: str

    @contextmanager
    def opened(self) -> Iterator[LeaseStore]:
        """A store for one question or two, closed at the end. Raises LeaseValueError."""
        store = self.store()
        try:
            yield store
        finally:
            store.close()

    def store(self, max_connections: int = 1) -> LeaseStore:
        """A store that has opened nothing yet. Raises LeaseValueError."""
        return LeaseStore(
            self.connection,
            schema=self.schema,
            table=self.table,
            max_connections=max_connections,
            replica=None if self.replica is None else ReplicaOptions(self.replica),
        )


def table_options(command: F) -> F:
    """Adds --schema and --table."""
    command = click.option("--table", default="Leases", show_default=True, help="Name of the table.")(command)
    return click.option("--schema", default="lease", show_default=True, help="Schema of the table.")(command)


def source_options(command: F) -> F:
    """Adds the options that name the database and the table; the command gets one ``source`` in their place."""

    @wraps(command)
    def with_source(
        *,
        connection: str | None,
        connection_file: str | None,
        replica: str | None,
        schema: str,
        table: str,
        **others: Any,
    ) -> Any:
        string = _choose(connection, connection_file)
        return command(source=Source(string, replica or None, schema, table), **others)

    options = (
        click.option(
            "--connection",
            metavar="STRING",
            help=f"ODBC connection string. Others see it in the list of processes: better set {CONNECTION_VARIABLE}, "
            "or use a file.",
        ),
        click.option(
            "--connection-file",
            metavar="FILE",
            help="A file that holds the connection string and that only you can read (chmod 600).",
        ),
        click.option(
            "--replica",
            metavar="STRING",
            envvar=REPLICA_VARIABLE,
            show_envvar=True,
            help="Connection string of a read replica that has to confirm each grant.",
        ),
    )
    decorated: Any = table_options(with_source)
    for option in reversed(options):
        decorated = option(decorated)
    result: F = decorated
    return result


def forget(environment: MutableMapping[str, str]) -> None:
    """Takes the connection strings out of an environment."""
    for name in SECRET_VARIABLES:
        environment.pop(name, None)


def _choose(connection: str | None, connection_file: str | None) -> str:
    if connection is not None and connection_file is not None:
        raise click.UsageError("--connection and --connection-file exclude each other")
    if connection_file is not None:
        return _read(connection_file)
    string = connection or os.environ.get(CONNECTION_VARIABLE, "")
    if not string.strip():
        raise click.UsageError(
            f"no database is named: set {CONNECTION_VARIABLE} to an ODBC connection string, "
            "or give --connection-file or --connection"
        )
    return string


def _read(path: str) -> str:
    try:
        with Path(path).open(encoding="utf-8") as file:
            mode = os.fstat(file.fileno()).st_mode
            if os.name == "posix" and stat.S_IMODE(mode) & 0o077:
                raise click.UsageError(f"others may read {path}, and it holds a password: chmod 600 {path}")
            string = file.read().strip()
    except OSError as error:
        raise click.UsageError(f"cannot read {path}: {error.strerror}") from None
    except UnicodeDecodeError:
        string, trouble = "", "is not UTF-8"  # raised below: the error itself carries the text
    else:
        trouble = "is empty"
    if not string:
        raise click.UsageError(f"{path} {trouble}")
    return string
