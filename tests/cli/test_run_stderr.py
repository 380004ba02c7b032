"""Nobody reads what the command has to say, or nobody can: that decides nothing."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from sqllease import SqlLease
from tests.lease.support import wait_until

from .support import Desk


@pytest.fixture(params=["its reader has gone", "its disk is full"])
def broken(request: pytest.FixtureRequest) -> Iterator[int]:
    """A stderr that cannot be written to."""
    if request.param == "its disk is full":
        descriptor = os.open("/dev/full", os.O_WRONLY)
    else:
        read_end, descriptor = os.pipe()
        os.close(read_end)
    yield descriptor
    os.close(descriptor)


@pytest.fixture
def unread() -> Iterator[int]:
    """A stderr that is a full pipe, which nobody reads."""
    read_end, descriptor = os.pipe()
    fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 4096)
    os.set_blocking(descriptor, False)
    with suppress(BlockingIOError):
        while True:
            os.write(descriptor, b"x")
    os.set_blocking(descriptor, True)
    yield descriptor
    os.close(read_end)
    os.close(descriptor)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--", "sh", "-c", "exit 3"], 3),
        (["--", "sh", "-c", "kill -9 $$"], 137),
        (["--max-runtime", "0.3", "--", "sleep", "60"], 124),
        (["--", "no-such-command-anywhere"], 127),
        (["--grace", "20", "--", "true"], 2),
    ],
    ids=str,
)
def test_the_code_is_the_same(desk: Desk, name: str, broken: int, arguments: list[str], code: int) -> None:
    assert desk.ended(desk.start("run", "--name", name, *arguments, stderr=broken)).code == code
    assert desk.owner(name) is None


def test_somebody_elses_lease_is_still_that(desk: Desk, name: str, broken: int) -> None:
    other = SqlLease(name, desk.connection)
    assert other.try_acquire()
    assert desk.ended(desk.start("run", "--name", name, "-E", "9", "--", "true", stderr=broken)).code == 9
    other.close()


def test_an_error_of_the_database_is_still_that(desk: Desk, broken: int) -> None:
    desk.connection = desk.connection.replace(desk.server.password, "Wrong-pass-1")
    assert desk.ended(desk.start("list", stderr=broken)).code == 74


def test_a_renewal_that_fails_once_does_not_end_the_command(own_desk: Desk, name: str, broken: int) -> None:
    wrapper = own_desk.start("run", "--name", name, "--duration", "6", "--", "sleep", "4", stderr=broken)
    wait_until(lambda: own_desk.held(name), "the lease is held")
    own_desk.server.faults.error(229, times=1)  # told at once, and tried again
    assert own_desk.ended(wrapper).code == 0
    assert own_desk.owner(name) is None


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["--max-runtime", "0.3", "--", "sleep", "60"], 124),
        (["--", "sh", "-c", "exit 3"], 3),
        (["--", "no-such-command-anywhere"], 127),
    ],
    ids=str,
)
def test_a_pipe_that_nobody_reads_does_not_keep_it(
    desk: Desk, name: str, unread: int, arguments: list[str], code: int
) -> None:
    began = time.monotonic()
    assert desk.ended(desk.start("run", "--name", name, *arguments, stderr=unread)).code == code
    assert time.monotonic() - began < 20
    assert desk.owner(name) is None
