"""Proof 2: many seeded schedules that no test author would think of, checked at every step.

Contenders run the library's own core over a network that loses, delays, reorders and doubles; they pause and crash;
the primary fails over; clocks drift and step. Within the bound of exclusion nothing may go wrong; outside it, or with
a rule taken out, something must.
"""

from __future__ import annotations

import random
import time
from collections import Counter
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field

from . import quiet
from .contender import Rules
from .run import Plan, Run, Violation

STEPS_A_SEED = 5_000


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one seed. seen: how often what happened."""

    seed: int
    steps: int
    seen: Counter[str] = field(default_factory=Counter, compare=False)
    violation: str | None = None
    history: tuple[tuple[float, str], ...] = ()


PLANS = {
    "lossless failovers": Plan(),
    "two contenders": Plan(contenders=2),
    "lossy failovers, confirmed": Plan(confirm=True, lossy=True),
}
"""Within the bound: none may show a violation. A seed has the plan of its number."""

BROKEN = {
    "clocks beyond the bound": Plan(beyond=True),
    "without the rule on tenure": Plan(contenders=2, rules=Rules(tenure=False)),
    "held until the release is answered": Plan(contenders=2, rules=Rules(held_before_release=False)),
    "lossy failovers, not confirmed": Plan(lossy=True),
}
"""Each must show one."""


def plan_of(seed: int) -> str:
    """The name of the plan within the bound that this seed has."""
    return tuple(PLANS)[seed % len(PLANS)]


def run_seed(seed: int, steps: int, plan: str) -> Result:
    """One run; the same for the same arguments."""
    random.seed(seed)  # the library's own jitter
    run = Run(seed, (PLANS | BROKEN)[plan])
    violation: str | None = None
    history: list[tuple[float, str]] = []
    try:
        with quiet():
            run.steps(steps)
    except Violation as found:
        violation, history = str(found), run.world.history[-60:]
    run.seen["outlived"] = sum(process.contender.outlived for process in run._processes)
    return Result(seed, run.world.steps, run.seen, violation, tuple(history))


def _job(job: tuple[int, int]) -> Result:
    seed, steps = job
    return run_seed(seed, steps, plan_of(seed))


def simulate(steps: int, seeds: int, processes: int = 2) -> bool:
    """All plans within the bound, then each broken one until it shows a violation. Prints a report; True when all is
    well.
    """
    began = time.monotonic()
    jobs = [(seed, -(-steps // seeds)) for seed in range(1, seeds + 1)]
    seen: Counter[str] = Counter()
    done, bad = 0, []
    with ProcessPoolExecutor(processes) as pool:
        for result in pool.map(_job, jobs, chunksize=8):
            done += result.steps
            seen += result.seen
            if result.violation is not None:
                bad.append(result)
    seconds = time.monotonic() - began
    print(f"{done:,} steps over {seeds:,} seeds in {seconds:.0f} s: {len(bad)} violations")
    print(f"in them: {told(seen)}")
    for result in bad[:3]:
        show(result, plan_of(result.seed))
    good = not bad
    for name in BROKEN:
        found = shortest(name)
        if found is None:
            print(f"{name}: NOTHING FOUND, so the simulation is blind to it")
            good = False
        else:
            print(f"\n{name}: found, as it should be. The shortest of those found:")
            show(found, name)
    return good


def replay(seed: int, steps: int, plan: str | None) -> bool:
    """One seed once more. Prints what happened in it; True without a violation."""
    plan = plan or plan_of(seed)
    result = run_seed(seed, steps, plan)
    print(f"seed {seed}, plan {plan!r}: {result.steps:,} steps, {told(result.seen)}")
    if result.violation is not None:
        show(result, plan)
    return result.violation is None


def told(seen: Counter[str]) -> str:
    """The counts, for a person."""
    return ", ".join(f"{count:,} {what}" for what, count in sorted(seen.items()))


def shortest(plan: str, tries: int = 60, steps: int = 6_000) -> Result | None:
    """The violation with the fewest steps among some seeds, searched again with ever fewer steps."""
    best: Result | None = None
    for seed in range(1, tries + 1):
        result = run_seed(seed, steps if best is None else best.steps - 1, plan)
        if result.violation is not None:
            best = result
    return best


def show(result: Result, plan: str, lines: int = 24) -> None:
    """The end of a history, for a person, and how to see it again."""
    print(f"  seed {result.seed}, step {result.steps}: {result.violation}")
    print(f"  again: scripts/proof simulate --seed {result.seed} --steps {result.steps} --plan {plan!r}")
    for at, what in result.history[-lines:]:
        print(f"    {at:9.3f} s  {what}")
