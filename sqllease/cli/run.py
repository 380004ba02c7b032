"""``sqllease run``: the options, what they must not be, and what is said when nothing runs."""

from __future__ import annotations

import logging
from collections.abc import Callable

import click

from sqllease.answers import LeaseInfo
from sqllease.errors import LeaseError, LeaseNotAcquired, LeaseValueError
from sqllease.lease import SqlLease
from sqllease.options import LeaseOptions

from .screen import DATABASE_TROUBLE, clock_time, complain
from .source import SECONDS, Source, source_options
from .supervisor import Plan, Stopped, Supervisor, supported

NOT_ACQUIRED = 75

_CODES = f"""\b
Exit codes:
  the command's own; 128+n when signal n ended it
  {NOT_ACQUIRED}   somebody else holds the lease: the command did not run (-E)
  {DATABASE_TROUBLE}   the database failed: the command did not run (--on-db-error)
  73   the lease was lost: the command was stopped
  124  --max-runtime was over
  126  the command cannot be executed; 127: it was not found
  71   no process could be started; 2: wrong options

\b
Example:
  sqllease run --name nightly --hold-at-least 60 -- /opt/app/report --all
"""


@click.command(
    short_help="Run a command while holding a lease.",
    context_settings={"allow_interspersed_args": False},
    epilog=_CODES,
)
@source_options
@click.option("--name", required=True, help="The lease: whoever uses the same name excludes each other.")
@click.option(
    "--wait", type=SECONDS, default=0.0, metavar="S", help="Wait so long for the lease; by default not at all."
)
@click.option(
    "--duration",
    type=SECONDS,
    default=30.0,
    metavar="S",
    show_default=True,
    help="How long others wait when this host dies. The lease is renewed while the command runs.",
)
@click.option(
    "--hold-at-least",
    type=SECONDS,
    default=0.0,
    metavar="S",
    help="Keep others out for so long, even when the command ends sooner. For cron: longer than your hosts' clocks "
    "differ, shorter than the period.",
)
@click.option("--max-runtime", type=SECONDS, metavar="S", help="Stop the command after so long: exit code 124.")
@click.option(
    "--grace",
    type=SECONDS,
    metavar="S",
    help="Between TERM and KILL. A lease that cannot be renewed ends the command so long before its own end. "
    "[default: a sixth of the duration]",
)
@click.option("--safety-margin", type=SECONDS, metavar="S", help="See the README. [default: a tenth of the duration]")
@click.option(
    "-E",
    "--not-acquired-code",
    type=click.IntRange(0, 255),
    default=NOT_ACQUIRED,
    metavar="CODE",
    show_default=True,
    help="Exit code when somebody else holds the lease.",
)
@click.option(
    "--on-db-error",
    type=click.Choice(["fail", "skip", "run"]),
    default="fail",
    show_default=True,
    help=f"The database failed: fail: exit {DATABASE_TROUBLE}; skip: as if somebody else held it; run: run the command "
    "without a lease.",
)
@click.option(
    "--child-only", is_flag=True, help="Release when the command itself ends, even if it left processes behind."
)
@click.option("--metadata", help="Free text for who looks at the table.")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing, except when the database failed.")
@click.argument("command", nargs=-1, required=True, type=click.UNPROCESSED, metavar="-- COMMAND [ARGUMENT]...")
@click.pass_context
def run(
    ctx: click.Context,
    source: Source,
    name: str,
    wait: float,
    duration: float,
    hold_at_least: float,
    max_runtime: float | None,
    grace: float | None,
    safety_margin: float | None,
    not_acquired_code: int,
    on_db_error: str,
    child_only: bool,
    metadata: str | None,
    quiet: bool,
    command: tuple[str, ...],
) -> None:
    """Runs COMMAND only while it holds the lease NAME, and renews until COMMAND and all that it started have ended.

    The lease cannot be renewed: TERM to COMMAND's process group, then KILL, before anybody else can get the lease.
    This process is killed: on Linux a guard process does the same. TERM, INT, HUP and QUIT go to the group; the lease
    is released after the group has ended.

    COMMAND gets SQLLEASE_NAME, SQLLEASE_OWNER and SQLLEASE_TOKEN, and no connection string. A process that leaves the
    group (setsid) is not watched.
    """
    if not supported():
        raise click.ClickException("'run' needs process groups, which this system does not have")

    def tell(text: str) -> None:
        if not quiet:
            complain(f"{name}: {text}")

    _log_to_stderr(quiet)
    chosen_grace = duration / 6 if grace is None else grace
    plan = Plan(name, command, wait, chosen_grace, max_runtime, child_only)
    supervisor = Supervisor(plan, tell)
    try:
        options = LeaseOptions(duration, hold_at_least=hold_at_least, safety_margin=safety_margin)
        _check_grace(options, chosen_grace)
        lease = SqlLease(name, source.store(max_connections=2), metadata=metadata, options=options)
    except LeaseValueError as error:
        raise click.UsageError(str(error)) from None
    supervisor.prepare()
    try:
        code = _run(supervisor, lease, tell, name, not_acquired_code, on_db_error)
    except Stopped as stopped:
        tell(f"stopped ({stopped}) before the command began")
        code = stopped.code
    finally:
        supervisor.finish()
    ctx.exit(code)


def _run(
    supervisor: Supervisor,
    lease: SqlLease,
    tell: Callable[[str], None],
    name: str,
    not_acquired_code: int,
    on_db_error: str,
) -> int:
    try:
        supervisor.acquire(lease)
    except LeaseNotAcquired as error:
        tell(f"not run: {_who(error.holder)}")
        return not_acquired_code
    except LeaseValueError as error:
        raise click.UsageError(str(error)) from None
    except LeaseError as error:
        consequence = {"fail": "not run", "skip": "skipped", "run": "running WITHOUT a lease"}[on_db_error]
        complain(f"{name}: {consequence}, the database failed: {error}")
        if on_db_error != "run":
            return not_acquired_code if on_db_error == "skip" else DATABASE_TROUBLE
    return supervisor.run()


def _who(holder: LeaseInfo | None) -> str:
    if holder is None:
        return "somebody else has the lease"
    state = "the lease rests, last held by" if holder.resting else "the lease is held by"
    return f"{state} {holder.owner_id} since {clock_time(holder.acquired_at)}, until {clock_time(holder.expires_at)}"


def _check_grace(options: LeaseOptions, grace: float) -> None:
    interval = options.duration / 3
    if not grace + options.safety_margin < options.duration - interval:
        raise LeaseValueError(
            f"grace ({grace:g} s) + safety margin ({options.safety_margin:g} s) must be below "
            f"duration − renew interval ({options.duration:g} − {interval:g} s): else there is no time to stop it"
        )


class _OneLine(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        """One line, without the stack of its cause. Whoever logs must not fail with it."""
        try:
            complain(record.getMessage())
        except Exception:  # noqa: BLE001
            self.handleError(record)


def _log_to_stderr(quiet: bool) -> None:
    log = logging.getLogger("sqllease")
    log.propagate = False
    log.addHandler(logging.NullHandler() if quiet else _OneLine(logging.WARNING))
