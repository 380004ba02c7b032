"""``scripts/proof``: runs one proof in full and says what came of it. Exit code 0 when it holds, 1 when not."""

from __future__ import annotations

import argparse
import sys

from .faults import faults
from .simulate import simulate


def main(arguments: list[str] | None = None) -> int:
    """The command line of the proofs."""
    parser = argparse.ArgumentParser(prog="scripts/proof", description="Proofs that exclusion holds, in full.")
    proofs = parser.add_subparsers(required=True, dest="proof", metavar="PROOF")
    proofs.add_parser("faults", help="every fault of the wire at every verb, as a table")
    simulation = proofs.add_parser("simulate", help="seeded schedules of contenders, network, failovers and clocks")
    simulation.add_argument("--steps", type=int, default=1_000_000, help="steps in all (default: %(default)s)")
    simulation.add_argument("--seed", type=int, default=1, help="first seed (default: %(default)s)")
    simulation.add_argument(
        "--seeds", type=int, default=1_002, help="how many seeds share the steps (default: %(default)s)"
    )
    chosen = parser.parse_args(arguments)
    if chosen.proof == "faults":
        good = faults()
    else:
        good = simulate(chosen.steps, chosen.seed, chosen.seeds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
