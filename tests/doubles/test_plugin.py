"""What people get with the package in their own pytest: fixtures without an import, no extra before it is needed."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from importlib.util import find_spec
from pathlib import Path

ROOT = Path(__file__).parents[2]
PLUGINS = ("-p", "sqllease.testing.plugin", "-p", "no:asyncio", "-p", "no:cacheprovider")

THEIR_TESTS = """
def test_two_contend_and_time_is_moved(memory_lease, sqllease_clock):
    first, second = memory_lease("job"), memory_lease("job")
    assert first.try_acquire() and not second.try_acquire()
    sqllease_clock.advance(30)
    assert not first.held and second.try_acquire()

def test_sync_and_async_contend(memory_lease, async_memory_lease, memory_lease_table):
    import asyncio
    assert asyncio.run(async_memory_lease("job").try_acquire())
    assert not memory_lease("job").try_acquire()
    memory_lease_table.outage = True

def test_each_test_has_a_table_of_its_own(memory_lease):
    assert memory_lease("job").try_acquire()

def test_a_stand_in_runs(local_sql_server):
    assert local_sql_server.execute("SELECT 1") == [(1,)]
"""
THEIR_CONTRACT = """
import pytest
from sqllease.testing import MemoryLease, MemoryTable
from sqllease.testing.contract import LeaseContract, LeaseTimeContract

class Forgetful(MemoryLease):
    def try_release(self):
        return True

class TestGood(LeaseContract, LeaseTimeContract):
    @pytest.fixture
    def make_lease(self, memory_lease):
        return memory_lease

    @pytest.fixture
    def pass_time(self, sqllease_clock):
        return sqllease_clock.advance

class TestForgetful(LeaseContract):
    @pytest.fixture
    def make_lease(self):
        table = MemoryTable()
        return lambda name="job", **keywords: Forgetful(name, table, **keywords)
"""
WITHOUT_THE_EXTRA = """
import sys

class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("greenlet", "cryptography", "sortedcontainers", "aioodbc", "pyodbc"):
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

sys.meta_path.insert(0, Missing())
from sqllease.testing import AsyncMemoryLease, ManualClock, MemoryLease
import sqllease.testing.plugin, sqllease.testing.contract
assert MemoryLease("job").try_acquire()
with MemoryLease("job").hold():
    pass
try:
    from sqllease.testing import LocalSqlServer
except ImportError as error:
    print(error)
try:
    sqllease.testing.Nonsense
except AttributeError as error:
    print(error)
"""


def pytest_on(folder: Path, text: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs pytest as users do, in a folder of their own."""
    (folder / "test_theirs.py").write_text(text, "utf-8")
    command = [sys.executable, "-W", "error", "-m", "pytest", "-q", *PLUGINS, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=50, check=False)


def test_their_tests_get_the_fixtures(tmp_path: Path) -> None:
    ended = pytest_on(tmp_path, THEIR_TESTS)
    assert "4 passed" in ended.stdout, ended.stdout + ended.stderr


def test_their_lease_is_held_to_the_contract_and_told_what_it_broke(tmp_path: Path) -> None:
    ended = pytest_on(tmp_path, THEIR_CONTRACT, "--tb=short")
    assert "TestGood" not in ended.stdout, ended.stdout
    failed = [line for line in ended.stdout.splitlines() if line.startswith("FAILED")]
    assert any("test_a_released_lease_is_not_held_and_free_for_the_next" in line for line in failed), ended.stdout
    # Its asserts are rewritten by pytest: they show values.
    assert "assert True is False" in ended.stdout


def test_the_entry_point_is_the_plugin_under_its_own_name() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    (name, value), *others = project["entry-points"]["pytest11"].items()
    assert others == []
    assert name == value
    assert find_spec(value) is not None  # not imported: pytest would say that it comes too late


def test_without_the_extra_all_but_the_stand_in_works() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_EXTRA], capture_output=True, text=True, timeout=50, check=False
    )
    assert ended.returncode == 0, ended.stderr
    no_server, no_name = ended.stdout.splitlines()
    assert "pip install 'sqllease[testing]'" in no_server
    assert "Nonsense" in no_name
