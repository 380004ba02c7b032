"""Faults on demand: what a test asks to go wrong, and which request meets it.

A fault hits the first ``times`` matching requests after the first ``skip`` ones, counted over all links in the order
of arrival. ``matching`` is a part of the request's text or a predicate on it. Without a predicate, what drivers ask
on their own account is passed over: its time is not the application's choice, so a fault would not be deterministic.
Decides only; the link carries it out.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from .errortexts import sql_error
from .requestlog import Request
from .sqltypes import SqlError

Matching = str | Callable[[Request], object] | None


class Hold:
    """A request kept back, as if the network had it: whatever follows it on its link waits as well."""

    def __init__(self) -> None:
        self.held = threading.Event()
        """Set once a request is kept back."""
        self.decision: bool | None = None
        self._lock = threading.Lock()
        self._wake: Callable[[], None] | None = None

    def release(self) -> None:
        """Lets it go on, even if its client has gone meanwhile. Before a request has come: it will not be kept back."""
        self._decide(True)

    def cancel(self) -> None:
        """Throws it away unanswered and cuts the link."""
        self._decide(False)

    def meet(self, wake: Callable[[], None]) -> None:
        """Called by the link that keeps a request back: ``wake`` is called, in any thread, on the decision."""
        with self._lock:
            self._wake = wake
        self.held.set()

    def _decide(self, proceed: bool) -> None:
        with self._lock:
            if self.decision is not None:
                return
            self.decision = proceed
            wake = self._wake
        if wake is not None:
            wake()


@dataclass(eq=False, slots=True)
class Fault:
    """One order. ``action``: drop, delay, silence, error, error and rollback, hold, refuse."""

    action: str
    when: str
    times: int
    skip: int
    matching: Matching
    seconds: float = 0.0
    errors: Sequence[SqlError] = ()
    hold: Hold = field(default_factory=Hold)

    def matches(self, request: Request) -> bool:
        if callable(self.matching):
            return bool(self.matching(request))
        return not request.housekeeping and (self.matching is None or self.matching in request.text)


class Faults:
    """The faults of one server; its methods may be called from any thread."""

    def __init__(self, *, database: str = "", user: str = "") -> None:
        self._database, self._user = database, user
        self._lock = threading.Lock()
        self._faults: list[Fault] = []

    def refuse_login(self, number: int = 18456, message: str | None = None, *, times: int = 1, skip: int = 0) -> None:
        """Refuses logins with this error; 4060 (the database cannot be opened) is followed by 18456, as in reality."""
        if message is None and number in (18456, 4060):
            errors = [sql_error(4060, self._database)] if number == 4060 else []
            errors.append(sql_error(18456, self._user))
        else:
            errors = [SqlError(number, message or "No logins are possible at present.", severity=14)]
        self._add(Fault("refuse", "login", times, skip, None, errors=errors))

    def drop(self, when: str = "before", *, times: int = 1, skip: int = 0, matching: Matching = None) -> None:
        """Cuts the link. login: unanswered; before: read, not executed; after: executed and committed, not answered;
        middle: after half of the answer's bytes."""
        self._add(Fault("drop", _checked(when, "login", "before", "after", "middle"), times, skip, matching))

    def delay(
        self, seconds: float, when: str = "before", *, times: int = 1, skip: int = 0, matching: Matching = None
    ) -> None:
        """Lets time pass on the server's clock, before or after execution; an attention ends it."""
        self._add(Fault("delay", _checked(when, "before", "after"), times, skip, matching, seconds))

    def silence(self, when: str = "before", *, times: int = 1, skip: int = 0, matching: Matching = None) -> None:
        """Never answers anything on that link again; it stays open, its session lives on."""
        self._add(Fault("silence", _checked(when, "login", "before", "after"), times, skip, matching))

    def error(
        self,
        number: int,
        message: str = "Error on demand.",
        *,
        severity: int = 16,
        state: int = 1,
        rollback: bool | None = None,
        times: int = 1,
        skip: int = 0,
        matching: Matching = None,
    ) -> None:
        """Answers with this error instead of executing. ``rollback``: the transaction is rolled back as well (default:
        for 1205 only). Severity 20 and more ends the link."""
        errors = [SqlError(number, message, severity=severity, state=state)]
        action = "error and rollback" if (number == 1205 if rollback is None else rollback) else "error"
        self._add(Fault(action, "before", times, skip, matching, errors=errors))

    def hold(self, when: str = "before", *, skip: int = 0, matching: Matching = None) -> Hold:
        """Keeps one request back, before it is executed, or its answer after; the handle lets it go."""
        fault = Fault("hold", _checked(when, "before", "after"), 1, skip, matching)
        self._add(fault)
        return fault.hold

    def clear(self) -> None:
        """Forgets all faults that have not struck; what has struck stays."""
        with self._lock:
            self._faults.clear()

    def take(self, when: str, requests: Sequence[Request]) -> Fault | None:
        """The fault that these requests (one message) meet at this point; it is used up by that."""
        with self._lock:
            for fault in self._faults:
                if fault.when == when and any(map(fault.matches, requests)):
                    if fault.skip > 0:
                        fault.skip -= 1
                        continue
                    fault.times -= 1
                    if fault.times <= 0:
                        self._faults.remove(fault)
                    return fault
        return None

    def _add(self, fault: Fault) -> None:
        with self._lock:
            self._faults.append(fault)


def _checked(when: str, *allowed: str) -> str:
    if when not in allowed:
        raise ValueError(f"when must be one of {', '.join(allowed)}, not {when!r}")
    return when
