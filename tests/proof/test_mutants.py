"""A few quick mutants, and the table of all of them. `scripts/proof mutants` tries every one."""

from __future__ import annotations

import pytest

from proof.mutants import TOP, mutate, try_one
from proof.seeded import MUTANTS, QUICK, Mutant


def test_there_are_enough_and_each_has_a_name_of_its_own() -> None:
    assert len(MUTANTS) >= 30
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_the_place_of_each_fault_is_still_there(mutant: Mutant) -> None:
    before = (TOP / "sqllease" / mutant.file).read_text("utf-8")
    assert mutate(before, mutant) != before


@pytest.mark.parametrize(
    "mutant", [mutant for mutant in MUTANTS if mutant.name in QUICK], ids=lambda mutant: mutant.name
)
def test_a_seeded_fault_is_caught(mutant: Mutant) -> None:
    result = try_one(mutant)
    assert result.caught, result


def test_a_change_of_nothing_survives_and_a_lost_place_is_an_error() -> None:
    harmless = Mutant("none", "tenure.py", "from __future__", "from __future__", "tests/unit/test_tenure.py")
    assert (try_one(harmless).caught, try_one(harmless).trouble) == (False, "")
    lost = harmless._replace(old="a text that is nowhere")
    assert "not in tenure.py" in try_one(lost).trouble
