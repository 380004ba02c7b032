"""A slice of the fenced transfers. `scripts/proof fence` runs them all."""

from __future__ import annotations

from proof.fence_transfers import transfer


def test_with_the_fence_no_write_of_an_ended_tenure_comes_after_one_of_the_next() -> None:
    result = transfer(60, fenced=True)
    assert (result.late, result.whole, result.tried) == (0, True, 60)
    assert result.committed > 0
    assert result.tenures > 1


def test_without_it_some_do() -> None:
    results = [transfer(60, fenced=False, seed=seed) for seed in range(3)]
    assert all(result.whole for result in results)
    assert sum(result.late for result in results) > 0
