"""What a lease costs, in ratios: against the bare driver that sends the same statement, and against sqlalchemy-dlock.

Both sides of a ratio take turns within one run on the same stand-in, which has a process of its own. ``scripts/bench``
runs it.
"""
