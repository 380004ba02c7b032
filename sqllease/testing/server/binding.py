"""The contract between expressions and what runs them: what is bound, and what it asks of its surroundings.

Knows types, labels of collation and the protocols. Knows neither how an expression is bound nor what a table is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

from . import syntax
from .sqltypes import Moment, SqlType, Value


class Rank(IntEnum):
    """Collation labels; the higher wins (collation precedence: explicit, no collation, implicit, coercible default)."""

    COERCIBLE = 0
    IMPLICIT = 1
    CONFLICT = 2  # "no collation": two implicit ones met; an error as soon as a collation is needed
    EXPLICIT = 3


Label = tuple[str, Rank]
"""A collation with its rank; under CONFLICT the text is ``A" and "B``, ready for the message."""


class Session(Protocol):
    """What functions ask of the session."""

    utc_offset_minutes: int  # of the server's own time zone: SYSDATETIME, GETDATE, SYSDATETIMEOFFSET

    def intrinsic(self, name: str, args: tuple[Value, ...]) -> Value:
        """The value of a function or global variable that depends on the session or the catalogue.

        name is upper case (``OBJECT_ID``, ``ERROR_NUMBER``, ``@@ROWCOUNT``); args are converted already, see
        ``signatures.INTRINSICS`` for parameter and result types; NULL arguments arrive as None.
        """


class Frame(Protocol):
    """What an expression is evaluated in. Scopes know more about it; expressions need only this."""

    @property
    def session(self) -> Session: ...

    @property
    def statement_time(self) -> Moment:
        """UTC, offset 0, taken once a statement."""


Evaluate = Callable[[Frame], Value]
Predicate = Callable[[Frame], bool | None]


@dataclass(frozen=True, slots=True)
class BoundColumn:
    """What a scope answers for a column (or for a node that it computes itself)."""

    type: SqlType
    collation: str | None
    get: Evaluate
    nullable: bool = True


class BoundQuery(Protocol):
    """A sub-query; rows are evaluated in the frame of the outer row."""

    @property
    def types(self) -> Sequence[SqlType]: ...

    @property
    def collations(self) -> Sequence[str | None]: ...

    @property
    def rows(self) -> Callable[[Any], Iterator[Sequence[Value]]]:
        """The rows in a frame (whichever kind of frame the scope runs in)."""


class Scope(Protocol):
    """Where names are looked up at binding time."""

    @property
    def collation(self) -> str:
        """The database's collation: that of literals, variables and results without a column."""

    def column(self, node: syntax.Column) -> BoundColumn:
        """Raises 207, 209 or 4104."""

    def variable(self, name: str) -> tuple[SqlType, Evaluate]:
        """Raises 137."""

    def query(self, query: syntax.Query) -> BoundQuery: ...

    def computed(self, node: syntax.Expr) -> BoundColumn | None:
        """Asked first for each node: an aggregate or GROUP BY expression that the query has computed, else None."""


@dataclass(frozen=True, slots=True)
class Bound:
    """An expression with its static type, and a closure that gives its value."""

    type: SqlType
    evaluate: Evaluate
    collation: Label | None = None  # of character types
    nullable: bool = True
    literal: syntax.Literal | None = None  # when it is a bare constant

    @property
    def untyped_null(self) -> bool:
        return self.literal is not None and self.literal.value is None
