"""The contract of any lease while time passes, kept by those of a SQL Server table: the server's clock and the client's
are moved together.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from sqllease.testing.contract import LeaseTimeContract, PassTime

from .support import MakeLease, World

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver


class TestAnyLeaseInTime(LeaseTimeContract):
    @pytest.fixture
    def dsn(self, server: LocalSqlServer, driver: Driver) -> str:
        return server.connection_string(driver=driver.odbc)

    @pytest.fixture
    def make_lease(self, make_lease: MakeLease, world: World) -> MakeLease:
        return lambda name=None, **keywords: make_lease(name, clock=world.client, **keywords)

    @pytest.fixture
    def pass_time(self, world: World) -> PassTime:
        return world.passes
