"""A cron job on several hosts that runs once: APScheduler on each of them, the lease between them."""

from __future__ import annotations

# --- README: APScheduler
from collections.abc import Callable

from apscheduler.schedulers.background import BackgroundScheduler

from sqllease import LeaseOptions, LeaseStore, guarded


def schedule(connection_string: str, send_invoices: Callable[[], int]) -> BackgroundScheduler:
    store = LeaseStore(connection_string)
    store.ensure_created()

    # Every host starts the job at 02:00 by its own clock; the first one runs it. hold_at_least: a job that ends in 5 ms
    # must not run again on a host whose clock is a minute late.
    @guarded(store, "nightly-invoices", options=LeaseOptions(hold_at_least=600))
    def nightly_invoices() -> int:
        return send_invoices()

    scheduler = BackgroundScheduler()
    scheduler.add_job(nightly_invoices, "cron", hour=2, id="nightly-invoices")
    return scheduler


# --- end
