"""``hold()``, ``try_hold()``, ``run()`` for asyncio. What all colours share is in ``hold`` and ``keepalive``.

The keep-alive is a thread here too, with a connection of its own: work that starves the loop must not starve the
renewals.
"""

from __future__ import annotations

import asyncio
import time
from abc import abstractmethod
from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack, suppress
from types import TracebackType
from typing import Any, TypeVar

from sqllease.base import LeaseBase
from sqllease.errors import LeaseError, LeaseNotAcquired
from sqllease.fence import Fence
from sqllease.hold import HoldBase, Outcome, Terms, claim, complete, hand_over, not_acquired, publish, unclaim
from sqllease.keepalive import KeepAlive
from sqllease.leaving import RELEASE_PATIENCE_S, Leaving, report
from sqllease.lost import Lost
from sqllease.options import Seconds, seconds
from sqllease.pacing import next_try

from . import fence

T = TypeVar("T")


class AsyncLost(Lost):
    """``Lost``, to be awaited: ``await held.lost.wait()``. Set from any thread."""

    async def wait(self, timeout: float | None = None) -> bool:  # type: ignore[override]
        """Waits until the hold is lost, at most ``timeout`` seconds; whether it is. A hold that ends in order is never
        lost.
        """
        loop = asyncio.get_running_loop()
        heard = asyncio.Event()

        def tell() -> None:
            with suppress(RuntimeError):  # that loop is closed: nobody waits there any more
                loop.call_soon_threadsafe(heard.set)

        ends = None if timeout is None else time.monotonic() + timeout
        self.listen(tell)
        try:
            while not self.is_set():
                pause = self._pause(ends)
                if pause is None:
                    return False
                with suppress(TimeoutError):
                    async with asyncio.timeout(pause):
                        await heard.wait()
        finally:
            self.forget(tell)
        return True


class AsyncHold(HoldBase):
    """A held lease, given by ``async with lease.hold() as held``."""

    lease: AsyncHoldable
    lost: AsyncLost

    def _make_lost(self) -> AsyncLost:
        return AsyncLost(self.lease.name, self.lease.owner_id, self._stake.left, self._stake.forsake)

    async def ensure(self, least: Seconds) -> None:
        """As ``Hold.ensure``."""
        self.check()
        if self.remaining < seconds("least", least):
            await self._renew(None)

    async def extend(self, duration: Seconds) -> None:
        """As ``Hold.extend``."""
        await self._renew(duration)

    async def fence(self, connection: Any) -> None:
        """As ``AsyncSqlLease.fence``, for the tenure that this hold was entered with."""
        self.check()
        await fence.check(Fence(self.lease, self._stake.began), connection)

    def fenced(self, connection: Any) -> AbstractAsyncContextManager[Any]:
        """As ``AsyncSqlLease.fenced``, for the tenure that this hold was entered with."""
        self.check()
        return fence.transaction(self.lease, self._stake.began, connection)

    def renew_blocking(self) -> bool:
        """For the keep-alive's thread."""
        return self.lease._renew_blocking()

    async def _renew(self, duration: Seconds | None) -> None:
        self._check_may_renew()
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
    async def _release(self, patience: float | None = None) -> bool | None: ...

    @abstractmethod
    async def _release_behind(self, began: str) -> None:
        """Sends a release that no cancel stops, and waits for it a moment."""

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
        """As ``SqlLease.hold``, with ``async with``. A cancelled wait leaves nothing behind; a cancelled body releases.

        The keep-alive is a thread here too. on_lost is a plain function, called from any thread: mostly not the loop's.
        """
        return _Block(
            self, Terms.of(self._options, timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold)
        )

    def try_hold(
        self,
        *,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> AbstractAsyncContextManager[AsyncHold | None]:
        """As ``hold(timeout=0)``, but gives None when another owner has the lease."""
        return _TryBlock(self, Terms.of(self._options, 0, 1.0, keep_alive, hold_at_least, on_lost, max_hold))

    async def run(
        self,
        work: Callable[[AsyncHold], Awaitable[T]],
        *,
        timeout: Seconds | None = 0,
        poll_interval: Seconds = 1.0,
        keep_alive: bool = True,
        hold_at_least: Seconds | None = None,
        on_lost: Callable[[], object] | None = None,
        max_hold: Seconds | None = None,
    ) -> Outcome[T]:
        """As ``SqlLease.run``, for a coroutine function."""
        block = _Block(
            self, Terms.of(self._options, timeout, poll_interval, keep_alive, hold_at_least, on_lost, max_hold)
        )
        async with AsyncExitStack() as stack:
            try:
                held = await stack.enter_async_context(block)
            except LeaseNotAcquired as error:
                return Outcome(False, holder=error.holder)
            return Outcome(True, value=complete(await work(held)))


class _Block:
    """The ``async with`` block of one hold."""

    def __init__(self, lease: AsyncHoldable, terms: Terms) -> None:
        self._lease, self._terms = lease, terms

    async def __aenter__(self) -> AsyncHold:
        lease, terms = self._lease, self._terms
        claim(lease, self)
        try:
            await self._wait()
            try:
                self._hold = AsyncHold(lease, terms)
                self._keeper = KeepAlive(self._hold, terms.pace)
            except BaseException:
                with suppress(LeaseError):
                    await lease._release()
                raise
        except BaseException:
            unclaim(lease)
            raise
        hand_over(lease, self._hold)
        publish(self._hold)
        return self._hold

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        leaving = Leaving(self._hold)
        cancel = None
        try:
            if leaving.here:
                giving_back = asyncio.ensure_future(self._give_back(leaving))
                cancel = await _see_through(giving_back)
                if not giving_back.done():
                    leaving.stopped(in_time=True)  # decides now, before the end below, what is still to be sent
        finally:
            trouble = leaving.end()
        if cancel is not None and not isinstance(error, asyncio.CancelledError):
            if trouble is not None:
                cancel.add_note(str(trouble))
            raise cancel
        report(trouble, error)

    async def _give_back(self, leaving: Leaving) -> None:
        hold, keeper = self._hold, self._keeper
        try:
            keeper.stop()
            with suppress(TimeoutError):
                async with asyncio.timeout(hold.remaining):
                    await asyncio.shield(asyncio.wrap_future(keeper.ended))
            patience = leaving.stopped(in_time=keeper.ended.done())
            if patience is None:
                return
            leaving.released(await self._lease._release(patience))
        except asyncio.CancelledError:
            # Out of patience, or the loop is being closed: the release is not to be lost with this task.
            if leaving.stopped(in_time=True) is not None:
                await self._lease._release_behind(hold._stake.began)
            raise
        except Exception as trouble:  # noqa: BLE001  reported behind the body's own
            leaving.failed(trouble)

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


async def _see_through(leaving: asyncio.Task[None]) -> asyncio.CancelledError | None:
    """Waits for the release whatever cancels this task meanwhile; after that, no longer than a release may take.

    Returns the cancel that came.
    """
    cancel: asyncio.CancelledError | None = None
    patience: float | None = None
    while not leaving.done() and (patience is None or patience > 0):
        began = time.monotonic()
        try:
            await asyncio.wait([leaving], timeout=patience)
        except asyncio.CancelledError as error:
            cancel = error
            patience = RELEASE_PATIENCE_S if patience is None else patience
        if patience is not None:
            patience -= time.monotonic() - began
    if not leaving.done():
        leaving.cancel()
    return cancel


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
        entered, self._entered = self._entered, False  # a block may be used again
        if entered:
            await self._block.__aexit__(kind, error, trace)
