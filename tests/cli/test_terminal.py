"""What a person sees: `list` on a terminal of eighty columns, with and without colour, and the same through a pipe."""

from __future__ import annotations

import os
import pty
import re
import struct
import subprocess
import termios
from collections.abc import Iterator
from fcntl import ioctl

import pytest
from rich.cells import cell_len

from sqllease import LeaseOptions, LeaseStore

from .support import COMMAND, Desk

COLUMNS = 80
WIDE = "請求書-夜間"
STYLE = re.compile(r"\x1b\[[0-9;]*m")
COLOUR = re.compile(r"\x1b\[(?:\d+;)*[39][0-7]m")


@pytest.fixture
def leases(own_desk: Desk) -> Iterator[Desk]:
    """One of an hour, whose owner would like to steer the terminal; one with a wide name and long metadata."""
    own_desk.server.clock.freeze()
    store = LeaseStore(own_desk.connection)
    assert store.lease("hourly", options=LeaseOptions(duration=3595)).try_acquire()
    assert store.lease(WIDE, owner_id="host-7:13", metadata="of the month " * 20).try_acquire()
    own_desk.server.execute(
        "UPDATE [lease].[Leases] SET OwnerInstanceId = N'a' + NCHAR(27) + N'[2Jb' WHERE LeaseName = N'hourly'"
    )
    yield own_desk
    store.close()
    own_desk.server.clock.thaw()


def on_a_terminal(desk: Desk, *arguments: str, **environment: str) -> str:
    """What the command writes on a terminal."""
    ours, theirs = pty.openpty()
    ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [*COMMAND, *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=desk.environment(TERM="xterm-256color", COLUMNS="", **environment),
        start_new_session=True,
    )
    os.close(theirs)
    out = b""
    try:
        while piece := os.read(ours, 65536):
            out += piece
    except OSError:
        pass  # how Linux says that nobody has the other end any more
    os.close(ours)
    assert process.wait(20) == 0
    return out.decode().replace("\r\n", "\n")


@pytest.mark.parametrize("no_colour", ["", "1"], ids=["in colour", "without"])
def test_a_table_fits_the_terminal_and_shows_each_number_whole(leases: Desk, no_colour: str) -> None:
    out = on_a_terminal(leases, "list", NO_COLOR=no_colour)
    assert bool(COLOUR.search(out)) is (not no_colour)
    plain = STYLE.sub("", out)
    assert max(map(cell_len, plain.splitlines())) <= COLUMNS
    assert "59 min 55 s" in plain
    assert WIDE in plain
    assert "\x1b" not in plain


def test_through_a_pipe_each_lease_is_one_line_and_nothing_is_cut(leases: Desk) -> None:
    ended = leases("list")
    heading, *lines = ended.out.splitlines()
    assert heading.startswith("NAME")
    assert len(lines) == 2
    assert any("59 min 55 s" in line and "a\ufffd[2Jb" in line for line in lines)
    assert any(WIDE in line and "of the month " * 19 in line for line in lines)


def test_one_lease_in_full_does_not_steer_the_terminal_either(leases: Desk) -> None:
    assert "owner:      a\ufffd[2Jb" in leases("show", "hourly").out
    assert "\x1b" not in on_a_terminal(leases, "show", "hourly", NO_COLOR="1")
