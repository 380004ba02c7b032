"""For who is on call: look who holds what, take a lease away, tidy up."""

from __future__ import annotations

import sys
import time
from functools import partial

import click

from sqllease.answers import LeaseInfo
from sqllease.errors import LeaseError
from sqllease.store import LeaseStore

from .screen import (
    as_json,
    clock_time,
    complain,
    console,
    lease_table,
    length,
    print_json,
    printable,
    reported,
    show_table,
    state,
)
from .source import SECONDS, Source, source_options

_NOT_THERE = 1


@click.command("list", short_help="Who holds what.", epilog="Example:  sqllease list --watch")
@source_options
@click.option("--watch", is_flag=True, help="Look again and again, until Ctrl-C.")
@click.option("--every", type=SECONDS, default=2.0, metavar="S", show_default=True, help="With --watch: how often.")
@click.option("--json", "json_wanted", is_flag=True, help="For machines; with --watch one line a look.")
def list_leases(source: Source, watch: bool, every: float, json_wanted: bool) -> None:
    """All leases with holder, since when, time left, and metadata.

    A lease that rests is held by nobody and free when its time is up; an expired one is free. What you see is an
    unlocked read: advice, not proof.
    """
    with reported(), source.opened() as store:
        if watch:
            _watch(store, max(0.1, every), json_wanted)
        elif json_wanted:
            print_json([as_json(info) for info in store.list()])
        else:
            show_table(partial(lease_table, store.list()))


def _watch(store: LeaseStore, every: float, json_wanted: bool) -> None:
    import json

    from rich.console import Group
    from rich.live import Live
    from rich.text import Text

    screen = console()
    live = Live(console=screen, screen=False, auto_refresh=False) if screen.is_terminal and not json_wanted else None
    leases: list[LeaseInfo] = store.list()
    trouble = ""
    try:
        if live is not None:
            live.start()
        while True:
            if live is not None:
                told = trouble or f"{len(leases)} leases, every {every:g} s, Ctrl-C ends"
                live.update(
                    Group(lease_table(leases, screen.width), Text(told, "red" if trouble else "dim")), refresh=True
                )
            elif json_wanted:
                click.echo(json.dumps([as_json(info) for info in leases], ensure_ascii=False))
            else:
                show_table(partial(lease_table, leases))
            time.sleep(every)
            try:
                leases, trouble = store.list(), ""
            except LeaseError as error:
                trouble = f"as of the last look; now: {error}"
                if live is None:
                    complain(str(error))
    except KeyboardInterrupt:
        return
    finally:
        if live is not None:
            live.stop()


@click.command(
    short_help="One lease in full.",
    epilog="Exit codes: 0, or 1 when there is no such lease.\n\nExample:  sqllease show nightly",
)
@source_options
@click.option("--json", "json_wanted", is_flag=True, help="For machines.")
@click.argument("name")
def show(source: Source, json_wanted: bool, name: str) -> None:
    """The row of one lease, held, resting or expired."""
    with reported(), source.opened() as store:
        info = store.get(name)
    if info is None:
        complain(f"there is no lease {name!r}")
        raise SystemExit(_NOT_THERE)
    if json_wanted:
        print_json(as_json(info))
        return
    left = "" if info.expired else f" ({length(info.remaining)} left)"
    for key, value in (
        ("name", printable(info.name)),
        ("state", state(info)),
        ("last owner" if info.resting else "owner", printable(info.owner_id)),
        ("acquired", clock_time(info.acquired_at)),
        ("renewed", clock_time(info.renewed_at)),
        ("expires", clock_time(info.expires_at) + left),
        ("metadata", printable(info.metadata or "")),
    ):
        click.echo(f"{key + ':':<11} {value}".rstrip())


@click.command(
    "break",
    short_help="Take a lease away from its owner.",
    epilog="Exit codes: 0 when it is gone, 1 when it was not that owner's.\n\n"
    "Example:  sqllease break nightly --owner db7-4711-f3a9...",
)
@source_options
@click.option("--owner", required=True, help="The owner that you saw: a lease that somebody else got meanwhile stays.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@click.argument("name")
def break_lease(source: Source, owner: str, yes: bool, name: str) -> None:
    """Takes the lease NAME away from the owner that you saw, and from nobody else.

    Not safe by itself: the holder learns of it at its next renewal, and may work until then. Whether somebody else may
    start meanwhile is your decision.
    """
    with reported(), source.opened() as store:
        info = store.get(name)
    if info is None:
        complain(f"there is no lease {name!r}")
        raise SystemExit(_NOT_THERE)
    if info.owner_id != owner:
        complain(f"lease {name!r} is not {owner}'s: its owner is {info.owner_id}; nothing was changed")
        raise SystemExit(_NOT_THERE)
    if not yes:
        click.echo(_consequence(info))
        click.confirm(f"Take lease {name!r} away from {owner}?", abort=True)
    with reported(), source.opened() as store:
        gone = store.break_lease(name, owner)
    if gone is None:
        complain(f"lease {name!r} was no longer {owner}'s; nothing was changed")
        raise SystemExit(_NOT_THERE)
    click.echo(f"lease {name!r} is free")
    if yes:
        click.echo(_consequence(gone))


def _consequence(info: LeaseInfo) -> str:
    if info.resting:
        return f"Nobody holds it: it rests until {clock_time(info.expires_at)}, and could be taken before that."
    if info.expired:
        return "It has expired already: nobody may believe in it any more."
    return (
        f"Its holder may still believe that it holds it until {clock_time(info.expires_at)} "
        f"({length(info.remaining)}), and work on."
    )


@click.command(short_help="Delete rows that expired long ago.", epilog="Example:  sqllease purge --older-than 86400")
@source_options
@click.option(
    "--older-than", type=SECONDS, default=3600.0, metavar="S", show_default=True, help="Expired for at least so long."
)
def purge(source: Source, older_than: float) -> None:
    """Deletes the rows that have been expired for long, in small batches that wait for nobody.

    A row that somebody has locked is left for the next time. --older-than must not be below the largest takeover_grace
    that is used on the table: in its grace an expired row still keeps others waiting.
    """

    def progress(total: int) -> None:
        if sys.stderr.isatty():
            click.echo(f"\r{total} deleted", nl=False, err=True)

    with reported(), source.opened() as store:
        total = store.purge(older_than, progress=progress)
    if total and sys.stderr.isatty():
        click.echo("\r", nl=False, err=True)
    click.echo(f"{total} deleted")
