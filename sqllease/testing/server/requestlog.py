"""What clients asked of the server, in order, and what each request cost: logins, round trips, errors, work.

Written in the server's thread, read from any. Knows no wire: entries are plain data.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from .sqltypes import Moment, Work

HOUSEKEEPING = frozenset(("sp_datatype_info_100", "sp_describe_undeclared_parameters", "sp_unprepare"))
"""What drivers ask for on their own account, at times that the application does not choose."""


@dataclass(eq=False, slots=True)
class Request:
    """One thing that a client asked for. Errors and work are complete once ``finished`` is set; that of a close says
    that its session has ended too: rolled back, its locks free.

    kind: prelogin, login, batch, rpc, begin, commit, rollback, attention, close (the link has ended), or other (bulk
    load and the like, which are refused).
    text: the batch, or the statement in a call of sp_executesql, sp_prepare, sp_prepexec or sp_execute.
    parameters: the types of the statement's parameters as they came, such as nvarchar(6).
    errors: numbers of all errors that the engine raised, those included that T-SQL caught in TRY...CATCH.
    """

    kind: str
    session: int = 0
    text: str = ""
    procedure: str = ""
    parameters: tuple[str, ...] = ()
    time: Moment | None = None
    """The server's clock when the request came."""
    same_message: bool = False
    """A further procedure call in the message of the one before: no round trip of its own."""
    errors: list[int] = field(default_factory=list)
    work: Work = field(default_factory=Work)
    finished: bool = False

    @property
    def housekeeping(self) -> bool:
        """Whether the driver asked for it on its own account (types, parameter descriptions, unprepare)."""
        if self.kind == "batch":
            return self.text.split(" ", 1)[0] in HOUSEKEEPING
        return self.procedure in HOUSEKEEPING


ROUND_TRIPS = frozenset(("batch", "rpc", "begin", "commit", "rollback", "attention", "other"))


class RequestLog:
    """The log of one server."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._requests: list[Request] = []

    def add(self, request: Request) -> None:
        with self._changed:
            self._requests.append(request)
            self._changed.notify_all()

    def finish(self, request: Request, errors: list[int], work: Work) -> None:
        with self._changed:
            request.errors, request.work, request.finished = errors, work, True
            self._changed.notify_all()

    def clear(self) -> None:
        with self._changed:
            self._requests.clear()

    @property
    def requests(self) -> list[Request]:
        with self._changed:
            return list(self._requests)

    @property
    def round_trips(self) -> int:
        """Client messages after login that needed an answer, the driver's own included."""
        return sum(request.kind in ROUND_TRIPS and not request.same_message for request in self.requests)

    @property
    def logins(self) -> int:
        """Logins asked for, refused ones included."""
        return sum(request.kind == "login" for request in self.requests)

    @property
    def errors(self) -> list[int]:
        """Numbers of all errors, in the order of their requests."""
        return [number for request in self.requests for number in request.errors]

    def wait_for(self, predicate: Callable[[Request], object], timeout: float = 10.0) -> Request:
        """The first request for which the predicate is true, now or later; looked at again when it finishes.

        Raises TimeoutError after ``timeout`` seconds of real time.
        """
        deadline = time.monotonic() + timeout
        with self._changed:
            while True:
                for request in self._requests:
                    if predicate(request):
                        return request
                if not self._changed.wait(deadline - time.monotonic()):
                    raise TimeoutError(f"no such request within {timeout} s")
