"""A slice of the fault matrix: every fault at every verb, each in one of the halves; the silent ones at two verbs.

`scripts/proof faults` runs the whole.
"""

from __future__ import annotations

import pytest

from proof.cell import FAULTS, HALVES, SILENT, VERBS, Case
from proof.faults import cases, expected, judge, report

ALL = list(cases())
QUICK = [(HALVES[number % 3], case) for number, case in enumerate(ALL) if case.fault not in SILENT][::2]
SLOW = [("sync freetds", case) for case in ALL if case.fault in SILENT and case.verb in ("release", "fence")][1::2]


def test_the_matrix_has_every_fault_at_every_verb() -> None:
    assert {(case.fault, case.verb) for case in ALL} == {(fault, verb) for fault in FAULTS for verb in VERBS}
    assert {case.fault for _, case in QUICK + SLOW} == set(FAULTS)


@pytest.mark.parametrize(
    ("half", "case"), QUICK + SLOW, ids=lambda value: "-".join(map(str, value)) if isinstance(value, Case) else value
)
def test_a_cell_is_as_the_rules_say(half: str, case: Case) -> None:
    wanted, why = expected(case)
    assert judge(half, case) == wanted, why


def test_a_cell_that_differs_is_counted_and_shown(capsys: pytest.CaptureFixture[str]) -> None:
    good = [expected(case)[0] for case in ALL]
    assert report({"sync ms": list(good)}) == 0
    assert report({"sync ms": ["TimeoutError: no answer", *good[1:]]}) == 1
    assert "came     TimeoutError: no answer" in capsys.readouterr().out
