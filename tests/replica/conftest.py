"""Fixtures of the tests of confirmation: a primary with its replica, both colours, both drivers."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Iterator

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .stage import Stage

Told = list[tuple[str, str]]


@pytest.fixture
def server() -> Iterator[LocalSqlServer]:
    """A primary and its replica, whose clocks stand still. Without TLS: FreeTDS 1.3.17, once routed, speaks to the new
    server through the TLS session of the old one.
    """
    with LocalSqlServer(tls=False, replica=True) as started:
        started.clock.freeze()
        yield started


@pytest.fixture(params=["sync", "async"])
def colour(request: pytest.FixtureRequest) -> str:
    name: str = request.param
    return name


@pytest.fixture
def stage(server: LocalSqlServer, driver: Driver, colour: str) -> Iterator[Stage]:
    """With either driver."""
    with Stage(server, driver, colour) as made:
        yield made


@pytest.fixture
def ms_stage(server: LocalSqlServer, ms_driver: Driver, colour: str) -> Iterator[Stage]:
    """With Microsoft's driver alone, for what no driver has a part in."""
    with Stage(server, ms_driver, colour) as made:
        yield made


class Journal:
    """What the library has said aloud since the last look: INFO and above."""

    def __init__(self, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog

    @property
    def so_far(self) -> Told:
        """Level and text of each line."""
        return [
            (record.levelname, record.getMessage())
            for record in self._caplog.records
            if record.name == "sqllease" and record.levelno >= logging.INFO
        ]

    def take(self) -> Told:
        """As ``so_far``; the next call begins after them."""
        told = self.so_far
        self._caplog.clear()
        return told


@pytest.fixture
def journal(caplog: pytest.LogCaptureFixture) -> Journal:
    caplog.set_level(logging.INFO, logger="sqllease")
    return Journal(caplog)


@pytest.fixture
def lease_name() -> str:
    """A name that no other test has, so that the tests may share a real server's table."""
    return f"test-{uuid.uuid4().hex}"
