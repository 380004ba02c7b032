"""Application locks: sp_getapplock and sp_releaseapplock over the engine's own lock manager.

Knows owners (transaction or session), modes and return codes. Names compare binary, as in the original.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from . import security
from .errortexts import sql_error
from .locks import Owner
from .sqltypes import SqlError, unsupported

if TYPE_CHECKING:
    from .session import Session

_SHOWN = {"Shared": "S", "Update": "U", "Exclusive": "X", "IntentShared": "IS", "IntentExclusive": "IX"}
_MODES = {name.lower(): mode for name, mode in _SHOWN.items()}
GRANTED, GRANTED_AFTER_WAIT, TIMED_OUT, VICTIM, INVALID = 0, 1, -1, -3, -999


def _owner(session: Session, owner: str) -> Owner | None:
    return session.owner if owner.lower() == "session" else session.tx


def _known(owner: str) -> bool:
    return owner.lower() in ("session", "transaction")


def _member(session: Session, principal: str) -> bool:
    """Whether the principal exists and the session may lock for it: as a member, or as one of the owners."""
    there = security.of(session.database)
    if principal.lower() not in there.users and principal.lower() not in there.roles:
        return False
    return not {principal.lower(), "dbo", "db_owner"}.isdisjoint(security.principals(session, session.database))


def _place(session: Session, resource: str | None, principal: str | None) -> tuple[str, int, str, str]:
    """What the lock manager locks; an error, beside which the call returns -999, where that cannot be."""
    if resource is None:
        raise sql_error(1224, "xp_userlock")
    if principal is None:
        raise sql_error(1230, "xp_userlock")
    if not _member(session, principal):
        raise sql_error(1202, principal)
    return "APP", session.database.id, principal.lower(), resource[:255]


def acquire(
    session: Session, resource: str | None, mode: str, owner: str, timeout: int | None, principal: str | None
) -> int:
    """0 granted, 1 granted after a wait, -1 timed out, -3 deadlock victim, -999 wrong parameters."""
    wanted = _MODES.get(mode.lower())
    if wanted is None or timeout is None or timeout < -1 or not _known(owner):
        return INVALID
    if (holder := _owner(session, owner)) is None:
        return INVALID  # a transaction's lock without a transaction
    place = _place(session, resource, principal)
    waits, before = session.work.lock_waits, session.options.lock_timeout
    session.options.lock_timeout = timeout
    try:
        held = session.engine.instance.locks.acquire(holder, place, wanted)
    except SqlError as error:
        if error.number not in (1222, 1205):
            raise
        return TIMED_OUT if error.number == 1222 else VICTIM
    finally:
        session.options.lock_timeout = before
    session.applocks.setdefault(holder, {}).setdefault(place, []).append(held)
    return GRANTED if session.work.lock_waits == waits else GRANTED_AFTER_WAIT


def release(session: Session, resource: str | None, owner: str, principal: str | None) -> int:
    """0; error 1223 where the lock is not held. A lock got twice has to be released twice."""
    if not _known(owner):
        return INVALID
    holder = _owner(session, owner)
    place = _place(session, resource, principal)
    before = session.applocks.get(holder, {}).get(place) if holder is not None else None
    if holder is None or not before:
        raise sql_error(1223, principal, resource)
    session.engine.instance.locks.release(holder, place, before.pop())
    return 0


def mode(session: Session, principal: str, resource: str, owner: str) -> str:
    """APPLOCK_MODE: in which mode this owner has the lock, ``NoLock`` where it has not."""
    holder = _owner(session, owner) if _known(owner) and _member(session, principal) else None
    if holder is None:
        raise unsupported(f"APPLOCK_MODE for {principal}, {owner}")
    held = holder.held.get(("APP", session.database.id, principal.lower(), resource[:255]))
    shown = {short: name for name, short in _SHOWN.items()} | {None: "NoLock"}
    if held not in shown:
        raise unsupported(f"APPLOCK_MODE of {held}")
    return shown[held]
