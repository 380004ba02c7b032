"""Proof 4: seeded faults in the library. Each must be noticed by the tests that are named for it.

Works on scratch copies of the checkout; the tests that are to notice must pass on an unchanged copy first.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from .seeded import MUTANTS, Mutant

TOP = Path(__file__).parents[1]
PARTS = ("sqllease", "proof", "tests", "sql", "scripts", "pyproject.toml", "README.md")
PATIENCE_S = 240
PASSED, FAILED = 0, 1


@dataclass(frozen=True, slots=True)
class Result:
    """caught: some test failed. trouble: it could not be tried, and why."""

    name: str
    caught: bool
    seconds: float
    trouble: str = ""
    by: str = ""


def mutate(text: str, mutant: Mutant) -> str:
    """The file with the fault in it. Raises LookupError when the place is not there any more."""
    if mutant.old not in text:
        raise LookupError(f"its text is not in {mutant.file} any more")
    return text.replace(mutant.old, mutant.new)


def try_one(mutant: Mutant) -> Result:
    """Runs the tests of one mutant on a copy of its own."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="mutant-") as name:
        copy = _copy(Path(name))
        path = copy / "sqllease" / mutant.file
        try:
            path.write_text(mutate(path.read_text("utf-8"), mutant), "utf-8")
        except LookupError as error:
            return Result(mutant.name, False, 0.0, str(error))
        code, said = _pytest(copy, shlex.split(mutant.tests))
        by = next((line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))), "a time-out")
        trouble = "" if code in (PASSED, FAILED) else f"the tests did not run: {said[-300:]}"
        return Result(
            mutant.name, code == FAILED, time.monotonic() - began, trouble, by.split(" - ")[0].rpartition("::")[2][:60]
        )


def unchanged_passes(mutants: Sequence[Mutant], processes: int) -> list[str]:
    """Runs all those tests without a fault, each file once; what failed."""
    files = {part for mutant in mutants for part in mutant.tests.split() if part.startswith("tests/")}
    shares = [sorted(files)[number::processes] for number in range(min(processes, len(files)))]

    def run(share: list[str]) -> list[str]:
        with tempfile.TemporaryDirectory(prefix="mutant-") as name:
            code, said = _pytest(_copy(Path(name)), share, patience=900)
        failed = [line for line in said.splitlines() if line.startswith(("FAILED", "ERROR"))]
        return [] if code == PASSED else failed or [said[-500:]]

    with ThreadPoolExecutor(processes) as pool:
        return [failed for failures in pool.map(run, shares) for failed in failures]


def _copy(folder: Path) -> Path:
    for part in PARTS:
        source = TOP / part
        if source.is_dir():
            shutil.copytree(source, folder / part, ignore=shutil.ignore_patterns("__pycache__", ".venv"))
        else:
            shutil.copy(source, folder / part)
    return folder


def _pytest(copy: Path, arguments: list[str], patience: float = PATIENCE_S) -> tuple[int, str]:
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-x",
        "-q",
        "--no-header",
        "--tb=no",
        "-p",
        "no:cacheprovider",
        *arguments,
    ]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        done = subprocess.run(
            command, cwd=copy, env=environment, capture_output=True, text=True, timeout=patience, check=False
        )
    except subprocess.TimeoutExpired:
        return FAILED, "a time-out"
    return done.returncode, done.stdout + done.stderr


def mutants(names: Sequence[str] = (), processes: int = 2) -> bool:
    """Tries all, or those named; prints each. True when every one was caught."""
    began = time.monotonic()
    chosen = [mutant for mutant in MUTANTS if not names or mutant.name in names]
    against = unchanged_passes(chosen, processes)
    if against:
        print("the tests fail without any fault:", *against, sep="\n")
        return False
    print(f"the tests pass without a fault ({time.monotonic() - began:.0f} s)")
    survivors = 0
    with ThreadPoolExecutor(processes) as pool:
        for result in pool.map(try_one, chosen):
            survivors += not result.caught
            mark = "caught" if result.caught else "ERROR " if result.trouble else "SURVIVED"
            print(f"{mark:8} {result.seconds:5.1f} s  {result.name:50} {result.trouble or result.by}", flush=True)
    print(f"{len(chosen) - survivors} of {len(chosen)} caught in {time.monotonic() - began:.0f} s")
    return survivors == 0
