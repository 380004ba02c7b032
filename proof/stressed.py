"""One process of the stress: contends for leases and adds to the counter that each protects. Run as a program.

Tells what it does line by line in a file of its own, with stamps of the machine's clock, which all processes share.
Between the check and the end of a step it holds the lock on its gate, so that it is stopped before or after a step,
never within: a step that was checked is short. It may be killed anywhere.
"""

from __future__ import annotations

import fcntl
import os
import random
import sys
import time
from pathlib import Path
from typing import Protocol

from sqllease import LeaseError, LeaseOptions, LeaseStore
from sqllease.clock import SYSTEM_CLOCK

from . import quiet

OPTIONS = LeaseOptions(duration=4, safety_margin=1, command_timeout=1, lock_timeout=0.5)
NAMES = ("a", "b", "c", "d")


class Contended(Protocol):
    """What the stress needs of a lease."""

    @property
    def remaining(self) -> float: ...
    def try_acquire(self) -> bool: ...
    def try_renew(self) -> bool: ...
    def try_release(self) -> bool: ...


class AlwaysTrue:
    """No lease at all: what the checker has to see through."""

    remaining = OPTIONS.duration

    def try_acquire(self) -> bool:
        return True

    def try_renew(self) -> bool:
        return True

    def try_release(self) -> bool:
        return True


class Contender:
    """Its files appear when it is ready."""

    def __init__(self, folder: Path, dsn: str, seed: int, broken: bool) -> None:
        self.folder, self.broken = folder, broken
        self.chance = random.Random(seed)
        self.store = LeaseStore(dsn, max_connections=1)
        self.history = os.open(folder / f"history-{os.getpid()}", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        self.gate = os.open(folder / f"gate-{os.getpid()}", os.O_WRONLY | os.O_CREAT)
        self.tenures = 0

    def work(self) -> None:
        """From the word of the parent until the time that it names."""
        word = self.folder / "ends"
        while not word.exists():
            time.sleep(0.05)
        ends = float(word.read_text())
        while SYSTEM_CLOCK.now() < ends:
            name = self.chance.choice(NAMES)
            lease: Contended = AlwaysTrue() if self.broken else self.store.lease(name, options=OPTIONS)
            try:
                if lease.try_acquire():
                    self._hold(name, lease)
            except LeaseError as error:
                self._tell("error", name, type(error).__name__)
            time.sleep(self.chance.uniform(0.0, 0.3))

    def _hold(self, name: str, lease: Contended) -> None:
        self.tenures += 1
        tenure = f"{os.getpid()}-{self.tenures}"
        counter = os.open(self.folder / f"counter-{name}", os.O_RDWR)
        leaves = SYSTEM_CLOCK.now() + self.chance.uniform(0.1, 3.0)
        renews = 0.0
        try:
            while self._step(name, tenure, lease, counter) and SYSTEM_CLOCK.now() < leaves:
                if SYSTEM_CLOCK.now() >= renews:
                    renews = SYSTEM_CLOCK.now() + 0.7
                    if not lease.try_renew():
                        self._tell("lost", name, tenure)
                        return
                time.sleep(self.chance.uniform(0.0, 0.02))
        finally:
            os.close(counter)
        if self.chance.random() < 0.8:
            self._tell("release", name, tenure)
            lease.try_release()

    def _step(self, name: str, tenure: str, lease: Contended, counter: int) -> bool:
        fcntl.flock(self.gate, fcntl.LOCK_EX)
        try:
            remaining, now = lease.remaining, SYSTEM_CLOCK.now()
            if remaining <= 0:
                return False
            self._tell("begin", name, tenure, f"{now:.6f}", f"{now + remaining:.6f}")
            value = int(os.pread(counter, 20, 0) or b"0")
            time.sleep(0.001)
            os.pwrite(counter, f"{value + 1:020}".encode(), 0)
            self._tell("end", name, tenure, f"{SYSTEM_CLOCK.now():.6f}")
            return True
        finally:
            fcntl.flock(self.gate, fcntl.LOCK_UN)

    def _tell(self, *words: str) -> None:
        os.write(self.history, (" ".join(words) + "\n").encode())


def main() -> None:
    folder, dsn, seed, broken = sys.argv[1:]
    with quiet():
        Contender(Path(folder), dsn, int(seed), broken == "broken").work()


if __name__ == "__main__":
    main()
