"""How loud each event is in the log, and that a line says who, what and until when.

Normal contention is quiet: a lost try is DEBUG. A change of holder is INFO, once; a first failed renew WARNING; a loss
ERROR.
"""

from __future__ import annotations

import logging
from datetime import datetime
from typing import TYPE_CHECKING

import pytest

from sqllease import LeaseError, LeaseOptions

from .support import MakeLease, World

if TYPE_CHECKING:
    from sqllease.testing import LocalSqlServer
    from tests.drivers import Driver

DEBUG, INFO, WARNING, ERROR = logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR
NO_RIGHT = 229


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    """These tests move the server's clock and make it refuse."""
    return server.connection_string(driver=driver.odbc)


class Journal:
    """The records of the library since it was last read."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    def read(self) -> list[tuple[int, str]]:
        """Level and text of what was told since the last reading."""
        told = [(record.levelno, record.getMessage()) for record in self._caplog.records if record.name == "sqllease"]
        self._caplog.clear()
        return told

    def levels(self) -> list[int]:
        """The levels alone."""
        return [level for level, _ in self.read()]


@pytest.fixture
def journal(caplog: pytest.LogCaptureFixture) -> Journal:
    caplog.set_level(DEBUG, logger="sqllease")
    return Journal(caplog)


def until(moment: datetime | None) -> str:
    assert moment is not None
    return moment.isoformat(timespec="milliseconds")


def test_a_won_lease_is_told_once_at_info(make_lease: MakeLease, journal: Journal) -> None:
    lease = make_lease()
    lease.try_acquire()
    assert journal.levels() == [INFO]


def test_a_won_lease_says_who_what_until_when_and_its_token(make_lease: MakeLease, journal: Journal) -> None:
    lease = make_lease()
    lease.try_acquire()
    ((_, text),) = journal.read()
    for part in (lease.name, lease.owner_id, until(lease.expires_at), str(lease.fencing_token)):
        assert part in text


def test_a_takeover_says_from_whom(world: World, make_lease: MakeLease, journal: Journal) -> None:
    dead, other = make_lease(), make_lease()
    dead.try_acquire()
    world.server.clock.advance(31)
    journal.read()
    other.try_acquire()
    ((level, text),) = journal.read()
    assert level == INFO
    assert dead.owner_id in text


def test_renews_and_refreshes_are_debug(make_lease: MakeLease, journal: Journal) -> None:
    lease = make_lease()
    lease.try_acquire()
    journal.read()
    lease.try_renew()
    lease.try_acquire()
    assert journal.levels() == [DEBUG, DEBUG]


def test_a_release_is_info_and_one_of_nothing_is_debug_at_most(make_lease: MakeLease, journal: Journal) -> None:
    lease = make_lease()
    lease.try_acquire()
    journal.read()
    lease.try_release()
    assert journal.levels() == [INFO]
    lease.try_release()
    assert set(journal.levels()) <= {DEBUG}


def test_lost_tries_of_many_standbys_are_debug(make_lease: MakeLease, journal: Journal) -> None:
    holder, standbys = make_lease(), [make_lease() for _ in range(20)]
    holder.try_acquire()
    journal.read()
    for _ in range(3):
        for standby in standbys:
            assert standby.try_acquire() is False
    assert journal.levels() == [DEBUG] * 60


def test_a_lost_try_says_who_wanted_it_who_has_it_and_until_when(make_lease: MakeLease, journal: Journal) -> None:
    holder, other = make_lease(), make_lease()
    holder.try_acquire()
    journal.read()
    other.try_acquire()
    ((_, text),) = journal.read()
    for part in (other.name, other.owner_id, holder.owner_id, until(holder.expires_at)):
        assert part in text


def test_a_change_of_holder_is_told_once_at_info_to_each_who_polls(make_lease: MakeLease, journal: Journal) -> None:
    first, second, standby = make_lease(), make_lease(), make_lease()
    first.try_acquire()
    standby.try_acquire()
    first.try_release()
    second.try_acquire()
    journal.read()
    for _ in range(3):
        standby.try_acquire()
    told = journal.read()
    assert [level for level, _ in told] == [INFO, DEBUG, DEBUG]
    assert second.owner_id in told[0][1]


def test_a_first_failed_renew_is_a_warning_and_the_next_are_not(
    make_lease: MakeLease, journal: Journal, server: LocalSqlServer
) -> None:
    lease = make_lease()
    lease.try_acquire()
    journal.read()
    server.faults.error(NO_RIGHT, times=3)
    for _ in range(3):
        with pytest.raises(LeaseError):
            lease.try_renew()
    assert journal.levels() == [WARNING, DEBUG, DEBUG]


def test_after_a_renew_that_worked_a_failed_one_is_a_first_one_again(
    make_lease: MakeLease, journal: Journal, server: LocalSqlServer
) -> None:
    lease = make_lease()
    lease.try_acquire()
    levels = []
    for _ in range(2):
        journal.read()
        server.faults.error(NO_RIGHT)
        with pytest.raises(LeaseError):
            lease.try_renew()
        levels += journal.levels()
        assert lease.try_renew() is True
    assert levels == [WARNING, WARNING]


def test_a_failed_renew_says_who_what_and_how_long_there_is_left(
    make_lease: MakeLease, journal: Journal, server: LocalSqlServer, world: World
) -> None:
    lease = make_lease(options=LeaseOptions(duration=30), clock=world.client)
    lease.try_acquire()
    world.client.advance(7)
    journal.read()
    server.faults.error(NO_RIGHT)
    with pytest.raises(LeaseError):
        lease.try_renew()
    ((_, text),) = journal.read()
    for part in (lease.name, lease.owner_id, "20.0 s"):
        assert part in text


def test_a_loss_is_an_error_that_says_to_whom(world: World, make_lease: MakeLease, journal: Journal) -> None:
    lease, other = make_lease(), make_lease()
    lease.try_acquire()
    world.server.clock.advance(31)
    other.try_acquire()
    journal.read()
    assert lease.try_renew() is False
    ((level, text),) = journal.read()
    assert level == ERROR
    for part in (lease.name, lease.owner_id, other.owner_id, until(other.expires_at)):
        assert part in text


def test_a_loss_that_a_refresh_meets_is_an_error_too(world: World, make_lease: MakeLease, journal: Journal) -> None:
    lease, other = make_lease(), make_lease()
    lease.try_acquire()
    world.server.clock.advance(31)
    other.try_acquire()
    journal.read()
    assert lease.try_acquire() is False
    assert journal.levels() == [ERROR]


def test_a_loss_is_told_once(world: World, make_lease: MakeLease, journal: Journal) -> None:
    lease = make_lease()
    lease.try_acquire()
    world.server.clock.advance(31)
    journal.read()
    lease.try_renew()
    lease.try_renew()
    assert journal.levels() == [ERROR]


def test_a_race_that_is_lost_leaves_no_error_in_the_servers_log(make_lease: MakeLease, server: LocalSqlServer) -> None:
    holder, other = make_lease(), make_lease()
    holder.try_acquire()
    server.log.clear()
    other.try_acquire()
    assert server.log.errors == []
