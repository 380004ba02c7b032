"""Candidates of either colour in threads of the test, and the scripts that their work plays.

Knows both colours, so that the tests need not. Waits for events only.
"""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any

from sqllease import (
    AsyncHold,
    AsyncLeaderElection,
    AsyncLeaseStore,
    ElectionState,
    Hold,
    LeaderElection,
    Leading,
    LeaseInfo,
    LeaseOptions,
    LeaseStore,
)
from sqllease.clock import SYSTEM_CLOCK, Clock
from tests.lease.support import PATIENCE_S, in_background, wait_until

POLL_S = 0.02
STEP_S = 0.002


class Floor:
    """What the lease protects: it counts who stands on it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.inside = self.most = self.visits = 0

    def enter(self) -> None:
        with self._lock:
            self.inside += 1
            self.visits += 1
            self.most = max(self.most, self.inside)

    def leave(self) -> None:
        with self._lock:
            self.inside -= 1


@dataclass
class Script:
    """What the work of one candidate does. By default it runs until it is told to stop, and then returns at once.

    finish: ends unasked, with ``raises`` if that is set. let_go: while it is not set, the work drains.
    """

    floor: Floor = field(default_factory=Floor)
    raises: BaseException | None = None
    finish: threading.Event = field(default_factory=threading.Event)
    let_go: threading.Event = field(default_factory=threading.Event)
    stubborn: bool = False
    """Under asyncio: swallows each cancel until it is let go."""
    starts: list[float] = field(default_factory=list)
    told: list[float] = field(default_factory=list)
    ends: list[float] = field(default_factory=list)
    causes: list[BaseException | None] = field(default_factory=list)
    leaders: list[LeaseInfo] = field(default_factory=list)
    held: Hold | AsyncHold | None = None

    def work(self, leading: Leading) -> None:
        self._begin(leading.hold)
        try:
            while not leading.stop.wait(STEP_S):
                if self._finished():
                    return
            self.told.append(time.monotonic())
            self.let_go.wait(PATIENCE_S)
        finally:
            self._end()

    async def work_async(self, held: AsyncHold) -> None:
        self._begin(held)
        try:
            while True:
                if self._finished():
                    return
                await asyncio.sleep(STEP_S)
        except asyncio.CancelledError:
            self.told.append(time.monotonic())
            while not self.let_go.is_set():
                try:
                    await asyncio.sleep(STEP_S)
                except asyncio.CancelledError:
                    if not self.stubborn:
                        raise
            raise
        finally:
            self._end()

    def _begin(self, held: Hold | AsyncHold) -> None:
        self.held = held
        self.starts.append(time.monotonic())
        self.floor.enter()

    def _end(self) -> None:
        self.floor.leave()
        self.ends.append(time.monotonic())

    def _finished(self) -> bool:
        if not self.finish.is_set():
            return False
        self.finish.clear()
        if self.raises is not None:
            raise self.raises
        return True


class Candidate:
    """One election that runs in a thread (and, with the colour async, in a loop of its own there)."""

    def __init__(
        self,
        colour: str,
        dsn: str,
        script: Script | None = None,
        *,
        options: LeaseOptions | None = None,
        clock: Clock = SYSTEM_CLOCK,
        **keywords: Any,
    ) -> None:
        self.script = script or Script()
        self.script.let_go.set()
        on_stopped = keywords.pop("on_stopped", self.script.causes.append)
        on_new_leader = keywords.pop("on_new_leader", self.script.leaders.append)
        keywords.setdefault("poll_interval", POLL_S)
        lease = {"options": options, "clock": clock}
        self.loop: asyncio.AbstractEventLoop | None = None
        self.task: asyncio.Task[None] | None = None
        self._store: LeaseStore | AsyncLeaseStore
        self.election: LeaderElection | AsyncLeaderElection
        if colour == "sync":
            self._store = LeaseStore(dsn)
            self.election = LeaderElection(
                self._store.lease("job", **lease),  # type: ignore[arg-type]
                keywords.pop("on_started", self.script.work),
                on_stopped,
                on_new_leader,
                **keywords,
            )
        else:
            self._store = AsyncLeaseStore(dsn)
            self.election = AsyncLeaderElection(
                self._store.lease("job", **lease),  # type: ignore[arg-type]
                keywords.pop("on_started", self.script.work_async),
                on_stopped,
                on_new_leader,
                **keywords,
            )
        self.ended: Future[None] | None = None

    @property
    def owner_id(self) -> str:
        return self.election._of.owner_id

    @property
    def state(self) -> ElectionState:
        return self.election.state

    def start(self) -> Candidate:
        self.ended = in_background(self._run)
        return self

    def until(self, state: ElectionState) -> Candidate:
        wait_until(lambda: self.state is state, f"state {state}, not {self.state}")
        return self

    def leads(self, times: int = 1) -> Candidate:
        wait_until(lambda: len(self.script.starts) >= times, f"started its work {times} times")
        return self

    def join(self) -> None:
        assert self.ended is not None
        self.ended.result(PATIENCE_S)

    def stop(self) -> None:
        self.script.let_go.set()
        self.election.resign()
        if self.ended is not None:
            self.join()

    def close(self) -> None:
        if self.ended is not None and not self.ended.done():
            self.stop()
        if isinstance(self._store, LeaseStore):
            self._store.close()

    def _run(self) -> None:
        if isinstance(self.election, LeaderElection):
            self.election.run()
        else:
            asyncio.run(self._run_async())

    async def _run_async(self) -> None:
        assert isinstance(self.election, AsyncLeaderElection)
        assert isinstance(self._store, AsyncLeaseStore)
        self.loop, self.task = asyncio.get_running_loop(), asyncio.current_task()
        try:
            await self.election.run()
        finally:
            await self._store.aclose()
