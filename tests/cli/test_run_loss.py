"""The lease is lost: the command is over before anybody else can begin."""

from __future__ import annotations

import time
from pathlib import Path

from sqllease import LeaseStore
from tests.lease.support import wait_until

from .support import BEAT, Desk, assert_one_at_a_time, spans

SHORT = ["--duration", "6", "--grace", "1"]


def test_a_cut_network_ends_the_command_before_the_servers_expiry(own_desk: Desk, name: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    wrapper = own_desk.start("run", "--name", name, *SHORT, "--", *BEAT, str(log), "60", "deaf")
    wait_until(lambda: spans(log), "the command runs")
    own_desk.server.faults.silence(times=1_000)
    ended = own_desk.ended(wrapper)
    assert ended.code == 73
    (command,) = spans(log)
    assert command.last < own_desk.expiry(name), "the command was still there after the lease"
    assert "the command is stopped" in ended.err
    assert "Traceback" not in ended.err


def test_a_lease_that_was_taken_away_stops_the_command_at_its_next_renewal(
    own_desk: Desk, name: str, tmp_path: Path
) -> None:
    log = tmp_path / "log"
    wrapper = own_desk.start("run", "--name", name, *SHORT, "--", *BEAT, str(log), "60")
    wait_until(lambda: spans(log), "the command runs")
    owner = own_desk.owner(name)
    assert owner is not None
    assert own_desk("break", name, "--owner", owner, "--yes").code == 0
    ended = own_desk.ended(wrapper)
    assert ended.code == 73
    assert f"sqllease: {name}: lease lost: a renewal found it gone, expired or taken" in ended.err


def test_a_job_longer_than_the_lease_keeps_it(desk: Desk, name: str) -> None:
    wrapper = desk.start("run", "--name", name, "--duration", "4", "--", "sleep", "6")
    wait_until(lambda: desk.held(name), "the lease is held")
    owner = desk.owner(name)
    while wrapper.poll() is None:
        if not desk.held(name):
            wrapper.wait(5)  # released in this moment
            break
        assert desk.owner(name) in (owner, None)  # None: released since
        time.sleep(0.05)
    assert desk.ended(wrapper).code == 0


def test_a_loss_that_only_the_release_finds_is_told(desk: Desk, name: str) -> None:
    wrapper = desk.start("run", "--name", name, "--", "sleep", "2")
    wait_until(lambda: desk.held(name), "the lease is held")
    store = LeaseStore(desk.connection)
    owner = desk.owner(name)
    assert owner is not None
    assert store.break_lease(name, owner) is not None
    store.close()
    ended = desk.ended(wrapper)
    assert ended.code == 73
    assert "the command ended with 0, but without the lease" in ended.err


def test_another_host_starts_within_one_lease_after_a_crash(desk: Desk, name: str, tmp_path: Path) -> None:
    log = tmp_path / "log"
    first = desk.start("run", "--name", name, *SHORT, "--", *BEAT, str(log), "60", "deaf")
    wait_until(lambda: spans(log), "the command runs")
    second = desk.start("run", "--name", name, *SHORT, "--wait", "40", "--", *BEAT, str(log), "0.2")
    time.sleep(1)
    first.kill()
    expires = desk.expiry(name)
    assert desk.ended(second).code == 0
    # One poll after the expiry, and what a busy machine may add: far less than the forty seconds of its patience.
    assert expires < spans(log)[1].first < expires + 15
    assert_one_at_a_time(log, 2)
