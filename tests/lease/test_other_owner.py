"""A row of the very same tenure that carries another owner: somebody has changed it by hand, and it is not ours."""

from __future__ import annotations

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .support import MakeLease, World


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    return server.connection_string(driver=driver.odbc)


@pytest.mark.parametrize("verb", ["try_renew", "try_release"])
def test_a_verb_says_that_it_is_not_ours_and_leaves_it_alone(make_lease: MakeLease, world: World, verb: str) -> None:
    lease = make_lease()
    assert lease.try_acquire()
    world.server.execute("UPDATE [lease].[Leases] SET OwnerInstanceId = N'somebody else'")
    before = world.row(lease.name)
    assert getattr(lease, verb)() is False
    assert not lease.held
    assert world.row(lease.name) == before
