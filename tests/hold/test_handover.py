"""A lease that changes hands, in real time: the next one has it one poll later, and not when it would have expired."""

from __future__ import annotations

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .measuring import POLL_S, Link, handover_by_crash, handover_by_release

pytestmark = pytest.mark.real_time

MACHINE_S = 5.0
"""What a busy machine may add; ``measuring`` tells what it takes. Nobody waits for a lease of 30 s to expire."""


@pytest.fixture
def link(server: LocalSqlServer, ms_driver: Driver) -> Link:
    return Link(server, ms_driver.odbc)


def test_after_a_release_the_one_who_waits_holds_within_one_poll(link: Link) -> None:
    assert handover_by_release(link, "job") <= POLL_S + MACHINE_S


def test_after_a_crash_within_one_poll_of_the_expiry_and_never_before_it(link: Link) -> None:
    assert 0 <= handover_by_crash(link, "job") <= POLL_S + MACHINE_S
