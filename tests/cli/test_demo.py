"""`sqllease demo`: both acts on the stand-in, the first one on a server that the environment names."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from sqllease.odbc import parse
from sqllease.testing.demo.__main__ import _with_driver

from .support import Desk


def test_both_acts_are_told_and_leave_a_picture(desk: Desk, tmp_path: Path) -> None:
    """Whether the primary dies before the row has arrived, as the story wants it, is up to the machine."""
    picture = tmp_path / "timeline.svg"
    ended = desk("demo", "--timeline", str(picture))
    assert ended.err == ""
    assert " 0 overlaps, tokens rise" in ended.out
    assert re.search(r"^workers with confirmation: +\d, at once for 0\.0 s$", ended.out, re.MULTILINE)
    assert "<svg " in picture.read_text()


@pytest.mark.parametrize("named", ["DRIVER=mine;SERVER=db", "DSN=mine", "FILEDSN=mine"])
def test_a_real_server_keeps_the_driver_that_it_was_named_with(named: str) -> None:
    assert _with_driver(named, "other") == named


def test_one_that_is_named_without_a_driver_gets_the_one_that_was_found() -> None:
    assert parse(_with_driver("SERVER=db;UID=sa", "/lib/found.so"))[-1] == ("driver", "/lib/found.so")
