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

DURATION_S = 3.0
MARGIN_S = LeaseOptions(duration=DURATION_S).safety_margin


@pytest.mark.parametrize("way", SILENT)
def test_the_loss_is_told_before_the_row_expires_and_not_long_before(ms_driver: Driver, way: str) -> None:
    assert 0 < silent_link(ms_driver.odbc, way, DURATION_S) < 2 * MARGIN_S


def test_with_freetds_too(driver: Driver) -> None:
    if driver.id == "freetds":
        assert 0 < silent_link(driver.odbc, "blocking", DURATION_S) < 2 * MARGIN_S


@pytest.mark.skipif(not os.environ.get("SQLLEASE_TEST_FULL"), reason="takes half an hour: set SQLLEASE_TEST_FULL")
@pytest.mark.timeout(3_600)
def test_all_the_numbers() -> None:
    subprocess.run([sys.executable, "-m", "tests.hold.measuring"], cwd=Path(__file__).parents[2], check=True)
