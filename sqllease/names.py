"""What a lease name, an owner id, a schema or a table may be called, and how each is quoted.

Lengths are UTF-16 code units, as SQL Server counts nvarchar: an emoji is two. Names are compared byte for byte, so
everything that a server could read as equal to something else (blanks at the ends, other normal forms) is refused
here, before any I/O.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import secrets
import unicodedata
from dataclasses import dataclass

from .errors import LeaseValueError

LEASE_NAME_UNITS = 200
OWNER_ID_UNITS = 128
METADATA_UNITS = 1024
IDENTIFIER_UNITS = 128
APPLOCK_UNITS = 255

RESTING_MARK = "\x01"
"""First character of the owner of a resting row (hold-at-least). No valid owner id has a control character, so none
can equal it.
"""


def units(text: str) -> int:
    """Length in UTF-16 code units. Raises UnicodeEncodeError on a lone surrogate."""
    return len(text.encode("utf-16-le")) // 2


def _check_text(what: str, text: object, limit: int) -> str:
    if not isinstance(text, str):
        raise LeaseValueError(f"{what} must be a str, not {type(text).__name__}")
    try:
        length = units(text)
    except UnicodeEncodeError:
        raise LeaseValueError(f"{what} holds half of a surrogate pair, which is no character: {text!a}") from None
    if length > limit:
        raise LeaseValueError(f"{what} has {length} UTF-16 units; at most {limit} fit (an emoji counts as two)")
    if "\x00" in text:
        raise LeaseValueError(f"{what} holds a NUL character: {text!a}")
    return text


def _check_key(what: str, text: object, limit: int) -> str:
    checked = _check_text(what, text, limit)
    if not checked:
        raise LeaseValueError(f"{what} is empty")
    if checked != checked.strip():
        raise LeaseValueError(
            f"{what} begins or ends with a blank, which SQL Server does not see when it compares: {checked!a}"
        )
    if any(unicodedata.category(character) == "Cc" for character in checked):
        raise LeaseValueError(f"{what} holds a control character: {checked!a}")
    if not unicodedata.is_normalized("NFC", checked):
        raise LeaseValueError(
            f"{what} is not in Unicode's normal form C: unicodedata.normalize('NFC', ...) makes it so: {checked!a}"
        )
    return checked


def check_lease_name(name: object) -> str:
    """The name, if it is one: 1 to 200 UTF-16 units, NFC, no blank at either end, no control character. Else
    LeaseValueError.
    """
    return _check_key("a lease name", name, LEASE_NAME_UNITS)


def check_owner_id(owner_id: object) -> str:
    """The owner id, if it is one: as a lease name, but at most 128 UTF-16 units."""
    return _check_key("an owner id", owner_id, OWNER_ID_UNITS)


def check_metadata(metadata: object) -> str | None:
    """Free text of at most 1,024 UTF-16 units, or None."""
    return None if metadata is None else _check_text("metadata", metadata, METADATA_UNITS)


def resting_owner(owner_id: str) -> str:
    """The owner of a row that rests: the mark and who held it last, cut to the column between two characters."""
    room = (OWNER_ID_UNITS - 1) * 2
    kept = owner_id.encode("utf-16-le")[:room].decode("utf-16-le", errors="ignore").rstrip()
    return RESTING_MARK + kept


def new_owner_id() -> str:
    """``host:pid:random``. Only the 128 random bits make it unique: containers share host names and pids. The rest is
    for people.
    """
    host = re.sub(r"[^A-Za-z0-9._-]", "-", platform.node())[:60] or "host"
    return f"{host}:{os.getpid()}:{secrets.token_hex(16)}"


def quote_identifier(name: str) -> str:
    """``a]b`` -> ``[a]]b]``. The text is the name itself: ``[x]`` is a name of three characters."""
    return "[" + name.replace("]", "]]") + "]"


def quote_literal(text: str) -> str:
    """``o'hara`` -> ``N'o''hara'``."""
    return "N'" + text.replace("'", "''") + "'"


def applock_name(resource: object) -> str:
    """The name of an application lock: the resource, checked as a lease name but of any length. SQL Server silently
    cuts at 255 UTF-16 units, so one that is longer is cut here and ends in a hash of the whole.
    """
    return _fitted(_check_key("a resource", resource, APPLOCK_UNITS * 1000), APPLOCK_UNITS, 64)


def _fitted(name: str, limit: int, digits: int) -> str:
    if units(name) <= limit:
        return name
    digest = hashlib.sha256(name.encode()).hexdigest()[:digits]
    kept = name.encode("utf-16-le")[: 2 * (limit - digits - 1)].decode("utf-16-le", errors="ignore")
    return f"{kept}_{digest}"


def check_identifier(what: str, name: object) -> str:
    """The name, if it can be one: 1 to 128 UTF-16 units that do not end in a blank. Else LeaseValueError."""
    checked = _check_text(what, name, IDENTIFIER_UNITS)
    if not checked.strip():
        raise LeaseValueError(f"{what} is empty")
    if checked != checked.rstrip():
        raise LeaseValueError(f"{what} ends with a blank, which SQL Server does not see when it compares: {checked!a}")
    return checked


@dataclass(frozen=True, slots=True)
class TableName:
    """Schema and table of one lease table, and the names of the objects that belong to it. Any text of 1 to 128 UTF-16
    units is a name.
    """

    schema: str = "lease"
    table: str = "Leases"

    def __post_init__(self) -> None:
        check_identifier("a schema name", self.schema)
        check_identifier("a table name", self.table)
        if self.table.startswith("#"):
            raise LeaseValueError("a table name must not begin with #: each connection would have leases of its own")

    def __str__(self) -> str:
        return f"{quote_identifier(self.schema)}.{quote_identifier(self.table)}"

    def part(self, prefix: str, suffix: str = "") -> str:
        """Name of a key, check or index of the table: ``PK_Leases``. One that would be too long is cut and ends in a
        hash of the whole.
        """
        return _fitted(f"{prefix}_{self.table}{suffix}", IDENTIFIER_UNITS, 16)
