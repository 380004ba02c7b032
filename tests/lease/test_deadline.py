"""Belief counts from the send, also when the answer takes long: the server's lease began before the answer did."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import QUICK, Bench


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def test_the_time_that_an_answer_takes_is_not_believed_in(bench: Bench) -> None:
    usable = QUICK.duration - QUICK.safety_margin
    lease = bench.lease()
    bench.slow(1.0)
    for verb in (lease.try_acquire, lease.try_renew, lease.try_acquire):
        assert verb()
        assert lease.remaining == pytest.approx(usable - 1.0)
