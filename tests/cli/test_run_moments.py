"""Moments that nobody chose: a signal at any point of a run, and two hosts whose crontabs are skewed.

SQLLEASE_TEST_FULL=1 runs all of them instead of a slice (with ``-o session_timeout=3600``).
"""

from __future__ import annotations

import random
import signal
import time
from pathlib import Path

import pytest

from .support import FULL, Desk, children

pytestmark = pytest.mark.timeout(1_800 if FULL else 60)

MOMENTS = 200 if FULL else 15
TICKS = 50 if FULL else 8
PERIOD_S, HOLD_S = 600.0, 60.0


def test_a_signal_at_any_moment_leaves_nobody_and_no_row_and_a_true_code(desk: Desk, name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    job = f"echo begin >> {trace}; sleep 0.2; echo end >> {trace}"
    began = time.monotonic()
    assert desk.run(name, "--", "sh", "-c", job).code == 0
    whole = time.monotonic() - began
    chance = random.Random(5)
    for number in range(MOMENTS):
        trace.unlink(missing_ok=True)
        wrapper = desk.start("run", "--name", name, "--", "sh", "-c", job)
        time.sleep(whole * (number + chance.random()) / MOMENTS)
        family = children(wrapper.pid)
        wrapper.send_signal(signal.SIGTERM)
        ended = desk.ended(wrapper)
        seen = trace.read_text().split() if trace.exists() else []
        assert ended.code in (0, 143, -signal.SIGTERM), ended
        if ended.code == 0:
            assert seen == ["begin", "end"]
        if ended.code == -signal.SIGTERM:
            assert seen == [], "it went without cleaning up"
        assert desk.owner(name) is None, (number, ended)
        deadline = time.monotonic() + 5
        while any(children_left := [pid for pid in family if Path(f"/proc/{pid}").exists()]):
            assert time.monotonic() < deadline, children_left
            time.sleep(0.01)


def test_every_tick_of_two_skewed_crontabs_runs_exactly_once(own_desk: Desk, name: str, tmp_path: Path) -> None:
    trace = tmp_path / "trace"
    chance = random.Random(7)
    for tick in range(TICKS):
        tick_job = [
            "run",
            "--name",
            name,
            "--hold-at-least",
            f"{HOLD_S:g}",
            "-q",
            "--",
            "sh",
            "-c",
            f"echo {tick} >> {trace}",
        ]
        first = own_desk.start(*tick_job)
        if tick % 2:
            codes = [own_desk.ended(first).code]
            own_desk.server.clock.advance(chance.uniform(0, HOLD_S - 20))  # the other host's clock is behind
            codes.append(own_desk(*tick_job).code)
        else:
            time.sleep(chance.uniform(0, 0.3))
            second = own_desk.start(*tick_job)
            codes = [own_desk.ended(first).code, own_desk.ended(second).code]
        assert sorted(codes) == [0, 75]
        own_desk.server.clock.advance(PERIOD_S - HOLD_S)
    assert trace.read_text().split() == [str(tick) for tick in range(TICKS)]
