"""``AsyncSqlLease``: the lease for asyncio. It asks, waits and obeys; what is sent and what an answer means stands in
``base``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress

from tenacity import AsyncRetrying

from sqllease.calls import Acquire, Call, Find, Release, Renew
from sqllease.clock import SYSTEM_CLOCK, Clock
from sqllease.connection import Connect
from sqllease.errors import LeaseError, LeaseStoreError
from sqllease.faults import Fault, Retry
from sqllease.grants import Verdict
from sqllease.hold import Terms
from sqllease.options import LeaseOptions, Seconds
from sqllease.replica import Confirmation
from sqllease.shell import perform

from .fence import AsyncFencing
from .holding import AsyncHoldable
from .store import AsyncLeaseStore
from .turns import Turns

_DEFAULTS = LeaseOptions()


class AsyncSqlLease(AsyncHoldable, AsyncFencing):
    """One owner of one named lease, for asyncio. Arguments, answers and errors as those of ``SqlLease``, with
    ``await`` before the verbs.

    A cancelled verb raises CancelledError at once, or after at most a second: the statement is cancelled on the
    server, followed to its end on a thread of its own, and a lease that it won after all is given back. Bound to no
    loop.
    """

    def __init__(
        self,
        name: str,
        connection: str | Connect | AsyncLeaseStore,
        *,
        owner_id: str | None = None,
        metadata: str | None = None,
        options: LeaseOptions = _DEFAULTS,
        clock: Clock = SYSTEM_CLOCK,
    ) -> None:
        self._private = not isinstance(connection, AsyncLeaseStore)
        self._store = (
            connection if isinstance(connection, AsyncLeaseStore) else AsyncLeaseStore(connection, max_connections=1)
        )
        self._turns = Turns(1)
        super().__init__(
            name,
            owner_id=owner_id,
            metadata=metadata,
            options=options,
            clock=clock,
            statements=self._store._statements,
            sweep=self._store._sweep,
            replica=self._store._replica,
        )

    async def try_acquire(self) -> bool:
        """As ``SqlLease.try_acquire``."""
        return await self._acquire(None)

    async def try_renew(self) -> bool:
        """As ``SqlLease.try_renew``."""
        return await self._renew(None, raw=True)

    async def try_release(self) -> bool:
        """As ``SqlLease.try_release``."""
        return bool(await self._release(raw=True))

    async def aclose(self) -> None:
        """Closes the connections, unless they belong to a store that was handed in. Does not release the lease."""
        if self._private:
            await self._store.aclose()

    async def _acquire(self, terms: Terms | None) -> bool:
        options = self._options if terms is None else terms.options
        acquire = Acquire(self, options)
        async with self._one_at_a_time(acquire.left, raw=terms is None):
            self._present_options = options
            return await self._perform(acquire)

    async def _renew(self, duration: Seconds | None, *, raw: bool = False) -> bool:
        if not self._here:
            return False
        async with self._one_at_a_time(raw=raw):
            return await self._perform(Renew(self, duration))

    def _renew_blocking(self) -> bool:
        if not self._here:
            return False
        # An awaited renewal gives its turn back only when the loop goes on. Two renewals do each other no harm: at
        # worst the belief keeps the earlier deadline.
        in_turn = self._turns.take_blocking(min(self.remaining, self._options.command_timeout))
        try:
            return perform(Renew(self), self._store.blocking)
        finally:
            if in_turn:
                self._turns.give()

    async def _release(self, patience: float | None = None, *, raw: bool = False) -> bool | None:
        if not self._here:
            return False
        async with self._one_at_a_time(patience, raw=raw):
            release = Release(self, budget=patience)
            done = await self._give_back(release, budget=patience)
            return done or (None if release.repeated else False)

    async def _release_behind(self, began: str) -> None:
        await self._send_behind(Release(self, began))

    async def _send_behind(self, release: Release) -> None:
        options = self._options
        await self._store.send_behind(release.prepare(), options.command_timeout, options.login_timeout)

    @asynccontextmanager
    async def _one_at_a_time(self, patience: float | None = None, *, raw: bool = False) -> AsyncIterator[None]:
        if raw:
            self._refuse_when_claimed()
        if not await self._turns.take(self._options.duration if patience is None else patience):
            raise self._busy()
        try:
            if raw:
                self._refuse_when_claimed()  # a hold may have been entered while this one waited
            yield
        finally:
            self._turns.give()

    def _busy(self) -> LeaseStoreError:
        return LeaseStoreError(f"lease {self._name!r}: another call has not come back", transient=True)

    async def _perform(self, call: Call) -> bool:
        verdict = await self._ask(call)
        if verdict.confirm is not None:
            verdict = await self._confirm(verdict.confirm)
        if verdict.give_back:
            with suppress(LeaseError):
                await self._give_back(budget=0.0)
        if verdict.error is not None:
            raise verdict.error
        return verdict.value

    async def _give_back(self, release: Release | None = None, *, budget: float | None = None) -> bool:
        if await self._perform(release or Release(self, budget=budget)):
            return True
        find = Find(self, budget=budget)
        return (
            self._belief.in_doubt
            and await self._perform(find)
            and await self._perform(Release(self, find.began, budget=budget))
        )

    async def _confirm(self, confirmation: Confirmation) -> Verdict:
        try:
            while (pause := confirmation.pause()) is not None:
                await asyncio.sleep(pause)
                await self._store.look(confirmation)
        except BaseException:
            release = Release(self) if confirmation.grant.fresh else None
            if release is not None and not release.void:
                await self._send_behind(release)
            raise
        return confirmation.verdict()

    async def _ask(self, call: Call) -> Verdict:
        if call.void:
            return Verdict(False)
        call.begin()
        fault: Fault
        options = call.options
        try:
            async for attempt in AsyncRetrying(**call.policy()):
                with attempt:
                    return await self._store.ask(
                        call.prepare,
                        call.settle,
                        too_late=call.too_late,
                        command_timeout=options.command_timeout,
                        login_timeout=options.login_timeout,
                        patience=call.left,
                    )
            raise AssertionError("tenacity ended without an outcome")
        except Retry as retry:
            fault = retry.fault
        # Outside the handler, so that the driver's trouble hangs on no chain.
        return call.exhausted(fault)
