"""What a text is while it runs: its compiled plan, and the context of one execution with its variables.

Plans may be shared by sessions, contexts are not. Knows nothing of what statements do.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from . import syntax
from .scopes import Frame, Row
from .sqltypes import Sink, SqlError, SqlType, Value
from .storage import Table

if TYPE_CHECKING:
    from .session import Session

Run = Callable[[Frame], Any]


@dataclass(slots=True)
class Plan:
    """A text with its declarations, compiled; may be shared by sessions."""

    statements: tuple[syntax.Statement, ...]
    parameters: tuple[syntax.ParameterDef, ...] = ()
    types: dict[str, SqlType | Table] = field(default_factory=dict)
    compiled: dict[int, Compiled] = field(default_factory=dict)


@dataclass(slots=True)
class Compiled:
    """A statement, bound. place: the database and the version of all definitions for which it was."""

    run: Run
    slots: int
    rights: list[tuple[Any, str]]
    starts_transaction: bool
    place: tuple[str, int]


class Tables(dict[str, Table]):
    """The table variables of one execution: each is made when it is first used."""

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context

    def __missing__(self, name: str) -> Table:
        shape = self.context.types[name]
        assert isinstance(shape, Table)
        table = self[name] = shape.copy(shape.database)
        return table


@dataclass(slots=True)
class Pseudo:
    """inserted and deleted, in a trigger."""

    table: Table
    inserted: list[Row]
    deleted: list[Row]

    def rows(self, which: str) -> list[Row]:
        return self.inserted if which == "inserted" else self.deleted


class Context:
    """One execution of one text: its variables, and where its results go."""

    def __init__(
        self, session: Session, plan: Plan, sink: Sink, pseudo: Pseudo | None = None, procedure: str = ""
    ) -> None:
        self.session = session
        self.plan = plan
        self.sink = sink
        self.pseudo = pseudo
        self.procedure = procedure
        self.types = plan.types
        self.variables: dict[str, Value] = {
            name: None for name, type in plan.types.items() if isinstance(type, SqlType)
        }
        self.tables = Tables(self)
        self.identity: int | None = None
        self.status = 0
        self.mismatch: SqlError | None = None
        """Error 266, for the caller to raise when it has taken what it wants."""

    @staticmethod
    def bare(session: Session) -> Context:
        """Without any variables: for what stands in a definition."""
        return Context(session, Plan(()), NULL_SINK)


class _Nowhere:
    """A sink for compiling: nothing is sent."""

    def __getattr__(self, name: str) -> Callable[..., None]:
        return lambda *args, **keywords: None


NULL_SINK: Any = _Nowhere()
