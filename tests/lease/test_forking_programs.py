"""Whole programs that fork: children that leave by sys.exit, that use a store of their own, that fork in mid-call.

Each program runs in a process of its own; pytest does not fork.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from sqllease.testing import LocalSqlServer
from tests.drivers import Driver

from .bench import RENEW, Bench
from .support import PATIENCE_S

pytestmark = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="no fork to survive here")

PRELUDE = textwrap.dedent(
    """
    import json, os, sys, threading
    from sqllease import LeaseInUse, LeaseLost, LeaseOptions, LeaseStore, SqlLease

    OPTIONS = LeaseOptions(duration=60, command_timeout=5)

    def outcome(call):
        try:
            return call()
        except Exception as error:
            return type(error).__name__

    def tell(**facts):
        os.write(1, (json.dumps(facts) + "\\n").encode())

    def fork(child):
        # The child leaves as programs do: the interpreter ends and collects what it has inherited.
        pid = os.fork()
        if pid == 0:
            child()
            sys.exit(0)
        return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    """
)


@pytest.fixture
def bench(server: LocalSqlServer, driver: Driver) -> Iterator[Bench]:
    with Bench(server, driver) as bench:
        yield bench


def start(bench: Bench, program: str) -> subprocess.Popen[str]:
    text = PRELUDE + textwrap.dedent(program)
    return subprocess.Popen([sys.executable, "-c", text, bench.dsn()], stdout=subprocess.PIPE, text=True)


def facts(process: subprocess.Popen[str]) -> list[dict[str, Any]]:
    """What the program told, child's lines included; it must end well, and soon."""
    try:
        told, _ = process.communicate(timeout=PATIENCE_S)
    finally:
        process.kill()
        process.wait()
    assert process.returncode == 0
    return [json.loads(line) for line in told.splitlines()]


MAKE = {
    "lease": "lease = SqlLease('job', sys.argv[1], options=OPTIONS)",
    "store": "store = LeaseStore(sys.argv[1]); lease = store.lease('job', options=OPTIONS)",
}


@pytest.mark.parametrize("made_from", MAKE)
def test_a_child_that_leaves_by_sys_exit_owns_nothing_and_the_parents_lease_and_connection_go_on(
    bench: Bench, made_from: str
) -> None:
    program = MAKE[made_from] + textwrap.dedent(
        """
        lease.try_acquire()
        token = lease.fencing_token

        def child():
            tell(held=lease.held, remaining=lease.remaining, token=lease.fencing_token, check=outcome(lease.check),
                 renew=outcome(lease.try_renew), release=outcome(lease.try_release), acquire=outcome(lease.try_acquire))

        for _ in range(3):
            code = fork(child)
            tell(code=code, held=lease.held, renew=outcome(lease.try_renew), same=lease.fencing_token == token)
        tell(release=outcome(lease.try_release))
        """
    )
    told = facts(start(bench, program))
    in_child = {
        "held": False,
        "remaining": 0.0,
        "token": None,
        "check": "LeaseLost",
        "renew": False,
        "release": False,
        "acquire": "LeaseInUse",
    }
    in_parent = {"code": 0, "held": True, "renew": True, "same": True}
    assert told == [in_child, in_parent] * 3 + [{"release": True}]
    assert bench.server.log.logins == 1
    assert bench.rows() == []


def test_a_store_goes_on_in_the_child_with_connections_of_its_own(bench: Bench) -> None:
    program = """
        store = LeaseStore(sys.argv[1])
        lease = store.lease("job", options=OPTIONS)
        lease.try_acquire()

        def child():
            own = store.lease("job of the child", options=OPTIONS)
            tell(taken=outcome(store.lease("job", options=OPTIONS).try_acquire), own=outcome(own.try_acquire),
                 listed=[info.name for info in store.list()], release=outcome(own.try_release))
            store.close()

        code = fork(child)
        tell(code=code, renew=outcome(lease.try_renew), release=outcome(lease.try_release))
    """
    assert facts(start(bench, program)) == [
        {"taken": False, "own": True, "listed": ["job", "job of the child"], "release": True},
        {"code": 0, "renew": True, "release": True},
    ]
    assert bench.server.log.logins == 2


def test_a_child_that_drops_all_it_has_inherited_cuts_no_link_of_the_parent(bench: Bench) -> None:
    program = """
        import gc
        store = LeaseStore(sys.argv[1])
        lease = store.lease("job", options=OPTIONS)
        lease.try_acquire()

        def child():
            global lease, store
            lease.close()
            store.close()
            del lease, store
            gc.collect()

        code = fork(child)
        tell(code=code, renew=outcome(lease.try_renew))
    """
    assert facts(start(bench, program)) == [{"code": 0, "renew": True}]
    assert bench.server.log.logins == 1


def test_a_fork_while_another_thread_is_inside_a_verb_does_not_hang_the_child_nor_disturb_the_verb(
    bench: Bench,
) -> None:
    # The parent forks while its other thread waits for the answer of a renew, with every lock of the call taken.
    program = """
        store = LeaseStore(sys.argv[1], max_connections=1)
        lease = store.lease("job", options=OPTIONS)
        lease.try_acquire()
        answers = []
        renewing = threading.Thread(target=lambda: answers.append(outcome(lease.try_renew)))
        renewing.start()
        sys.stdin.readline()

        def child():
            own = store.lease("job of the child", options=OPTIONS)
            tell(held=lease.held, renew=outcome(lease.try_renew), release=outcome(lease.try_release),
                 acquire=outcome(lease.try_acquire), own=outcome(own.try_acquire))

        code = fork(child)
        tell(code=code)
        sys.stdin.readline()
        renewing.join()
        tell(answers=answers, held=lease.held, release=outcome(lease.try_release))
    """
    text = PRELUDE + textwrap.dedent(program)
    with bench.kept_back(RENEW, "after") as hold:
        process = subprocess.Popen(
            [sys.executable, "-c", text, bench.dsn()],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            bufsize=1,
        )
        assert process.stdin is not None
        assert process.stdout is not None
        watch = threading.Timer(PATIENCE_S, process.kill)  # a child that hangs is an end of file, not a hanging test
        watch.start()
        try:
            assert hold.held.wait(PATIENCE_S)
            process.stdin.write("fork\n")
            told = [json.loads(process.stdout.readline() or "{}") for _ in range(2)]
            hold.release()
            process.stdin.write("end\n")
            told += [json.loads(line) for line in process.communicate(timeout=PATIENCE_S)[0].splitlines()]
        finally:
            watch.cancel()
            process.kill()
            process.wait()
    assert told == [
        {"held": False, "renew": False, "release": False, "acquire": "LeaseInUse", "own": True},
        {"code": 0},
        {"answers": [True], "held": True, "release": True},
    ]
