"""The blocking way to do a call: ask, wait, obey. Ten lines for each; every decision is made by the call.

Used by ``SqlLease`` and, under asyncio too, by the thread that keeps a lease alive.
"""

from __future__ import annotations

import time
from contextlib import suppress

from tenacity import Retrying

from .base import LeaseBase
from .calls import Call, Find, Release
from .errors import LeaseError
from .faults import Fault, Retry
from .grants import Verdict
from .replica import Confirmation
from .store import LeaseStore


def perform(call: Call, store: LeaseStore) -> bool:
    """Does the whole call: the question, the replica's confirmation, and what has to be given back."""
    verdict = ask(call, store)
    if verdict.confirm is not None:
        verdict = confirm(verdict.confirm, store)
    if verdict.give_back:
        with suppress(LeaseError):
            give_back(call.lease, store, budget=0.0)
    if verdict.error is not None:
        raise verdict.error
    return verdict.value


def give_back(
    lease: LeaseBase, store: LeaseStore, release: Release | None = None, *, budget: float | None = None
) -> bool:
    """Releases the present tenure, or the row that an unanswered message may have left."""
    if perform(release or Release(lease, budget=budget), store):
        return True
    find = Find(lease, budget=budget)
    return lease._belief.in_doubt and perform(find, store) and perform(Release(lease, find.began, budget=budget), store)


def confirm(confirmation: Confirmation, store: LeaseStore) -> Verdict:
    """Looks at the replica until the confirmation is decided. Interrupted, a new tenure is given back."""
    try:
        while (pause := confirmation.pause()) is not None:
            time.sleep(pause)
            store.look(confirmation)
    except BaseException:
        if confirmation.grant.fresh:
            with suppress(LeaseError):
                give_back(confirmation.lease, store, budget=0.0)
        raise
    return confirmation.verdict()


def ask(call: Call, store: LeaseStore) -> Verdict:
    """The question alone, with its retries."""
    if call.void:
        return Verdict(False)
    call.begin()
    failed: Retry | None
    try:
        return _attempt(call, store)
    except Retry as retry:
        failed = retry
    # Only now tenacity, which would be a third of the work of each call. Its first attempt is the one that has failed.
    fault: Fault
    try:
        for attempt in Retrying(**call.policy(), sleep=time.sleep):
            with attempt:
                if failed is not None:
                    first, failed = failed, None
                    raise first
                return _attempt(call, store)
        raise AssertionError("tenacity ended without an outcome")
    except Retry as retry:
        fault = retry.fault
    # Outside the handler, so that the driver's trouble hangs on no chain.
    return call.exhausted(fault)


def _attempt(call: Call, store: LeaseStore) -> Verdict:
    options = call.options
    return store.ask(
        call.prepare,
        call.settle,
        command_timeout=options.command_timeout,
        login_timeout=options.login_timeout,
        patience=call.left,
    )
