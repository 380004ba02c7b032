"""Act one: three contenders, a holder that is killed, a take-over after its lease has expired, an orderly handover.

Knows how the story goes and how it is told. What the contenders do is in ``contender``.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import threading
import time
from dataclasses import dataclass
from typing import Any, TextIO

from sqllease import LeaseStore

from . import contender

NAMES = ("ada", "bob", "cyd")
_LIMIT_S = 60.0


@dataclass
class Holding:
    """What one contender believed: from the acquire to the end of its lease."""

    who: str
    token: int
    began: float
    ended: float = float("inf")


class Handover:
    """The first act, told on ``out``."""

    def __init__(self, connection_string: str, out: TextIO) -> None:
        self._connection_string = connection_string
        self._out = out
        self._events: queue.Queue[tuple[str, dict[str, Any]]] = queue.Queue()
        self._began = time.time()
        self._processes: dict[str, subprocess.Popen[str]] = {}
        self.holdings: list[Holding] = []

    def play(self) -> bool:
        """Runs the act; True when every contender had its turn and no two turns overlapped."""
        lease_name = f"demo-{os.getpid()}"
        store = LeaseStore(self._connection_string)
        store.ensure_created()
        self._tell("", f"the table {store._table} is there; {', '.join(NAMES)} want the lease {lease_name!r}")
        try:
            for name in NAMES:
                self._start(name, lease_name)
            self._follow()
            left = store.get(lease_name)
            self._tell("", "no row is left" if left is None else f"a row is left: {left}")
        finally:
            for process in self._processes.values():
                process.kill()
                process.wait()
            store.close()
        return self._sum_up()

    def _start(self, name: str, lease_name: str) -> None:
        process = subprocess.Popen(
            [sys.executable, "-m", contender.__name__, name, lease_name],
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, contender.CONNECTION_VARIABLE: self._connection_string},
        )
        self._processes[name] = process
        threading.Thread(target=self._read, args=(name, process), daemon=True).start()

    def _read(self, name: str, process: subprocess.Popen[str]) -> None:
        assert process.stdout is not None
        for line in process.stdout:
            self._events.put((name, json.loads(line)))
        self._events.put((name, {"what": "gone", "at": time.time()}))

    def _follow(self) -> None:
        gone: set[str] = set()
        victim = None
        while len(gone) < len(NAMES):
            name, event = self._events.get(timeout=_LIMIT_S)
            what = event["what"]
            if what == "gone":
                gone.add(name)
            elif name != victim:
                self._hear(name, event)
            # The first holder dies in the middle of its work: no farewell, no release.
            if victim is None and what == "step" and event["step"] == 3:
                victim = name
                self._processes[name].kill()
                self._processes[name].wait()
                self.holdings[-1].ended = event["at"] + event["remaining"]  # so long it may have believed
                self._tell(name, "killed (SIGKILL): nobody gives its lease back", mark="✗")

    def _hear(self, name: str, event: dict[str, Any]) -> None:
        what, at = event["what"], event["at"]
        if what == "acquired":
            after = f", {at - self.holdings[-1].ended:.1f} s after the last one ended" if self.holdings else ""
            self.holdings.append(Holding(name, event["token"], at))
            self._tell(name, f"acquired, token {event['token']}{after}", at, "▶")
        elif what == "refused":
            self._tell(name, f"waits: {event['holder']} holds it for {event['remaining']:.1f} s more", at)
        elif what == "step":
            self._tell(
                name, f"step {event['step']} of {event['of']}, may believe for {event['remaining']:.1f} s", at, "│"
            )
        elif what == "released":
            self.holdings[-1].ended = at
            self._tell(name, "work done, released", at, "■")
        else:
            self._tell(name, event.get("error", what), at, "!")

    def _sum_up(self) -> bool:
        tokens = [holding.token for holding in self.holdings]
        overlaps = sum(
            later.began < earlier.ended for earlier, later in zip(self.holdings, self.holdings[1:], strict=False)
        )
        rising = tokens == sorted(set(tokens))
        everybody = {holding.who for holding in self.holdings} == set(NAMES)
        tell = f"tokens {'rise' if rising else 'DO NOT RISE'}: {', '.join(map(str, tokens))}"
        self._tell("", f"{len(tokens)} tenures, {overlaps} overlaps, {tell}")
        return everybody and overlaps == 0 and rising

    def _tell(self, who: str, text: str, at: float | None = None, mark: str = " ") -> None:
        seconds = (at or time.time()) - self._began
        print(f"{seconds:6.2f} s  {who:<4} {mark} {text}", file=self._out, flush=True)
