"""One contender of the demo, a process of its own: takes the lease, works under it, gives it back. Says what happens
as JSON lines.

The connection string comes in the environment, where no process list shows it.
"""

from __future__ import annotations

import json
import os
import sys
import time

from sqllease import LeaseError, LeaseOptions, LeaseStore, SqlLease

CONNECTION_VARIABLE = "SQLLEASE_DEMO_CONNECTION"
DURATION_S = 3.0
POLL_S = 0.3
STEPS = 4


def say(what: str, **details: object) -> None:
    """One event on standard output."""
    print(json.dumps({"at": time.time(), "what": what, **details}), flush=True)


def wait_for(lease: SqlLease) -> None:
    """Polls until the lease is ours; tells of each other holder once."""
    told = None
    while not lease.try_acquire():
        holder = lease.holder
        if holder is not None and holder.owner_id != told:
            told = holder.owner_id
            say("refused", holder=holder.owner_id, remaining=holder.remaining)
        time.sleep(POLL_S)


def work(lease: SqlLease) -> None:
    """A few steps, each with a check before and a renew after."""
    for step in range(1, STEPS + 1):
        lease.check()
        say("step", step=step, of=STEPS, remaining=lease.remaining)
        time.sleep(DURATION_S / 3)
        if not lease.try_renew():
            say("lost")
            return
    say("released", ours=lease.try_release())


def main(name: str, lease_name: str) -> int:
    """Runs one contender to its end; 0, or 1 when the database failed it."""
    store = LeaseStore(os.environ[CONNECTION_VARIABLE])
    lease = store.lease(lease_name, owner_id=name, options=LeaseOptions(duration=DURATION_S))
    try:
        wait_for(lease)
        say("acquired", token=lease.fencing_token, until=str(lease.expires_at))
        work(lease)
    except LeaseError as error:
        say("failed", error=str(error))
        return 1
    finally:
        store.close()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
