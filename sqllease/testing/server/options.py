"""SET: which options there are, what they may be, and what @@OPTIONS makes of them.

An option that changes nothing here is accepted with the value that it has in effect, and refused with any other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from . import security, syntax
from .errortexts import sql_error
from .sqltypes import Value, unsupported

if TYPE_CHECKING:
    from .session import Session


@dataclass(slots=True)
class Options:
    """A session's options; times in milliseconds, -1 waits for ever, rowcount 0 is no limit."""

    nocount: bool = False
    xact_abort: bool = False
    implicit: bool = False
    ansi_warnings: bool = True
    rowcount: int = 0
    isolation: str = "READ COMMITTED"
    lock_timeout: int = -1
    deadlock_priority: int = 0
    identity_insert: tuple[str, str] | None = None

    def copy(self) -> Options:
        return replace(self)

    @property
    def bits(self) -> int:
        """@@OPTIONS: those that are always on here are ANSI_PADDING, ANSI_NULLS, ARITHABORT, QUOTED_IDENTIFIER,
        ANSI_NULL_DFLT_ON and CONCAT_NULL_YIELDS_NULL."""
        changing = 2 * self.implicit + 8 * self.ansi_warnings + 512 * self.nocount + 16384 * self.xact_abort
        return changing + 16 + 32 + 64 + 256 + 1024 + 4096


_SWITCHES = {
    "NOCOUNT": ("nocount",),
    "XACT_ABORT": ("xact_abort",),
    "IMPLICIT_TRANSACTIONS": ("implicit",),
    "ANSI_WARNINGS": ("ansi_warnings",),
    "ANSI_DEFAULTS": ("ansi_warnings", "implicit"),
}
_ALWAYS_ON = frozenset(
    "ANSI_NULLS ANSI_PADDING ANSI_NULL_DFLT_ON ARITHABORT CONCAT_NULL_YIELDS_NULL QUOTED_IDENTIFIER".split()
)
_ALWAYS_OFF = frozenset(
    """ANSI_NULL_DFLT_OFF ARITHIGNORE NUMERIC_ROUNDABORT FMTONLY NOEXEC PARSEONLY FORCEPLAN NO_BROWSETABLE
    REMOTE_PROC_TRANSACTIONS SHOWPLAN_ALL SHOWPLAN_TEXT SHOWPLAN_XML""".split()
)
_WITHOUT_EFFECT = frozenset("TEXTSIZE QUERY_GOVERNOR_COST_LIMIT CURSOR_CLOSE_ON_COMMIT".split())
_IN_EFFECT: dict[str, tuple[Value, ...]] = {
    "LANGUAGE": ("US_ENGLISH", "ENGLISH"),
    "DATEFORMAT": ("MDY",),
    "DATEFIRST": (7,),
}
_PRIORITIES = {"LOW": -5, "NORMAL": 0, "HIGH": 5}


def set_option(session: Session, node: syntax.SetOption, value: Value) -> None:
    options, name, on = session.options, node.name, value == "ON"
    refused = unsupported(f"SET {name} {value if isinstance(value, str) else repr(value)}")
    if name == "TRANSACTION ISOLATION LEVEL":
        session.set_isolation(str(value))
    elif name in _SWITCHES and (on or name != "ANSI_DEFAULTS"):  # OFF would also switch off what is always on
        for attribute in _SWITCHES[name]:
            setattr(options, attribute, on)
    elif node.table is not None:
        table = session.find_table(node.table)
        security.require(session, "ALTER", table)
        place = table.schema.lower(), table.name.lower()
        if on and options.identity_insert not in (None, place):
            raise sql_error(8107, ".".join(options.identity_insert or ()), table.name)
        options.identity_insert = place if on else None
    elif name == "DEADLOCK_PRIORITY":
        level = _PRIORITIES.get(str(value), value)
        if not isinstance(level, int) or not -10 <= level <= 10:
            raise refused
        options.deadlock_priority = level
    elif name == "LOCK_TIMEOUT" and isinstance(value, int) and -1 <= value < 2**31:
        options.lock_timeout = value
    elif name == "ROWCOUNT" and isinstance(value, int) and 0 <= value < 2**31:
        options.rowcount = value
    elif not (
        name in _WITHOUT_EFFECT
        or (on and name in _ALWAYS_ON)
        or (value == "OFF" and name in _ALWAYS_OFF)
        or value in _IN_EFFECT.get(name, ())
    ):
        raise refused
