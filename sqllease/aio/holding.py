"""``hold()``, ``try_hold()``, ``run()`` for asyncio. What all colours share is in ``hold`` and ``keepalive``.

The keep-alive is a thread here too, with a connection of its own: work that starves the loop must not starve the
renewals.
"""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, ExitStack
from types import TracebackType
from typing import Any, TypeVar

from sqllease import journal
from sqllease.base import LeaseBase
from sqllease.errors import LeaseError, LeaseLost, LeaseNotAcquired
from sqllease.fence import Fence
from sqllease.hold import HoldBase, Outcome, Terms, claim, entered, not_acquired
from sqllease.keepalive import KeepAlive
from sqllease.lost import Lost
from sqllease.options import Seconds, seconds
from sqllease.pacing import next_try

from . import fence
from .connection import behind

T = TypeVar("T")


class AsyncLost(Lost):
    """``Lost``, to be awaited: ``await held.lost.wait()``. Set from any thread."""

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Waits until the hold is lost, at most ``timeout`` seconds; whether it is."""
        loop = asyncio.get_running_loop()
        heard = asyncio.Event()

        def tell() -> None:
            if not loop.is_closed():
                loop.call_soon_threadsafe(heard.set)

        self.listen(tell)
        try:
            await asyncio.wait_for(heard.wait(), timeout)
        except TimeoutError:
            pass
        finally:
            self.forget(tell)
        return self.is_set()


class AsyncHold(HoldBase):
    """A held lease, given by ``async with lease.hold() as held``."""

    lease: AsyncHoldable
    lost: AsyncLost

    def _make_lost(self) -> AsyncLost:
        return AsyncLost(self.lease.name, self.lease.owner_id, self._still_held)

    async def ensure(self, least: Seconds) -> None:
        """Renews when less than ``least`` seconds are left. Raises LeaseLost, or LeaseStoreError when nobody knows."""
        if self.remaining < seconds("least", least):
            await self._renew(None)

    async def extend(self, duration: Seconds) -> None:
        """Renews for ``duration`` from now instead of the lease's own, once. Never shortens. Errors as ``ensure``."""
        await self._renew(duration)

    async def fence(self, connection: Any) -> None:
        """As ``AsyncSqlLease.fence``, for the tenure that this hold was entered with."""
        self.check()
        await fence.check(Fence(self.lease, self._began), connection)

    def fenced(self, connection: Any) -> AbstractAsyncContextManager[Any]:
        """As ``AsyncSqlLease.fenced``, for the tenure that this hold was entered with."""
        self.check()
        return fence.transaction(self.lease, self._began, connection)

    def renew_blocking(self) -> bool:
        """For the keep-alive's thread."""
        return self.lease._renew_blocking()

    async def _renew(self, duration: Seconds | None) -> None:
        self.check()
        if not await self.lease._renew(duration):
            self.lost.set("a renewal found it gone, expired or taken", told=True)
        self.check()


class AsyncHoldable(LeaseBase):
    """What turns the verbs of an async lease into holds."""

    @abstractmethod
    async def _acquire(self, terms: Terms | None) -> bool: ...

    @abstractmethod
    async def _renew(self, duration: Seconds | None) -> bool: ...

    @abstractmethod
    def _renew_blocking(self) -> bool: ...

    @abstractmethod
    async def _release(self) -> bool | None: ...

    @abstractmethod
    def _abandon(self) -> None: ...

    def hold(
        self,
        timeout: Seconds | None = None,
        poll_interval: Seconds = 1.0,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractAsyncContextManager[AsyncHold]:
        """As ``SqlLease.hold``, with ``async with``. A cancelled wait leaves nothing behind."""
        return _Block(self, self._terms(timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold))

    def try_hold(
        self,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractAsyncContextManager[AsyncHold | None]:
        """As ``hold(timeout=0)``, but gives None when another owner has the lease."""
        return _TryBlock(self, self._terms(0, 1.0, keep_alive, hold_at_least, on_lost, max_hold))

    async def run(
        self,
        work: Callable[[AsyncHold], Awaitable[T]],
        *,
        timeout: Seconds | None = 0,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> Outcome[T]:
        """As ``SqlLease.run``, for a coroutine function."""
        block = _Block(self, self._terms(timeout, 1.0, keep_alive, hold_at_least, on_lost, max_hold))
        try:
            held = await block.__aenter__()
        except LeaseNotAcquired as error:
            return Outcome(False, holder=error.holder)
        async with AsyncExitStack() as stack:
            stack.push_async_exit(block)
            return Outcome(True, value=await work(held))

    def _terms(
        self,
        timeout: Seconds | None,
        poll_interval: Seconds,
        keep_alive: bool,
        hold_at_least: Seconds | None,
        on_lost: Callable[[], object] | None,
        max_hold: Seconds | None,
    ) -> Terms:
        return Terms.of(
            self._options,
            timeout=timeout,
            poll_interval=poll_interval,
            keep_alive=keep_alive,
            hold_at_least=hold_at_least,
            on_lost=on_lost,
            max_hold=max_hold,
        )


class _Block:
    """The ``async with`` block of one hold."""

    def __init__(self, lease: AsyncHoldable, terms: Terms) -> None:
        self._lease, self._terms = lease, terms
        self._undo = ExitStack()

    async def __aenter__(self) -> AsyncHold:
        lease, terms = self._lease, self._terms
        claim(lease)
        try:
            await self._wait()
            self._hold = AsyncHold(lease, terms)
            self._keeper = KeepAlive(self._hold, terms.pace)
            self._undo.enter_context(entered(self._hold))
        except BaseException:
            lease._claimed = False
            raise
        return self._hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
        leaving = asyncio.ensure_future(self._leave())
        try:
            loss = await asyncio.shield(leaving)
        except asyncio.CancelledError:
            # A cancel of the body, or a second one here: the release is not to be lost with it.
            await asyncio.wait([leaving])
            raise
        if loss is not None and error is None:
            raise loss
        if loss is not None and error is not None and not isinstance(error, LeaseLost):
            error.add_note(str(loss))

    async def _wait(self) -> None:
        lease, terms = self._lease, self._terms
        began, slept = lease._clock.now(), 0.0
        while not await lease._acquire(terms):
            left = None
            if terms.timeout is not None:
                left = terms.timeout - max(lease._clock.now() - began, slept)
            pause = next_try(lease.holder, lease._options.takeover_grace, terms.poll_interval, left)
            if pause is None:
                raise LeaseNotAcquired(not_acquired(lease, terms), lease.holder)
            await asyncio.sleep(pause)
            slept += pause

    async def _leave(self) -> LeaseLost | None:
        lease, hold, keeper = self._lease, self._hold, self._keeper
        try:
            stopped: list[bool] = []
            patience = hold.remaining
            await asyncio.wrap_future(behind(lambda: stopped.append(keeper.stop(patience))))
            if not stopped or not stopped[0]:
                lease._abandon()
            hold.lost.is_set()
            if lease.held:
                try:
                    if await lease._release() is False:
                        hold.lost.set("its release found it gone or taken")
                except LeaseError as error:
                    journal.hold_ended(lease.name, lease.owner_id, error)
            hold._over = True
            hold.lost.over()
            return hold._loss() if hold.lost.is_set() else None
        finally:
            lease._claimed = False


class _TryBlock:
    """The ``async with`` block of one try."""

    def __init__(self, lease: AsyncHoldable, terms: Terms) -> None:
        self._block = _Block(lease, terms)
        self._entered = False

    async def __aenter__(self) -> AsyncHold | None:
        try:
            hold = await self._block.__aenter__()
        except LeaseNotAcquired:
            return None
        self._entered = True
        return hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._entered:
            await self._block.__aexit__(kind, error, trace)
