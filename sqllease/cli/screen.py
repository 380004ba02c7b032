"""What people see: one line for an error, tables of leases and checks. Knows no database.

On a terminal tables fit it, in colour unless NO_COLOR is set; into a pipe they go plain and uncut.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import click

from sqllease.answers import LeaseInfo
from sqllease.errors import LeaseError, LeaseValueError

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

DATABASE_TROUBLE = 74
_UNCUT = 10_000


def complain(text: str) -> None:
    """One line on stderr."""
    line = " ".join(text.split())
    click.echo(f"sqllease: {printable(line)}", err=True)


@contextmanager
def reported() -> Iterator[None]:
    """Turns the library's errors into one line and an exit code: 2 for an argument, 74 for the database."""
    try:
        yield
    except LeaseError as error:
        text, code = str(error), 2 if isinstance(error, LeaseValueError) else DATABASE_TROUBLE
    else:
        return
    complain(text)
    raise SystemExit(code)


def console() -> Console:
    """The terminal."""
    from rich.console import Console

    return Console(highlight=False)


def show_table(table: Callable[[int], Table]) -> None:
    """On a terminal as wide as that; else in full and without blanks at the ends."""
    from rich.console import Console

    if sys.stdout.isatty():
        screen = console()
        screen.print(table(screen.width))
        return
    paper = io.StringIO()
    Console(file=paper, width=_UNCUT, color_system=None).print(table(_UNCUT))
    click.echo("\n".join(line.rstrip() for line in paper.getvalue().splitlines()))


def print_json(value: object) -> None:
    """Indented JSON on stdout."""
    click.echo(json.dumps(value, indent=2, ensure_ascii=False))


def as_json(info: LeaseInfo) -> dict[str, Any]:
    """One lease for machines."""
    return {
        "name": info.name,
        "state": state(info),
        "owner_id": info.owner_id,
        "acquired_at": info.acquired_at.isoformat(),
        "renewed_at": info.renewed_at.isoformat(),
        "expires_at": info.expires_at.isoformat(),
        "remaining_s": round(info.remaining, 3),
        "metadata": info.metadata,
    }


def state(info: LeaseInfo) -> str:
    """held, resting or expired."""
    return "expired" if info.expired else "resting" if info.resting else "held"


def clock_time(moment: datetime) -> str:
    """A moment for people, in UTC."""
    return moment.strftime("%Y-%m-%d %H:%M:%S UTC")


def length(seconds: float) -> str:
    """A length of time for people."""
    if seconds < 100:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    days, hours = divmod(hours, 24)
    if days:
        return f"{days} d {hours} h"
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


_STYLES = {"held": "green", "resting": "yellow", "expired": "dim", "ok": "green", "warning": "yellow", "failure": "red"}


_FIXED = 7 + 14 + 11 + 5 * 2
"""Columns for state, since, time left, and the blanks between all six."""


def lease_table(leases: Sequence[LeaseInfo], width: int = _UNCUT) -> Table:
    """One line a lease; where the width does not do, names and owners go on in the next line."""
    from rich.cells import cell_len
    from rich.table import Table
    from rich.text import Text

    texts = [tuple(map(printable, (info.name, info.owner_id, info.metadata or ""))) for info in leases]
    needs = [max(map(cell_len, column)) for column in zip(("NAME", "OWNER", "METADATA"), *texts, strict=True)]
    name, owner, metadata = _share(max(30, width - _FIXED), needs)
    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    table.add_column("NAME", overflow="fold", width=name)
    table.add_column("STATE", no_wrap=True, width=7)
    table.add_column("OWNER", overflow="fold", width=owner)
    table.add_column("SINCE (UTC)", no_wrap=True, width=14)
    table.add_column("LEFT", no_wrap=True, justify="right", width=11)
    table.add_column("METADATA", overflow="ellipsis", no_wrap=True, width=metadata)
    for info, (name_text, owner_text, metadata_text) in zip(leases, texts, strict=True):
        kind = state(info)
        table.add_row(
            Text(name_text),
            Text(kind, style=_STYLES[kind]),
            Text(owner_text),
            info.acquired_at.strftime("%m-%d %H:%M:%S"),
            "" if info.expired else length(info.remaining),
            Text(metadata_text),
        )
    return table


def _share(width: int, needs: Sequence[int]) -> list[int]:
    """The width shared out: who needs less than an equal part leaves the rest to the others."""
    given = [0] * len(needs)
    order = sorted(range(len(needs)), key=lambda index: needs[index])
    for count, index in enumerate(order):
        given[index] = min(needs[index], width // (len(needs) - count))
        width -= given[index]
    return given


def check_table(checks: Iterable[tuple[str, str, str]]) -> Table:
    """One line a check; long texts are wrapped on a terminal."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, status, text in checks:
        table.add_row(Text(status, style=_STYLES[status]), name, Text(text))
    return table


def printable(text: str) -> str:
    """The text on one line: what others wrote into the table must not steer the terminal."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)
