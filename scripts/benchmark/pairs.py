"""Two sides of one comparison, timed in turns: rounds of a few calls each, the ratio of each round, and their median.

Neighbouring rounds meet the same load of the machine, so the median of their ratios stands still where the times
themselves do not. Knows no lease and no driver.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from .standin import Counts, StandIn

Side: TypeAlias = Callable[[int], float]
"""Makes so many calls one after the other, and gives the seconds that they took. Raises when a call failed."""

WARM_UP_CALLS = 20
COUNTED_CALLS = 10


class WrongAnswer(Exception):
    """A call that is measured did not do what it should, so its time means nothing."""


def calls(operation: Callable[[], bool], expected: bool) -> Side:
    """A side whose operation blocks."""

    def side(count: int) -> float:
        began = time.perf_counter()
        answers = [operation() for _ in range(count)]
        took = time.perf_counter() - began
        return _checked(took, answers, expected)

    return side


def async_calls(operation: Callable[[], Awaitable[bool]], expected: bool, runner: asyncio.Runner) -> Side:
    """A side whose operation is awaited, each time in the same loop."""

    async def timed(count: int) -> float:
        began = time.perf_counter()
        answers = [await operation() for _ in range(count)]
        took = time.perf_counter() - began
        return _checked(took, answers, expected)

    return lambda count: runner.run(timed(count))


def _checked(took: float, answers: list[bool], expected: bool) -> float:
    if any(answer is not expected for answer in answers):
        raise WrongAnswer(f"expected {expected}, got {answers}")
    return took


@dataclass(frozen=True, slots=True)
class Cost:
    """Of one side. milliseconds: the median round's, for one operation. logins: from opening on, for all of them.

    messages: wire messages that needed an answer, for one operation once everything is open.
    """

    milliseconds: float
    messages: float
    logins: int


@dataclass(frozen=True, slots=True)
class Comparison:
    """ratio: the median of ours/theirs over the rounds; low and high: its quartiles. extra: the median difference.

    target: what the ratio should not exceed, None where there is no such wish.
    """

    driver: str
    title: str
    other: str
    ours: Cost
    theirs: Cost
    ratio: float
    low: float
    high: float
    extra_ms: float
    rounds: int
    target: float | None

    @property
    def met(self) -> bool | None:
        """Whether the ratio is within the target; None without one."""
        return None if self.target is None else self.ratio <= self.target


@dataclass(frozen=True, slots=True)
class Pair:
    """What is to be compared."""

    title: str
    other: str
    ours: Side
    theirs: Side
    target: float | None = None


def compare(pair: Pair, server: StandIn, driver: str, rounds: int, calls_a_round: int) -> Comparison:
    """Counts first, then times both sides in turns; who begins changes from round to round."""
    our_counts, their_counts = (_count(side, server) for side in (pair.ours, pair.theirs))
    for side in (pair.ours, pair.theirs):
        side(WARM_UP_CALLS)
    ours, theirs = [], []
    for number in range(rounds):
        if number % 2:
            ours.append(pair.ours(calls_a_round))
            theirs.append(pair.theirs(calls_a_round))
        else:
            theirs.append(pair.theirs(calls_a_round))
            ours.append(pair.ours(calls_a_round))
    errors = server.counts().errors
    if errors:
        raise WrongAnswer(f"{pair.title}: the server raised errors {sorted(set(errors))}")
    each_ms = 1000 / calls_a_round
    low, ratio, high = statistics.quantiles((a / b for a, b in zip(ours, theirs, strict=True)), n=4)
    return Comparison(
        driver=driver,
        title=pair.title,
        other=pair.other,
        ours=Cost(statistics.median(ours) * each_ms, our_counts.messages / COUNTED_CALLS, our_counts.logins),
        theirs=Cost(statistics.median(theirs) * each_ms, their_counts.messages / COUNTED_CALLS, their_counts.logins),
        ratio=ratio,
        low=low,
        high=high,
        extra_ms=statistics.median(a - b for a, b in zip(ours, theirs, strict=True)) * each_ms,
        rounds=rounds,
        target=pair.target,
    )


def _count(side: Side, server: StandIn) -> Counts:
    # A side opens its connection with its first call, or had it opened since the last count.
    side(1)
    opening = server.counts()
    side(COUNTED_CALLS)
    steady = server.counts()
    return Counts(steady.messages, opening.logins + steady.logins, opening.errors + steady.errors)
