"""``scripts/proof``: runs one proof in full and says what came of it. Exit code 0 when it holds, 1 when not."""

from __future__ import annotations

import argparse
import sys

from .faults import faults
from .fence_transfers import fence
from .mutants import mutants
from .simulate import BROKEN, PLANS, STEPS_A_SEED, replay, simulate
from .stress import stress


def main(arguments: list[str] | None = None) -> int:
    """The command line of the proofs."""
    parser = argparse.ArgumentParser(prog="scripts/proof", description="Proofs that exclusion holds, in full.")
    proofs = parser.add_subparsers(required=True, dest="proof", metavar="PROOF")
    proofs.add_parser("faults", help="every fault of the wire at every verb, as a table")
    simulation = proofs.add_parser("simulate", help="seeded schedules of contenders, network, failovers and clocks")
    simulation.add_argument("--seeds", type=int, default=1_000, help="how many (default: %(default)s)")
    simulation.add_argument(
        "--steps", type=int, help=f"shared by the seeds; with --seed, for it alone (default: {STEPS_A_SEED} a seed)"
    )
    simulation.add_argument("--seed", type=int, help="replay this one instead")
    simulation.add_argument(
        "--plan", choices=[*PLANS, *BROKEN], help="what the replay is made of (default: that of its number)"
    )
    transfers = proofs.add_parser("fence", help="transfers under the fence, and without it")
    transfers.add_argument("--transfers", type=int, default=1_000, help="how many (default: %(default)s)")
    transfers.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    crowd = proofs.add_parser("stress", help="real processes, killed and stopped, over links that are cut")
    crowd.add_argument("--processes", type=int, default=32, help="(default: %(default)s)")
    crowd.add_argument("--seconds", type=float, default=60.0, help="(default: %(default)s)")
    crowd.add_argument("--seed", type=int, default=1, help="(default: %(default)s)")
    crowd.add_argument("--broken", action="store_true", help="without a lease: overlaps must be seen")
    seeded = proofs.add_parser("mutants", help="seeded faults in the library, each to be caught by tests")
    seeded.add_argument("names", nargs="*", metavar="NAME", help="only these (default: all)")
    chosen = parser.parse_args(arguments)
    if chosen.proof == "faults":
        good = faults()
    elif chosen.proof == "fence":
        good = fence(chosen.transfers, chosen.seed)
    elif chosen.proof == "stress":
        good = stress(chosen.processes, chosen.seconds, broken=chosen.broken, seed=chosen.seed)
    elif chosen.proof == "mutants":
        good = mutants(chosen.names)
    elif chosen.seed is not None:
        good = replay(chosen.seed, chosen.steps or STEPS_A_SEED, chosen.plan)
    else:
        good = simulate(chosen.steps or chosen.seeds * STEPS_A_SEED, chosen.seeds)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
