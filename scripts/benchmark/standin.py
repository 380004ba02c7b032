"""The stand-in in a process of its own, so that client and server share no interpreter lock, and what it has counted.

Knows how to start it and ask it. Knows nothing of what is measured.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Any, NamedTuple, Self

from sqllease import schema
from sqllease.testing import LocalSqlServer


class Counts(NamedTuple):
    """messages: from clients, after the login, that needed an answer; the driver's own housekeeping is among them."""

    messages: int
    logins: int
    errors: tuple[int, ...]


def _serve(pipe: Connection) -> None:
    with LocalSqlServer() as server:
        server.execute(schema.create_script())
        pipe.send(None)
        while (question := pipe.recv()) is not None:
            if isinstance(question, str):
                pipe.send(server.connection_string(driver=question))
            else:
                log = server.log
                counts = Counts(log.round_trips, log.logins, tuple(log.errors))
                log.clear()  # before the answer: who has it goes on
                pipe.send(counts)


class StandIn:
    """A started stand-in with a lease table in it. Use it in ``with``."""

    def __init__(self) -> None:
        # Not forked: the child has to start without any driver in it.
        processes = multiprocessing.get_context("spawn")
        self._pipe, theirs = processes.Pipe()
        self._process = processes.Process(target=_serve, args=(theirs,), name="stand-in", daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._pipe.send(None)
        self._process.join()

    def connection_string(self, driver: str) -> str:
        """For this driver: a name, or the path of a shared object."""
        return str(self._ask(driver))

    def counts(self) -> Counts:
        """What has been counted since the last call."""
        found = self._ask(True)
        assert isinstance(found, Counts)
        return found

    def _ask(self, question: object) -> Any:
        self._pipe.send(question)
        return self._pipe.recv()
