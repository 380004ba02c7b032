"""One client message being answered, as a task of the scheduler: its calls run in turn, and the faults that it meets.

Knows the engine's session and the answer it fills; knows no sockets: how it ended is for the link to carry out.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from enum import Enum
from typing import Protocol

from .engine import Engine
from .faults import Fault, Faults, Hold
from .messages import Call
from .requestlog import Request, RequestLog
from .session import Cancelled, Session
from .sqltypes import SqlError, Value, Work
from .tokens import Answer

_logger = logging.getLogger(__name__)
_CONNECTION_RESET = 18  # type of ENVCHANGE


class Host(Protocol):
    """What an exchange needs of its server."""

    engine: Engine
    log: RequestLog
    faults: Faults

    @property
    def loop(self) -> asyncio.AbstractEventLoop: ...


class Outcome(Enum):
    ANSWER = "send the answer"
    HALF = "send half of it, then cut the link"
    CUT = "cut the link"
    SILENCE = "answer nothing on this link any more"


class _EndedByFaultError(Exception):
    """There is nothing more to do."""


class Exchange:
    """One message, from its arrival to its answer. ``prepared``: the session's statements by handle, kept up here."""

    def __init__(
        self, host: Host, session: Session, calls: list[Call], prepared: dict[Value, str], *, reset: bool
    ) -> None:
        self.answer = Answer()
        self.outcome = Outcome.ANSWER
        self.interrupted = False
        """An attention came while it ran."""
        self.cancelled = False
        """It was cut short, by that or by the end of the link: the answer is incomplete."""
        self.held = False
        """A fault keeps it back."""
        self._host, self._session, self._calls, self._prepared = host, session, calls, prepared
        self._reset = reset
        self._shown = now = host.engine.clock.now()
        """The server's clock before the log showed what a delay follows: the arrival, later the end of execution."""
        self._entries = [call.entry(session.id, now, prepared, same_message=n > 0) for n, call in enumerate(calls)]

    def start(self, when_done: Callable[[], None]) -> None:
        """Begins as a task; ``when_done`` is called from the event loop once it has ended."""
        for entry in self._entries:
            self._host.log.add(entry)
        self._task = self._host.engine.scheduler.spawn(self._run)

        def ended() -> None:
            self._conclude(self._task.error)
            self._host.loop.call_soon(when_done)

        self._task.on_done = ended

    def interrupt(self) -> None:
        self._task.interrupt(Cancelled())

    def _run(self) -> None:
        try:
            refusal = self._meet("before")
            if self._reset:
                self._session.reset()
                self.answer.environment(_CONNECTION_RESET, b"\x00")
            for call, entry in zip(self._calls, self._entries, strict=True):
                self._answer(call, entry, refusal)
            self._meet("after")
            if self._host.faults.take("middle", self._entries) is not None:
                self.outcome = Outcome.HALF
        except _EndedByFaultError:
            pass

    def _answer(self, call: Call, entry: Request, refusal: Fault | None) -> None:
        session, answer = self._session, self.answer
        answer.begin(procedure=call.kind == "rpc")
        try:
            if refusal is not None:
                _refuse(session, refusal, answer)
            else:
                _execute(session, call, answer)
        finally:
            self._shown = self._host.engine.clock.now()
            raised = session.raised if refusal is None else [error.number for error in refusal.errors]
            self._host.log.finish(entry, list(raised), session.work)
        if entry.procedure in ("sp_prepare", "sp_prepexec"):
            self._prepared[answer.returned] = entry.text
        answer.end(last=call is self._calls[-1])

    def _conclude(self, error: BaseException | None) -> None:
        for entry in self._entries:
            if not entry.finished:
                self._host.log.finish(entry, [], Work())
        if isinstance(error, Cancelled):
            self.cancelled = True
        elif error is not None:
            _logger.error("the engine failed", exc_info=error)
            self.answer.error(SqlError(3624, f"A system assertion check has failed: {error!r}", severity=20))
            self.answer.end()

    # faults

    def _meet(self, when: str) -> Fault | None:
        """Lets the fault strike that waits here; gives it back when it is an error to answer with."""
        fault = self._host.faults.take(when, self._entries)
        if fault is None or fault.errors:
            return fault
        if fault.action == "delay":
            self._host.engine.scheduler.block(round(fault.seconds * 1000), since=self._shown.ticks)
        elif fault.action == "hold":
            self._keep_back(fault.hold)
        else:
            self._end(Outcome.SILENCE if fault.action == "silence" else Outcome.CUT)
        return None

    def _keep_back(self, hold: Hold) -> None:
        scheduler, task = self._host.engine.scheduler, self._task

        def wake() -> None:
            if self.held:
                scheduler.wake(task)

        def decided() -> None:
            self._host.loop.call_soon_threadsafe(wake)

        self.held = True
        hold.meet(decided)
        while hold.decision is None:
            scheduler.block(None)
        self.held = False
        if not hold.decision:
            self._end(Outcome.CUT)

    def _end(self, outcome: Outcome) -> None:
        self.outcome = outcome
        raise _EndedByFaultError


def _execute(session: Session, call: Call, answer: Answer) -> None:
    if call.kind == "batch":
        session.run_batch(call.text, answer)
    elif call.kind == "rpc":
        session.run_rpc(call.procedure, call.parameters, answer)
    elif call.kind == "begin":
        session.begin(call.isolation, answer)
    elif call.kind == "commit":
        session.commit(call.begin_next, answer)
    else:
        session.rollback(call.begin_next, answer)


def _refuse(session: Session, fault: Fault, answer: Answer) -> None:
    if fault.action == "error and rollback" and session.transaction_descriptor:
        session.rollback(False, answer)
    for error in fault.errors:
        answer.error(error)
