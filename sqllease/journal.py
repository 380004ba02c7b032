"""What the log says, and how loud: one line that tells who holds what until when.

A lost try is DEBUG, a change of holder INFO, a first failed renew WARNING, a loss ERROR. Normal contention never
shouts.
"""

from __future__ import annotations

import logging
from datetime import datetime

from .answers import Done, LeaseInfo
from .errors import LeaseError

log = logging.getLogger("sqllease")


def _until(moment: datetime | None) -> str:
    return "?" if moment is None else moment.isoformat(timespec="milliseconds")


def _who(info: LeaseInfo | None) -> str:
    if info is None:
        return "its row is gone"
    state = "it rests" if info.resting else "expired" if info.expired else "held"
    return f"{state}, owner {info.owner_id}, until {_until(info.expires_at)}"


def acquired(name: str, owner: str, done: Done, token: int) -> None:
    """A new tenure has begun."""
    if not log.isEnabledFor(logging.INFO):
        return
    origin = "free" if done.previous_owner is None else f"taken over from {done.previous_owner!r}"
    log.info("lease %r: acquired by %s until %s, token %d (%s)", name, owner, _until(done.expires_at), token, origin)


def refreshed(name: str, owner: str, done: Done) -> None:
    """An acquire or renew has prolonged the tenure."""
    if log.isEnabledFor(logging.DEBUG):
        log.debug("lease %r: renewed by %s until %s", name, owner, _until(done.expires_at))


def refused(name: str, owner: str, holder: LeaseInfo, before: LeaseInfo | None) -> None:
    """Another owner has it; INFO when that is another one than at the last try."""
    changed = before is not None and before.owner_id != holder.owner_id
    level = logging.INFO if changed else logging.DEBUG
    if log.isEnabledFor(level):
        log.log(level, "lease %r: not acquired by %s: %s", name, owner, _who(holder))


def lost(name: str, owner: str, seen: LeaseInfo | None) -> None:
    """A renew found that the tenure has ended."""
    log.error("lease %r: lost by %s: %s", name, owner, _who(seen))


def renew_failed(name: str, owner: str, error: LeaseError, remaining: float, *, first: bool) -> None:
    """A renew got no answer; the tenure may go on."""
    level = logging.WARNING if first else logging.DEBUG
    log.log(level, "lease %r: renew by %s failed, %.1f s of it left: %s", name, owner, remaining, error)


def released(name: str, owner: str, *, was_ours: bool) -> None:
    """A release was answered."""
    if was_ours:
        log.info("lease %r: released by %s", name, owner)
    else:
        log.debug("lease %r: nothing to release for %s", name, owner)


def giving_back(name: str, owner: str, reason: str) -> None:
    """A won lease is about to be given back."""
    log.warning("lease %r: to be given back by %s: %s", name, owner, reason)


def unconfirmed(name: str, owner: str, trouble: str, *, kept: bool) -> None:
    """No replica has shown a grant in time."""
    log.warning("lease %r: not confirmed for %s, %s: %s", name, owner, "kept" if kept else "given back", trouble)


def superseded(name: str, owner: str) -> None:
    """The replica shows a newer tenure than ours: ours was lost in a failover, or taken over."""
    log.error("lease %r: lost by %s: the replica shows a newer holder", name, owner)


def hold_lost(name: str, owner: str, reason: str, cause: BaseException | None) -> None:
    """A hold has ended under its work."""
    log.error("lease %r: hold lost by %s: %s", name, owner, reason, exc_info=cause)


def hold_ended(name: str, owner: str, error: Exception) -> None:
    """The work is done, but the release was not answered: the row is free when it expires, if it is not already."""
    log.warning("lease %r: the release by %s was not answered: %s", name, owner, error)


def listener_failed(name: str, error: BaseException) -> None:
    """A callback of the user has raised."""
    log.error("lease %r: a callback failed", name, exc_info=error)


def keep_alive_failed(error: LeaseError, failures: int) -> None:
    """A renewal got no answer; another try comes soon."""
    log.debug("keep-alive: try %d failed: %s", failures, error)


def campaign_failed(name: str, owner: str, error: BaseException, *, first: bool) -> None:
    """A candidate's question got no answer; it asks again. A traceback only for what is not the database's doing."""
    level = logging.WARNING if first else logging.DEBUG
    trace = None if isinstance(error, LeaseError) else error
    log.log(level, "lease %r: %s cannot campaign, and tries again: %s", name, owner, error, exc_info=trace)


def campaigns_again(name: str, owner: str) -> None:
    """The database answers a candidate again."""
    log.info("lease %r: %s campaigns: the database answers", name, owner)


def work_ended(name: str, owner: str, error: BaseException | None, *, told: bool) -> None:
    """The leader's work has returned. told: it was asked to stop, or its lease was lost."""
    if error is not None:
        log.error("lease %r: the work of leader %s failed, it steps down", name, owner, exc_info=error)
    else:
        how = "has stopped" if told else "has returned by itself"
        log.log(logging.INFO if told else logging.WARNING, "lease %r: the work of leader %s %s", name, owner, how)


def outlived(name: str, owner: str) -> None:
    """The leader's work goes on without a lease."""
    log.error(
        "lease %r: the work of %s has outlived the lease: others may lead beside it; end this process", name, owner
    )


def leaves_unreleased(name: str, owner: str, limit: float) -> None:
    """A resigning leader does not wait for its release any longer."""
    log.warning("lease %r: the release by %s took longer than %g s; nobody waits for it", name, owner, limit)


def leaves_unanswered(name: str, owner: str) -> None:
    """A resigning candidate does not wait for an answer any longer."""
    log.warning("lease %r: %s stops without an answer to its last question", name, owner)


def news_cut_off(name: str, owner: str) -> None:
    """An election has ended and does not wait for its on_new_leader any longer."""
    log.warning("lease %r: on_new_leader of %s is cut off, the election has ended", name, owner)


def not_left(name: str, error: Exception) -> None:
    """The end of a hold has failed by a bug; the row expires by itself."""
    log.error("lease %r: leaving it failed", name, exc_info=error)
