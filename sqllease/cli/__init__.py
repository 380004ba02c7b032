"""The command ``sqllease``: a guard for cron jobs, scripts for a DBA, a view for who is on call.

The top room: nothing else of the library knows it. Needs the extra ``cli``.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command line; says what to install where the extra is missing."""
    try:
        import click
        import rich
    except ImportError as error:
        sys.stderr.write(
            f"sqllease: the command needs the package {error.name!r}: pip install 'sqllease[cli]'\n"
            "('python -m sqllease ddl' works without it)\n"
        )
        return 2
    del click, rich
    from .app import command_line
    from .stderr import harmless

    try:
        with harmless():
            command_line.main(prog_name="sqllease")
    except KeyboardInterrupt:
        return 130
    return 0
