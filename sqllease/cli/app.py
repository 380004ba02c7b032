"""The group of all commands, and the demo."""

from __future__ import annotations

import click

from . import dba, operators, run


@click.group(
    epilog="Exit codes of each command are in its own help. Where the connection string comes from: see "
    "'sqllease run --help'.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(package_name="sqllease")
def command_line() -> None:
    """Leases in one SQL Server table: run a job on one host at a time, look who holds what, set up the table."""


@click.command(
    short_help="Show what a lease does, on a stand-in server.",
    context_settings={"ignore_unknown_options": True},
    epilog="Example:  sqllease demo --driver FreeTDS",
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[--driver NAME] [--real] [--timeline FILE.svg]")
def demo(arguments: tuple[str, ...]) -> None:
    """Shows leases being won, renewed, lost by a dead holder and taken over, as it happens.

    Runs on a stand-in SQL Server that is part of the extra 'testing'; an ODBC driver is all that it needs besides.
    """
    try:
        from sqllease.testing.demo.__main__ import main
    except ImportError as error:
        raise click.ClickException(
            f"the demo needs the package {error.name!r}: pip install 'sqllease[testing]'"
        ) from None
    raise SystemExit(main(list(arguments)))


for command in (
    run.run,
    dba.ddl,
    dba.init,
    dba.verify,
    operators.list_leases,
    operators.show,
    operators.break_lease,
    operators.purge,
    demo,
):
    command_line.add_command(command)
