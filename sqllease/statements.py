"""The statements of one lease table: the text from ``sql/*.sql``, and the parameters bound to it.

Everything a value could do to a statement is decided here: identifiers are quoted, values are always parameters, and
each text parameter has one declared length, so that no name length makes a plan of its own. Knows no connection and no
clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import resources
from typing import TypeAlias

from .answers import ANSWER_COLUMNS, FENCE_COLUMNS, INFO_COLUMNS, REPLICA_COLUMNS
from .names import LEASE_NAME_UNITS, METADATA_UNITS, OWNER_ID_UNITS, TableName, resting_owner
from .options import LeaseOptions

Parameter: TypeAlias = tuple[str | int, int | None]
"""A value, and the UTF-16 units that a text is declared with, None for a number."""

_CHANGE = ("session", "prelude")
_READS_S = 1.0
"""Reads take no row lock; they may meet a change of the table's schema."""
TENURE_UNITS = 34
"""``2026-11-29T14:00:00.1234567+00:00`` and one to spare."""


@dataclass(frozen=True, slots=True)
class Statement:
    """One batch. sizes: UTF-16 units that a text parameter is declared with, None for a number. columns: those of the
    result set that is the answer.
    """

    text: str
    parameters: tuple[str | int, ...] = ()
    sizes: tuple[int | None, ...] = ()
    columns: tuple[str, ...] = ()


@cache
def template(name: str) -> str:
    """The text of ``sql/name.sql``."""
    return resources.files(__package__).joinpath("sql", f"{name}.sql").read_text(encoding="utf-8")


def render(*names: str, **values: object) -> str:
    """The templates one after the other, each ``$(key)`` replaced. Values are identifiers, literals or numbers that
    are quoted already.
    """
    text = "\n".join(template(name) for name in names)
    # In one pass: a name that looks like a placeholder stays what it is.
    return re.sub(r"\$\((\w+)\)", lambda match: str(values[match[1]]), text)


@lru_cache(maxsize=64)
def _split(seconds: float) -> tuple[Parameter, Parameter]:
    """Whole seconds and microseconds: DATEADD takes an int."""
    whole, micro = divmod(round(seconds * 1_000_000), 1_000_000)
    return _number(whole), _number(micro)


def _text(value: str, units: int) -> Parameter:
    return value, units


def _number(value: int) -> Parameter:
    return value, None


class Statements:
    """All statements of one lease table."""

    def __init__(self, table: TableName) -> None:
        self.table = table
        self._texts: dict[tuple[object, ...], str] = {}

    def acquire(
        self,
        name: str,
        owner_id: str,
        metadata: str | None,
        options: LeaseOptions,
        *,
        last: str | None,
        keep: bool,
        sweep: bool,
    ) -> Statement:
        """MERGE of one row. last: the last tenure that the caller knows of; keep: it is still the caller's, refresh
        it.
        """
        rooms = (*_CHANGE, "acquire", "answer", "sweep") if sweep else (*_CHANGE, "acquire", "answer")
        return self._bind(
            self._text(
                rooms,
                options.lock_timeout,
                sweep_limit=options.sweep_limit,
                sweep_after_s=int(options.sweep_after) + 1,
            ),
            ANSWER_COLUMNS,
            _text(name, LEASE_NAME_UNITS),
            _text(owner_id, OWNER_ID_UNITS),
            _text(metadata or "", METADATA_UNITS),
            _number(int(metadata is not None)),
            *_split(options.duration),
            *_split(options.hold_at_least),
            *_split(options.takeover_grace),
            _text(last or "", TENURE_UNITS),
            _number(int(keep)),
        )

    def renew(self, name: str, owner_id: str, tenure: str, options: LeaseOptions) -> Statement:
        """UPDATE of the one row of this tenure, while it is unexpired."""
        return self._bind(
            self._text((*_CHANGE, "renew", "answer"), options.lock_timeout),
            ANSWER_COLUMNS,
            *_key(name, owner_id, tenure),
            *_split(options.duration),
        )

    def release(self, name: str, owner_id: str, tenure: str, options: LeaseOptions, *, rest: bool) -> Statement:
        """DELETE of the one row of this tenure; with ``rest`` it stays, resting, until its hold has passed."""
        return self._bind(
            self._text((*_CHANGE, "release", "answer"), options.lock_timeout),
            ANSWER_COLUMNS,
            *_key(name, owner_id, tenure),
            _text(resting_owner(owner_id), OWNER_ID_UNITS),
            *_split(options.hold_at_least if rest else 0.0),
        )

    def fence(self, name: str, owner_id: str, tenure: str) -> Statement:
        """The row of this tenure, locked until the end of the transaction that the caller has open."""
        return self._bind(self._text(("fence",), 0), FENCE_COLUMNS, *_key(name, owner_id, tenure))

    def look(self, name: str) -> Statement:
        """One row as a replica shows it, with what the database says of its role."""
        return self._bind(self._text(("session", "replica"), _READS_S), REPLICA_COLUMNS, _text(name, LEASE_NAME_UNITS))

    def get(self, name: str) -> Statement:
        """One row, read without a lock."""
        return self._bind(
            self._text(("session", "inspect"), _READS_S, filter="WHERE t.LeaseName = ?"),
            INFO_COLUMNS,
            _text(name, LEASE_NAME_UNITS),
        )

    def list(self) -> Statement:
        """All rows in the order of their names, read without a lock."""
        return self._bind(self._text(("session", "inspect"), _READS_S, filter=""), INFO_COLUMNS)

    def break_lease(self, name: str, owner_id: str, lock_timeout: float) -> Statement:
        """DELETE of the row of this owner, resting or not; the answer is the row that went."""
        return self._bind(
            self._text((*_CHANGE, "break"), lock_timeout),
            INFO_COLUMNS,
            _text(name, LEASE_NAME_UNITS),
            _text(owner_id, OWNER_ID_UNITS),
            _text(resting_owner(owner_id), OWNER_ID_UNITS),
        )

    def purge(self, older_than: float, limit: int, lock_timeout: float) -> Statement:
        """DELETE of at most ``limit`` rows that have been expired for ``older_than`` seconds; the answer is how
        many.
        """
        return self._bind(
            self._text((*_CHANGE, "purge"), lock_timeout), ("Deleted",), *_split(older_than), _number(limit)
        )

    def _text(self, rooms: tuple[str, ...], lock_timeout: float, **values: object) -> str:
        key = (rooms, lock_timeout, *values.values())
        if key not in self._texts:
            self._texts[key] = render(
                *rooms, table=self.table, lock_timeout_ms=max(1, round(lock_timeout * 1000)), **values
            )
        return self._texts[key]

    def _bind(self, text: str, columns: tuple[str, ...], *parameters: Parameter) -> Statement:
        values, sizes = zip(*parameters, strict=True) if parameters else ((), ())
        return Statement(text, values, sizes, columns)


def _key(name: str, owner_id: str, tenure: str) -> tuple[Parameter, ...]:
    return _text(name, LEASE_NAME_UNITS), _text(owner_id, OWNER_ID_UNITS), _text(tenure, TENURE_UNITS)
