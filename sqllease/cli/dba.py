"""For who runs the database: the scripts, the table, the checklist."""

from __future__ import annotations

import click

from sqllease import schema as scripts
from sqllease.errors import LeaseValueError

from .screen import check_table, complain, print_json, reported, show_table
from .source import Source, source_options, table_options


@click.command(
    short_help="Print the script that creates the table.",
    epilog="Example:  sqllease ddl --schema ops > create.sql",
)
@table_options
@click.option("--grant", metavar="ROLE", help="Print the script that gives ROLE the rights to use the table.")
@click.option("--drop", is_flag=True, help="Print the script that removes the table.")
def ddl(schema: str, table: str, grant: str | None, drop: bool) -> None:
    """Prints T-SQL for a DBA: the script that 'sqllease init' runs. Safe to run again, in any tool."""
    if grant is not None and drop:
        raise click.UsageError("--grant and --drop exclude each other")
    try:
        if grant is not None:
            script = scripts.grant_script(schema, table, role=grant)
        elif drop:
            script = scripts.drop_script(schema, table)
        else:
            script = scripts.create_script(schema, table)
    except LeaseValueError as error:
        raise click.UsageError(str(error)) from None
    click.echo(script, nl=False)


@click.command(
    short_help="Create schema and table where they are missing.",
    epilog="Example:  sqllease init --connection-file ~/.sqllease",
)
@source_options
def init(source: Source) -> None:
    """Creates the schema and the table where they are missing. Changes nothing where they are there."""
    with reported(), source.opened() as store:
        store.ensure_created()
    click.echo(f"{source.schema}.{source.table} is there")


@click.command(
    short_help="Check driver, server, rights and table.",
    epilog="Exit codes: 0 when leases are safe here, 1 when a check failed.\n\nExample:  sqllease verify --json",
)
@source_options
@click.option("--json", "as_json", is_flag=True, help="For machines.")
@click.pass_context
def verify(ctx: click.Context, source: Source, as_json: bool) -> None:
    """Goes through a checklist: driver, server, clock, round trip, table, collation, triggers, settings, rights, and
    whether the replica is one.
    """
    from .checks import check_all

    checks = check_all(source)
    failures = sum(check.status == "failure" for check in checks)
    if as_json:
        print_json([{"name": check.name, "status": check.status, "text": check.text} for check in checks])
    else:
        show_table(lambda _: check_table((check.name, check.status, check.text) for check in checks))
    if failures:
        complain(f"{failures} of {len(checks)} checks failed")
        ctx.exit(1)
