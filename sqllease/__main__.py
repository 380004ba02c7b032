"""``python -m sqllease``: the whole command line where the extra ``cli`` is installed, else ``ddl`` alone."""

from __future__ import annotations

import argparse
import sys
from importlib.util import find_spec

from . import schema
from .errors import LeaseValueError


def main(arguments: list[str] | None = None) -> int:
    """Prints the script that was asked for; 0, or 2 for bad arguments."""
    parser = argparse.ArgumentParser(prog="sqllease", description="Leases in one SQL Server table.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND")
    ddl = commands.add_parser(
        "ddl",
        help="print the script that creates the lease table",
        description="Prints T-SQL for a DBA: the script that ensure_created() runs, safe to run again in any tool.",
        epilog="example: python -m sqllease ddl --schema ops > create.sql",
    )
    ddl.add_argument("--schema", default="lease", help="schema of the table (default: %(default)s)")
    ddl.add_argument("--table", default="Leases", help="name of the table (default: %(default)s)")
    kind = ddl.add_mutually_exclusive_group()
    kind.add_argument("--grant", metavar="ROLE", help="print the script that gives ROLE the rights to use the table")
    kind.add_argument("--drop", action="store_true", help="print the script that removes the table")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.grant is not None:
            script = schema.grant_script(chosen.schema, chosen.table, role=chosen.grant)
        elif chosen.drop:
            script = schema.drop_script(chosen.schema, chosen.table)
        else:
            script = schema.create_script(chosen.schema, chosen.table)
    except LeaseValueError as error:
        parser.error(str(error))
    sys.stdout.write(script)
    return 0


def best() -> int:
    """The command line if it can be had, else what works without it."""
    if find_spec("click") is None or find_spec("rich") is None:
        return main()
    from .cli import main as whole

    return whole()


if __name__ == "__main__":
    sys.exit(best())
