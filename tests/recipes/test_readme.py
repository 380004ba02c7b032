"""The README shows the recipes as they run: each marked region of a recipe is a code block there, letter by letter."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.drivers import Driver

HERE = Path(__file__).parent
README = (HERE.parents[1] / "README.md").read_text("utf-8")
MARKED = re.compile(r"^# --- README: (?P<what>[^\n]+)\n(?P<code>.*?)\n+# --- end$", re.MULTILINE | re.DOTALL)
BLOCKS = re.findall(r"^```python\n(.*?)^```$", README, re.MULTILINE | re.DOTALL)
REGIONS = {
    found["what"]: found["code"]
    for path in sorted(HERE.glob("*.py"))
    if path.name != Path(__file__).name
    for found in MARKED.finditer(path.read_text("utf-8"))
}


def test_there_are_recipes() -> None:
    assert REGIONS.keys() == {"APScheduler", "FastAPI"}


@pytest.mark.parametrize("what", REGIONS)
def test_the_readme_shows_what_runs(what: str) -> None:
    assert f"```python\n{REGIONS[what]}\n```\n" in README


def test_the_example_of_the_stand_in_runs_as_it_is_printed(driver: Driver) -> None:
    (code,) = (block for block in BLOCKS if "LocalSqlServer() as server" in block)
    exec(compile(code.replace('driver="FreeTDS"', f"driver={driver.odbc!r}"), "README.md", "exec"), {})
