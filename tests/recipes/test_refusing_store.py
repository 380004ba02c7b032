"""The recipe for stores outside the database: an older token is refused, whoever brings it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from sqllease import LeaseStore
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from . import refusing_store
from .refusing_store import RefusingStore


@pytest.fixture
def data(tmp_path: Path) -> Iterator[RefusingStore]:
    store = RefusingStore(str(tmp_path / "data.db"))
    yield store
    store.close()


def test_a_paused_holder_that_wakes_up_after_a_take_over_is_refused(
    server: LocalSqlServer, driver: Driver, data: RefusingStore
) -> None:
    leases = LeaseStore(server.connection_string(driver=driver.odbc))
    leases.ensure_created()
    first, second = leases.lease("job"), leases.lease("job")
    assert first.try_acquire()
    old = first.fencing_token
    assert old is not None
    assert data.write("total", "1", old, first.owner_id)
    assert first.try_renew()
    assert first.fencing_token == old
    assert data.write("total", "2", old, first.owner_id)
    # first is paused here; its lease runs out
    server.clock.advance(60)
    assert second.try_acquire()
    new = second.fencing_token
    assert new is not None
    assert data.write("total", "3", new, second.owner_id)
    # first wakes up and goes on, believing still
    assert first.held
    assert not data.write("total", "4", old, first.owner_id)
    assert data.read("total") == "3"
    leases.close()


def test_on_an_equal_token_the_owners_are_compared(data: RefusingStore) -> None:
    # Two databases, or one that was restored, may give the same number twice.
    assert data.write("total", "1", 7, "a")
    assert not data.write("total", "2", 7, "b")
    assert data.write("total", "3", 7, "a")


def test_the_readme_shows_this_very_condition() -> None:
    readme = (Path(__file__).parents[2] / "README.md").read_text("utf-8")
    code = Path(refusing_store.__file__).read_text("utf-8")
    (shown,) = re.findall(r"```python\n(def write\(.*?)```", readme, re.DOTALL)
    statement = "".join(re.findall(r'"([^"]*)"', code[code.index("INSERT INTO Data") - 1 : code.index("(name, value")]))
    assert statement in "".join(re.findall(r'"([^"]*)"', shown))
