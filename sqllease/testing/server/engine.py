"""The engine behind the wire: one instance with its databases, logins and sessions.

Ties storage, scheduler and clock together and lets users in. Knows nothing of sockets.
"""

from __future__ import annotations

from typing import Any

from . import security
from .clock import ServerClock
from .errortexts import sql_error
from .locks import LockManager
from .scheduler import Scheduler
from .session import Session
from .sqltypes import LoginRequest, SqlError, Work
from .storage import Database, Instance


class LoginRefused(SqlError):
    """The first of several errors; ``errors`` has all of them in order."""

    def __init__(self, *errors: SqlError) -> None:
        first = errors[0]
        super().__init__(first.number, first.message, severity=first.severity, state=first.state)
        self.errors = list(errors)


class Engine:
    def __init__(
        self,
        *,
        database: str = "app",
        seed: int = 0,
        clock: ServerClock | None = None,
        user: str = "sa",
        password: str = "",
        collation: str = "SQL_Latin1_General_CP1_CI_AS",
        name: str = "stand-in",
    ) -> None:
        self.name: str = name
        self.clock = clock or ServerClock()
        self.scheduler = Scheduler(self.clock, seed)
        self.instance = Instance(self.clock, self.scheduler)
        self.sessions: dict[int, Session] = {}
        self.plans: dict[Any, Any] = {}
        self.version = 0
        """Counts changes of definitions and rights: what was bound before is bound anew."""
        self.logins = {user.lower(): security.Login(user, password, sysadmin=True)}
        self.quiet = _Quiet()
        silent = Instance(self.clock, _Unhurried(self.clock))
        silent.locks = _NoLocks(silent.scheduler)
        self.local = silent
        self.private = silent.create_database("tempdb", collation)
        for name in ("master", "tempdb", database):
            if name.lower() not in self.instance.databases:
                self.create_database(name, collation)
        self.default = self.instance.databases[database.lower()]
        self._last_session = 50

    def create_database(self, name: str, collation: str = "SQL_Latin1_General_CP1_CI_AS") -> Database:
        database = self.instance.create_database(name, collation)
        database.extra["security"] = security.DatabaseSecurity()
        database.schemas.update(
            {
                "dbo": ("dbo", 1, "dbo"),
                "sys": ("sys", 4, "sys"),
                "information_schema": ("INFORMATION_SCHEMA", 3, "INFORMATION_SCHEMA"),
            }
        )
        return database

    def changed(self) -> None:
        """A definition may have changed (or come back)."""
        self.version += 1

    def login(self, request: LoginRequest) -> Session:
        """Raises 18456, after 4060 where it was the database that could not be opened."""
        refused = sql_error(18456, request.user)
        login = self.logins.get(request.user.lower())
        if login is None or login.password != request.password:
            raise refused
        self._last_session += 1
        session = Session(self, self._last_session, login.name, self.default, request)
        try:
            session.database = self.first_database(session)
        except SqlError:
            wanted = request.database or self.default.name
            raise LoginRefused(sql_error(4060, wanted), refused) from None
        self.sessions[session.id] = session
        return session

    def first_database(self, session: Session) -> Database:
        return security.enter(session, session.requested.database or self.default.name)


class _Quiet:
    """The session of table variables: nobody waits for it, and its work counts for nobody."""

    id = 0
    lock_timeout = -1
    deadlock_priority = 0

    def __init__(self) -> None:
        self.work = Work()


class _Unhurried(Scheduler):
    def pause(self) -> None:
        """Nobody else can see a table variable."""


class _NoLocks(LockManager):
    """Grants everything: one session alone reaches what it guards."""

    def acquire(self, owner: Any, resource: Any, mode: str, *, lasting: bool = True) -> str | None:
        held: str | None = owner.held.get(resource)
        owner.held[resource] = mode
        return held

    def try_acquire(self, owner: Any, resource: Any, mode: str, *, lasting: bool = True) -> bool:
        owner.held[resource] = mode
        return True

    def release(self, owner: Any, resource: Any, to: str | None = None) -> None:
        owner.held.pop(resource, None)

    def release_all(self, owner: Any) -> None:
        owner.held.clear()
