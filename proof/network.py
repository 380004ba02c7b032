"""The world of the simulation: one true time, events in its order, and a network that loses, delays and doubles.

One seed gives one run. Knows nothing of leases.
"""

from __future__ import annotations

import heapq
import random
from collections.abc import Callable
from dataclasses import dataclass

Event = Callable[[], None]


class World:
    """The true time and what is to happen."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = 0.0
        self.steps = 0
        self._due: list[tuple[float, int, Event]] = []
        self._count = 0
        self.history: list[tuple[float, str]] = []

    def after(self, seconds: float, event: Event) -> None:
        """Schedules an event."""
        self._count += 1
        heapq.heappush(self._due, (self.now + seconds, self._count, event))

    def step(self) -> None:
        """The next event happens."""
        self.now, _, event = heapq.heappop(self._due)
        self.steps += 1
        event()

    def note(self, what: str) -> None:
        """Remembers something for the history."""
        self.history.append((self.now, what))


@dataclass(frozen=True, slots=True)
class Weather:
    """How bad the network is: chances of one message, and the longest delay in seconds."""

    loss: float = 0.03
    double: float = 0.02
    slow: float = 0.05
    slowest: float = 15.0


CALM = Weather(loss=0.0, double=0.0, slow=0.0)


class Network:
    """Carries messages one way; each may be lost, late, or come twice."""

    def __init__(self, world: World, weather: Weather) -> None:
        self._world = world
        self.weather = weather

    def carry(self, deliver: Event) -> None:
        """Hands a message over, in its own time."""
        chance, weather = self._world.random, self.weather
        copies = 1
        if weather is not CALM:
            luck = chance.random()
            copies = 0 if luck < weather.loss else 2 if luck < weather.loss + weather.double else 1
        for _ in range(copies):
            delay = chance.uniform(0.001, 0.03)
            if weather is not CALM and chance.random() < weather.slow:
                delay = chance.uniform(0.03, weather.slowest)
            self._world.after(delay, deliver)
