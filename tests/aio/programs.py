"""Programs in a process of their own: what crashes a driver, or ends an interpreter, must not be pytest itself."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

_ROOT = Path(__file__).parents[2]
PATIENCE_S = 50.0


def run_module(module: str, *arguments: object, patience: float = PATIENCE_S) -> str:
    """What ``python -m tests.aio.<module>`` has said; it must end well. A crash shows the stacks of all threads."""
    return _run(["-X", "faulthandler", "-W", "error", "-m", f"tests.aio.{module}", *map(str, arguments)], patience)[0]


def run_text(program: str, *arguments: object, options: tuple[str, ...] = (), **environment: str) -> tuple[str, str]:
    """What a program has said on its output and its error output; it must end well."""
    command = ["-X", "faulthandler", *options, "-c", textwrap.dedent(program), *map(str, arguments)]
    return _run(command, PATIENCE_S, **environment)


def _run(command: list[str], patience: float, **environment: str) -> tuple[str, str]:
    ended = subprocess.run(
        [sys.executable, *command],
        cwd=_ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=patience,
        check=False,
    )
    assert ended.returncode == 0, f"ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
    return ended.stdout, ended.stderr
