"""A slice of the stress: few processes for a few seconds. `scripts/proof stress` runs the full figures."""

from __future__ import annotations

from proof.stress import run


def test_real_processes_exclude_each_other() -> None:
    result = run(6, 6.0)
    assert result.steps > 0
    assert result.killed + result.stopped > 0
    assert result.exclusive, result.examples


def test_without_a_lease_the_checker_sees_overlaps() -> None:
    result = run(6, 2.0, broken=True)
    assert result.overlaps > 0
