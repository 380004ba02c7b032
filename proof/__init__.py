"""The proofs that exclusion holds: faults on the wire, a simulation, stress with real processes, mutants, the fence.

Not part of the installed package. ``scripts/proof`` runs them in full; the test suite runs a slice of each.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def quiet() -> Iterator[None]:
    """While it lasts the library logs nothing: in a proof a loss is no news. Afterwards it logs as before."""
    log = logging.getLogger("sqllease")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        yield
    finally:
        log.setLevel(level)
