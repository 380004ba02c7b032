"""Proof 1: every fault of the wire, at every verb, in both colours, with both drivers: what came of it is as expected.

The expected values are written down here from the rules of the README, never from what came out.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from .cell import FAULTS, HALVES, VERBS, Case, Seen, run_cell

DEAD, CUT, BEFORE, AFTER, MIDDLE, LATE, SILENT, DELIVERED, DELIVERED_AFTER = FAULTS
UNDONE = (DEAD, CUT, BEFORE)
"""The server has not executed the first request."""
SHORT = {"sync ms": "ms", "sync freetds": "ft", "async ms": "aio"}
DONE = (AFTER, MIDDLE, SILENT)
"""It has, and nobody was told."""


def expected(case: Case) -> tuple[Seen, str]:
    """What should come of a case, and why."""
    rule = {
        "acquire won": _acquire_won,
        "acquire lost": _acquire_lost,
        "renew": _renew,
        "release": _release,
        "confirm": _confirm,
        "fence": _fence,
    }[case.verb]
    return rule(case.fault, case.lasting)


def _acquire_won(fault: str, lasting: bool) -> tuple[Seen, str]:
    if fault == LATE:
        return Seen("unknown", "none", False, "True"), "True only while held: given back"
    if fault == DELIVERED:
        if lasting:
            return Seen("unknown", "stray", False, "True"), "unused until it expires"
        return Seen("True", "stray", True, "False"), "a spurious loss at worst"
    if fault == DELIVERED_AFTER:
        told = "unknown" if lasting else "True"
        return Seen(told, "stray", True, "True"), "no second owner"
    if not lasting:
        return Seen("True", "ours", True, "True"), "asked again, won anew"
    if fault in DONE:
        return Seen("unknown", "stray", False, "True"), "unknown is never held"
    return Seen("unknown", "none", False, "True"), "unknown is never held"


def _acquire_lost(fault: str, lasting: bool) -> tuple[Seen, str]:
    told = "unknown" if lasting else "False"
    if fault == LATE:
        return Seen("False", "other's", False, "True"), "a late False is harmless"
    if fault == DELIVERED_AFTER:
        return Seen(told, "stray", True, "True"), "won next; the late one is ours too"
    return Seen(told, "other's", False, "True"), "never won, whatever happens"


def _renew(fault: str, lasting: bool) -> tuple[Seen, str]:
    if fault == LATE:
        return Seen("unknown", "ours, moved", False, "True"), "a late renew is no True"
    if not lasting:
        return Seen("True", "ours, moved", True, "True"), "asked again"
    if fault in UNDONE:
        return Seen("unknown", "ours", True, "True"), "held to the last confirmed deadline"
    return Seen("unknown", "ours, moved", True, "True"), "held to the last confirmed deadline"


def _release(fault: str, lasting: bool) -> tuple[Seen, str]:
    if fault == LATE:
        return Seen("True", "none", False, "True"), "the server said so"
    if fault == DELIVERED_AFTER:
        told = "unknown" if lasting else "True"
        return Seen(told, "ours", True, "True"), "by tenure: touches no later one"
    if fault == DELIVERED:
        return Seen("unknown" if lasting else "True", "none", False, "True"), "its own tenure only"
    if not lasting:
        told = "True" if fault in UNDONE else "False"
        return Seen(told, "none", False, "True"), "what the last statement did"
    row = "ours" if fault in UNDONE else "none"
    return Seen("unknown", row, False, "True"), "not held before it is sent"


def _confirm(fault: str, lasting: bool) -> tuple[Seen, str]:
    if fault == LATE:
        return Seen("unknown", "none", False, "True"), "True only while held: given back"
    if not lasting:
        return Seen("True", "ours", True, "True"), "looked again"
    if fault == DELIVERED_AFTER:
        return Seen("False", "ours", True, "True"), "a look changes nothing"
    return Seen("False", "none", False, "True"), "not shown in time: given back"


def _fence(fault: str, lasting: bool) -> tuple[Seen, str]:
    del lasting  # never asked again: the caller's transaction is gone
    if fault == LATE:
        return Seen("passes", "ours, 1 written", False, "True"), "the lock decides, not the clock"
    if fault == DELIVERED_AFTER:
        return Seen("unknown", "ours, moved, 1 written", True, "True"), "its session is gone"
    return Seen("unknown", "ours, 0 written", True, "True"), "rolled back"


def cases() -> Iterator[Case]:
    """All of them, in the order of the table."""
    for fault in FAULTS:
        for verb in VERBS:
            for lasting in (False, True):
                if not lasting or (fault != LATE and verb != "fence"):
                    yield Case(fault, verb, lasting)


def judge(half: str, case: Case) -> Seen | str:
    """What came of a cell; a text when it could not be run."""
    try:
        return run_cell(half, case)
    except Exception as error:  # noqa: BLE001  whatever it is, it is a cell that differs
        return f"{type(error).__name__}: {error}"


def report(seen: dict[str, list[Seen | str]]) -> int:
    """Prints the matrix, and below it what differs; how many cells do.

    seen: what came of each half, in the order of ``cases``.
    """
    print(
        "once: the call has time to ask again. last: it has not. told | row at the end | held | what the next call says"
    )
    print("ms, ft: sync with Microsoft's driver and FreeTDS; aio: async with Microsoft's driver.")
    print("stray: a row of our owner, of a tenure that the object was not told of.")
    print(f"\n{'':20}{'expected':43}  {'  '.join(f'{SHORT[half]:3}' for half in seen)}")
    differences = []
    fault = ""
    for number, case in enumerate(cases()):
        if case.fault != fault:
            fault = case.fault
            print(f"\n{fault}")
        wanted, why = expected(case)
        came = {half: column[number] for half, column in seen.items()}
        marks = "  ".join(f"{'ok' if each == wanted else 'NO':3}" for each in came.values())
        held = "held" if wanted.held else "-"
        shown = f"{wanted.told:7} | {wanted.row:22} | {held:4} | {wanted.following:5}"
        print(f"  {case.verb:13}{'last' if case.lasting else 'once':5}{shown}  {marks}{why}")
        differences += [(half, case, wanted, each) for half, each in came.items() if each != wanted]
    for half, case, wanted, each in differences:
        print(f"\n{half}, {case.fault}, {case.verb}, {'last' if case.lasting else 'once'}:")
        print(f"  expected {wanted}\n  came     {each}")
    return len(differences)


def faults(processes: int = 6) -> bool:
    """Runs the matrix and prints it; True when every cell is as expected."""
    began = time.monotonic()
    rows = list(cases())
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        coming = {half: pool.map(partial(judge, half), rows) for half in HALVES}
        seen = {half: list(column) for half, column in coming.items()}
    different = report(seen)
    count = len(rows) * len(HALVES)
    print(f"\n{count - different} of {count} cells as expected, in {time.monotonic() - began:.0f} s")
    return not different
