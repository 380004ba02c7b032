"""A verb from within a verb: a signal handler that meets its own thread's call in the middle is told, and waits not.

Each program runs in a process of its own, so that one that hangs can be ended.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from typing import Any

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import ACQUIRE, Bench
from .support import PATIENCE_S

PROGRAM = textwrap.dedent(
    """
    import json, signal, sys
    import pyodbc
    from sqllease import LeaseOptions, SqlLease

    handlers_verb, in_connect = sys.argv[2], sys.argv[3] == "in connect"
    heard = []

    def handler(number, frame):
        try:
            heard.append(getattr(lease, handlers_verb)())
        except Exception as error:
            heard.append(type(error).__name__)

    def connect():
        if in_connect:
            signal.raise_signal(signal.SIGTERM)
        return pyodbc.connect(sys.argv[1], autocommit=True, timeout=5)

    lease = SqlLease("job", connect, options=LeaseOptions(duration=300, command_timeout=20))
    signal.signal(signal.SIGTERM, handler)
    told = []
    for verb in (lease.try_acquire, lease.try_renew, lease.try_release):
        told.append(verb())
        lease.close()  # the next verb has to connect again
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    print(json.dumps({"heard": heard, "told": told, "held": lease.held}))
    """
)


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def start(bench: Bench, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", PROGRAM, bench.dsn(), *arguments], stdout=subprocess.PIPE, text=True)


def facts(process: subprocess.Popen[str]) -> dict[str, Any]:
    try:
        told, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    facts: dict[str, Any] = json.loads(told)
    return facts


@pytest.mark.parametrize("handlers_verb", ["try_release", "try_acquire", "try_renew"])
def test_a_verb_in_a_signal_handler_within_a_verb_raises_lease_in_use_and_the_verb_goes_on(
    bench: Bench, handlers_verb: str
) -> None:
    told = facts(start(bench, handlers_verb, "in connect"))
    assert told == {"heard": ["LeaseInUse"] * 3, "told": [True, True, True], "held": False}
    assert bench.rows() == []


@pytest.mark.skipif(sys.platform == "win32", reason="no signal reaches another process there")
def test_a_signal_during_a_statement_is_heard_within_the_verb_and_does_not_hang_it(bench: Bench) -> None:
    with bench.kept_back(ACQUIRE) as hold:
        process = start(bench, "try_release", "")
        assert hold.held.wait(PATIENCE_S)
        process.send_signal(signal.SIGTERM)
        hold.release()
        told = facts(process)
    assert told == {"heard": ["LeaseInUse"], "told": [True, True, True], "held": False}
