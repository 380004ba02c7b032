"""A link that falls silent right after a renewal, without a reset: the work hears of the loss before the row expires.

In real time, since it is the driver's silence that is tried. The numbers of twenty runs each: ``measuring``.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sqllease import LeaseOptions
from tests.drivers import Driver

from .measuring import SILENT, silent_link

pytestmark = pytest.mark.real_time

OPTIONS = LeaseOptions(duration=6, safety_margin=2)
"""The margin is wide, so that a machine that stands still for a second changes nothing."""


def hears_of_the_loss_when_the_margin_begins(driver: Driver, way: str) -> None:
    told = silent_link(driver.odbc, way, OPTIONS)
    assert 0 < told.before_expiry <= OPTIONS.safety_margin + told.last_call


@pytest.mark.parametrize("way", SILENT)
def test_the_loss_is_told_within_the_margin_before_the_row_expires(ms_driver: Driver, way: str) -> None:
    hears_of_the_loss_when_the_margin_begins(ms_driver, way)


def test_with_freetds_too(driver: Driver) -> None:
    if driver.id == "freetds":
        hears_of_the_loss_when_the_margin_begins(driver, "blocking")


@pytest.mark.skipif(not os.environ.get("SQLLEASE_TEST_FULL"), reason="takes half an hour: set SQLLEASE_TEST_FULL")
@pytest.mark.timeout(3_600)
def test_all_the_numbers() -> None:
    subprocess.run([sys.executable, "-m", "tests.hold.measuring"], cwd=Path(__file__).parents[2], check=True)
