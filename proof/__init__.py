"""The proofs that exclusion holds: faults on the wire, a simulation, stress with real processes, mutants, the fence.

Not part of the installed package. ``scripts/proof`` runs them in full; the test suite runs a slice of each.
"""
