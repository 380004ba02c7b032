"""Proof 3: real processes and drivers contend for four leases, while links are cut and processes killed and stopped.

Each holder adds to a counter on disk that nothing but the lease protects. Afterwards a checker reads what they told: no
two tenures of a lease may have been at work at once, and each counter must be the number of steps.
"""

from __future__ import annotations

import fcntl
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import pairwise
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path

from sqllease import schema
from sqllease.clock import SYSTEM_CLOCK
from sqllease.testing import LocalSqlServer
from sqllease.testing.drivers import find_driver

from .stressed import NAMES, OPTIONS


@dataclass
class Result:
    """overlaps: steps of two tenures of one lease that were under way at once, or took turns, or where the first still
    believed when the second was at work. late: steps that ended
    when the row may have run out. wrong: counters that are not the number of steps.
    """

    steps: int = 0
    tenures: int = 0
    overlaps: int = 0
    late: int = 0
    wrong: int = 0
    errors: int = 0
    killed: int = 0
    stopped: int = 0
    cut: int = 0
    examples: list[str] = field(default_factory=list)

    @property
    def exclusive(self) -> bool:
        return self.overlaps == self.late == self.wrong == 0


@dataclass(frozen=True, slots=True)
class Step:
    """One addition to a counter. ends: None when its process was killed in it. until: the belief at its begin."""

    tenure: str
    begins: float
    ends: float | None
    until: float


def check(folder: Path, result: Result) -> None:
    """Reads the histories and the counters."""
    steps: dict[str, list[Step]] = {name: [] for name in NAMES}
    given_up: set[str] = set()
    for history in sorted(folder.glob("history-*")):
        for name, step in _read(history, result, given_up):
            steps[name].append(step)
    for name, of_lease in steps.items():
        of_lease.sort(key=lambda step: step.begins)
        ended: set[str] = set()
        for before, after in pairwise(of_lease):
            if before.tenure == after.tenure:
                continue
            ended.add(before.tenure)
            under_way = before.ends is not None and before.ends > after.begins
            believed = before.tenure not in given_up and before.until > after.begins
            if under_way or believed or after.tenure in ended:
                result.overlaps += 1
                result.examples.append(f"lease {name}: {before} and {after}")
        done = sum(step.ends is not None for step in of_lease)
        result.late += sum(
            step.ends is not None and step.ends > step.until + OPTIONS.safety_margin for step in of_lease
        )
        result.steps += len(of_lease)
        result.tenures += len({step.tenure for step in of_lease})
        counted = int((folder / f"counter-{name}").read_text() or 0)
        if not done <= counted <= len(of_lease):
            result.wrong += 1
            result.examples.append(f"counter {name} is {counted} after {done} steps")


def _read(history: Path, result: Result, given_up: set[str]) -> Iterator[tuple[str, Step]]:
    lines = [line.split() for line in history.read_text().splitlines()]
    for line, following in zip(lines, [*lines[1:], ["nothing"]], strict=False):
        if line[0] == "end":
            continue
        if line[0] == "begin":
            ends = float(following[3]) if following[0] == "end" else None
            yield line[1], Step(line[2], float(line[3]), ends, float(line[4]))
        elif line[0] == "error":
            result.errors += 1
        else:
            given_up.add(line[2])


def _serve(pipe: Connection, seed: int, cuts: bool) -> None:
    """The stand-in, in a process of its own; cuts all links now and then. Ends with its parent's word."""
    chance = random.Random(seed)
    with LocalSqlServer(tls=False, seed=seed) as server:
        server.execute(schema.create_script())
        drivers = [found for kind in ("ms", "freetds") if (found := find_driver(kind)) is not None]
        pipe.send([server.connection_string(driver=driver) for driver in drivers])
        count = 0
        while not pipe.poll(chance.uniform(0.5, 2.5)):
            if cuts:
                server.drop_links()
                count += 1
        pipe.send(count)


@contextmanager
def _server(seed: int, result: Result) -> Iterator[list[str]]:
    context = get_context("spawn")
    mine, its = context.Pipe()
    process = context.Process(target=_serve, args=(its, seed, True), daemon=True)
    process.start()
    try:
        yield mine.recv()
        mine.send("stop")
        result.cut = mine.recv()
    finally:
        process.terminate()
        process.join()


class _Crowd:
    """The contending processes, and what is done to them."""

    def __init__(self, folder: Path, dsns: list[str], broken: bool, chance: random.Random) -> None:
        self.folder, self.dsns, self.broken, self.chance = folder, dsns, broken, chance
        self.living: list[subprocess.Popen[bytes]] = []
        self.asleep: dict[subprocess.Popen[bytes], float] = {}
        self.born = 0

    def start(self) -> None:
        self.born += 1
        arguments = [
            str(self.folder),
            self.dsns[self.born % len(self.dsns)],
            str(self.chance.randrange(10**6)),
            "broken" if self.broken else "whole",
        ]
        self.living.append(subprocess.Popen([sys.executable, "-m", "proof.stressed", *arguments]))

    def go(self, seconds: float) -> float:
        """Waits until all are ready, and lets them work for so long; gives the end."""
        while len(list(self.folder.glob("gate-*"))) < self.born:
            time.sleep(0.05)
        ends = SYSTEM_CLOCK.now() + seconds
        unnamed = self.folder / "unnamed"
        unnamed.write_text(str(ends))
        unnamed.rename(self.folder / "ends")
        return ends

    def kill_one(self) -> None:
        victim = self.chance.choice(self.living)
        victim.kill()
        victim.wait()
        self.living.remove(victim)
        self.asleep.pop(victim, None)
        self.start()

    def stop_one(self) -> bool:
        """Stops one between two steps, mostly past its lease."""
        victim = self.chance.choice(self.living)
        gate = self.folder / f"gate-{victim.pid}"
        if victim in self.asleep or not gate.exists():
            return False
        with gate.open("w") as door:
            fcntl.flock(door, fcntl.LOCK_EX)
            victim.send_signal(signal.SIGSTOP)
            self.asleep[victim] = SYSTEM_CLOCK.now() + self.chance.uniform(0.5, OPTIONS.duration * 2)
        return True

    def wake(self, *, all_of_them: bool = False) -> None:
        for sleeper, until in list(self.asleep.items()):
            if all_of_them or until <= SYSTEM_CLOCK.now():
                del self.asleep[sleeper]
                sleeper.send_signal(signal.SIGCONT)

    def end(self) -> None:
        self.wake(all_of_them=True)
        for process in self.living:
            with suppress(subprocess.TimeoutExpired):
                process.wait(20)
            if process.poll() is None:
                process.kill()
                process.wait()


def run(processes: int, seconds: float, *, broken: bool = False, seed: int = 1) -> Result:
    """One stress: ``seconds`` of contention once the processes are up."""
    result, chance = Result(), random.Random(seed)
    with tempfile.TemporaryDirectory() as name, _server(seed, result) as dsns:
        folder = Path(name)
        for lease in NAMES:
            (folder / f"counter-{lease}").touch()
        crowd = _Crowd(folder, dsns, broken, chance)
        try:
            for _ in range(processes):
                crowd.start()
            ends = crowd.go(seconds)
            while SYSTEM_CLOCK.now() < ends - 1.0:
                time.sleep(chance.uniform(0.0, 16.0 / processes))
                crowd.wake()
                if chance.random() < 0.3:
                    crowd.kill_one()
                    result.killed += 1
                else:
                    result.stopped += crowd.stop_one()
        finally:
            crowd.end()
        check(folder, result)
    return result


def stress(processes: int = 32, seconds: float = 60.0, *, broken: bool = False, seed: int = 1) -> bool:
    """Runs it and prints what came of it. True when all is as it should be: with ``broken``, when that was seen."""
    began = time.monotonic()
    result = run(processes, seconds, broken=broken, seed=seed)
    print(
        f"{processes} processes, {len(NAMES)} leases, {time.monotonic() - began:.0f} s: {result.steps} steps by "
        f"{result.tenures} tenures; {result.cut} times all links cut, {result.killed} processes killed, "
        f"{result.stopped} stopped; {result.errors} calls of unknown outcome"
    )
    print(f"overlaps {result.overlaps}, late steps {result.late}, wrong sums {result.wrong}")
    for example in result.examples[:5]:
        print(f"  {example}")
    if broken:
        print("seen, as it should be" if result.overlaps else "NOT SEEN: the checker is blind")
        return result.overlaps > 0
    return result.exclusive and result.steps > 0
