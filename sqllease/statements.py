"""The statements of one lease table: the text from ``sql/*.sql``, and the parameters bound to it.

Everything a value could do to a statement is decided here: identifiers are quoted, values are always parameters, and
each text parameter has one declared length, so that no name length makes a plan of its own. Knows no connection and no
clock.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from importlib import resources

from .answers import ANSWER_COLUMNS, FENCE_COLUMNS, INFO_COLUMNS, REPLICA_COLUMNS
from .names import LEASE_NAME_UNITS, METADATA_UNITS, OWNER_ID_UNITS, TableName, resting_owner
from .options import LeaseOptions

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


def _split(seconds: float) -> tuple[int, int]:
    """Whole seconds and microseconds: DATEADD takes an int."""
    return divmod(round(seconds * 1_000_000), 1_000_000)


def _text(value: str, units: int) -> tuple[str, int]:
    return value, units


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
        rooms = ("prelude", "acquire", "answer", "sweep") if sweep else ("prelude", "acquire", "answer")
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
            int(metadata is not None),
            *_split(options.duration),
            *_split(options.hold_at_least),
            *_split(options.takeover_grace),
            _text(last or "", TENURE_UNITS),
            int(keep),
        )

    def renew(self, name: str, owner_id: str, tenure: str, options: LeaseOptions) -> Statement:
        """UPDATE of the one row of this tenure, while it is unexpired."""
        return self._bind(
            self._text(("prelude", "renew", "answer"), options.lock_timeout),
            ANSWER_COLUMNS,
            *_key(name, owner_id, tenure),
            *_split(options.duration),
        )

    def release(self, name: str, owner_id: str, tenure: str, options: LeaseOptions, *, rest: bool) -> Statement:
        """DELETE of the one row of this tenure; with ``rest`` it stays, resting, until its hold has passed."""
        return self._bind(
            self._text(("prelude", "release", "answer"), options.lock_timeout),
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
        return self._bind(self._text(("replica",), 0), REPLICA_COLUMNS, _text(name, LEASE_NAME_UNITS))

    def get(self, name: str) -> Statement:
        """One row, read without a lock."""
        return self._bind(
            self._text(("inspect",), 0, filter="WHERE t.LeaseName = ?"), INFO_COLUMNS, _text(name, LEASE_NAME_UNITS)
        )

    def list(self) -> Statement:
        """All rows in the order of their names, read without a lock."""
        return self._bind(self._text(("inspect",), 0, filter=""), INFO_COLUMNS)

    def break_lease(self, name: str, owner_id: str, lock_timeout: float) -> Statement:
        """DELETE of the row of this owner, resting or not; the answer is the row that went."""
        return self._bind(
            self._text(("prelude", "break"), lock_timeout),
            INFO_COLUMNS,
            _text(name, LEASE_NAME_UNITS),
            _text(owner_id, OWNER_ID_UNITS),
            _text(resting_owner(owner_id), OWNER_ID_UNITS),
        )

    def purge(self, older_than: float, limit: int, lock_timeout: float) -> Statement:
        """DELETE of at most ``limit`` rows that have been expired for ``older_than`` seconds; the answer is how
        many.
        """
        return self._bind(self._text(("prelude", "purge"), lock_timeout), ("Deleted",), *_split(older_than), limit)

    def _text(self, rooms: tuple[str, ...], lock_timeout: float, **values: object) -> str:
        key = (rooms, lock_timeout, *values.values())
        if key not in self._texts:
            self._texts[key] = render(
                *rooms, table=self.table, lock_timeout_ms=max(1, round(lock_timeout * 1000)), **values
            )
        return self._texts[key]

    def _bind(self, text: str, columns: tuple[str, ...], *parameters: tuple[str, int] | int) -> Statement:
        return Statement(
            text,
            tuple(parameter[0] if isinstance(parameter, tuple) else parameter for parameter in parameters),
            tuple(parameter[1] if isinstance(parameter, tuple) else None for parameter in parameters),
            columns,
        )


def _key(name: str, owner_id: str, tenure: str) -> tuple[tuple[str, int], ...]:
    return _text(name, LEASE_NAME_UNITS), _text(owner_id, OWNER_ID_UNITS), _text(tenure, TENURE_UNITS)
