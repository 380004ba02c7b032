"""A slice of the simulation: within the bound nothing goes wrong, and what must go wrong is seen.

`scripts/proof simulate` runs the full figures.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from proof.model import TICKS, Lease, Node, Table
from proof.simulate import BROKEN, PLANS, STEPS_A_SEED, replay, run_seed, shortest


@pytest.mark.parametrize("plan", PLANS)
def test_within_the_bound_no_invariant_is_violated(plan: str) -> None:
    results = [run_seed(seed, STEPS_A_SEED, plan) for seed in range(12)]
    assert [result.violation for result in results if result.violation] == []
    assert {result.steps for result in results} == {STEPS_A_SEED}
    seen = sum((result.seen for result in results), Counter[str]())
    assert min(seen[what] for what in ("failovers", "crashes", "calms", "outlived", "fences refused")) > 0


@pytest.mark.parametrize("plan", BROKEN)
def test_outside_the_bound_or_without_a_rule_two_are_seen_to_hold(plan: str) -> None:
    found = shortest(plan, tries=45, steps=4_000)
    assert found is not None
    assert found.violation is not None
    assert "both hold" in found.violation


def test_a_lease_that_nobody_can_take_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    for_ever = Lease("nobody", 0, 20 * 86_400 * TICKS, 1)
    monkeypatch.setattr(Table, "acquire", lambda self, *_: self._answer(0, None, None, 0, 0))
    monkeypatch.setattr(Node, "row", property(lambda self: for_ever, lambda self, row: None), raising=False)
    result = run_seed(1, STEPS_A_SEED, "two contenders")
    assert result.violation is not None
    assert result.violation.startswith("nobody has taken the lease")


def test_a_release_that_leaves_the_row_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    write = Table._write
    monkeypatch.setattr(Table, "_write", lambda self, row: write(self, row) if row is not None else self.primary.row)
    result = run_seed(1, STEPS_A_SEED, "two contenders")
    assert result.violation is not None
    assert "is back, which was released" in result.violation


def test_a_version_that_does_not_rise_is_seen(monkeypatch: pytest.MonkeyPatch) -> None:
    def same_version(self: Table, row: Lease | None) -> Lease:
        self.primary.row = None if row is None else replace(row, version=7)
        return self.primary.row or Lease("", 0, 0, 7)

    monkeypatch.setattr(Table, "_write", same_version)
    result = run_seed(1, STEPS_A_SEED, "two contenders")
    assert result.violation is not None
    assert "does not rise" in result.violation


def test_one_seed_replays_one_run(capsys: pytest.CaptureFixture[str]) -> None:
    plan = "without the rule on tenure"
    found = shortest(plan, tries=45, steps=4_000)
    assert found is not None
    assert run_seed(found.seed, found.steps, plan) == found
    assert not replay(found.seed, found.steps, plan)
    assert f"--seed {found.seed} --steps {found.steps} --plan '{plan}'" in capsys.readouterr().out
