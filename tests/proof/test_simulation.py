"""A slice of the simulation: within the bound nothing goes wrong, and what must go wrong is seen.

`scripts/proof simulate` runs the full figures.
"""

from __future__ import annotations

import pytest

from proof.simulate import BROKEN, PLANS, Plan, run_seed, shortest


@pytest.mark.parametrize("plan", PLANS.values(), ids=PLANS.keys())
def test_within_the_bound_no_invariant_is_violated(plan: Plan) -> None:
    results = [run_seed(seed, 1_000, plan) for seed in range(20)]
    assert [result.violation for result in results if result.violation] == []
    assert sum(result.steps for result in results) == 20_000


@pytest.mark.parametrize("plan", BROKEN.values(), ids=BROKEN.keys())
def test_outside_the_bound_or_without_a_rule_two_are_seen_to_hold(plan: Plan) -> None:
    found = shortest(plan, 1, tries=45, steps=4_000)
    assert found is not None
    assert found.violation is not None
    assert "both hold" in found.violation


def test_one_seed_replays_one_run() -> None:
    plan = BROKEN["without the rule on tenure"]
    found = shortest(plan, 1, tries=45, steps=4_000)
    assert found is not None
    assert run_seed(found.seed, found.steps, plan) == found
