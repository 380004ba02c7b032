"""``AsyncLeaderElection``: one leader at a time, for asyncio. What all colours share is in ``candidate``, the rules are
in ``candidacy``.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from contextvars import Context, copy_context
from typing import Any

from sqllease import journal
from sqllease.answers import LeaseInfo
from sqllease.candidacy import Event, Order
from sqllease.candidate import LOOK_S, RELEASE_LIMIT_S, CandidateBase, OnNewLeader, OnStopped, TermBase, check_ran
from sqllease.errors import LeaseError, LeaseInUse, LeaseLost
from sqllease.options import Seconds

from .holding import AsyncHold, AsyncHoldable


class _Term(TermBase):
    hold: AsyncHold
    work: asyncio.Task[None] | None = None
    stopping = False  # on_stopped has begun

    def __init__(self, block: AbstractAsyncContextManager[AsyncHold | None], hold: AsyncHold, context: Context) -> None:
        super().__init__(hold, context)
        self.block = block

    def tell(self) -> None:
        if not self.stopping:  # a loss or a resignation that comes now has nothing left to stop
            self.cancel()

    def cancel(self) -> None:
        if self.work is not None:
            self.work.cancel()


class AsyncLeaderElection(CandidateBase[_Term]):
    """As ``LeaderElection``, with coroutines.

    on_started(held): the leader's coroutine, in a task that is cancelled when the lease is lost and when the leader
    resigns; it gets the ``AsyncHold``. It is cancelled once: what it does then is draining, under the lease as long as
    that is not lost. on_stopped and on_new_leader (and prepare) may be coroutine functions; the first belongs to the
    work but is not cancelled, the second runs beside, one call after the other. News that are due when ``run`` ends
    have 5 s.

    Not guaranteed besides: that work which blocks the loop is cancelled. Its lease is renewed all the same, by a
    thread, and ``held.check()`` tells; ``healthy()`` asked from another thread tells too.
    """

    def __init__(
        self,
        lease: AsyncHoldable,
        on_started: Callable[[AsyncHold], Awaitable[object]],
        on_stopped: OnStopped | None = None,
        on_new_leader: OnNewLeader | None = None,
        *,
        poll_interval: Seconds = 1.0,
        drain_timeout: Seconds | None = None,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        lease.try_hold()  # sends nothing: refuses numbers that cannot work
        super().__init__(lease, on_stopped, on_new_leader, poll_interval, drain_timeout, prepare)
        self._lease, self._on_started = lease, on_started
        self._loop: asyncio.AbstractEventLoop | None = None
        self._events: asyncio.Queue[tuple[Event, _Term | None]] = asyncio.Queue()
        self._news: asyncio.Queue[LeaseInfo | None] = asyncio.Queue()
        self._resigned = False
        self._resignation: asyncio.Future[None] | None = None
        self._asking: asyncio.Task[None] | None = None

    async def run(self) -> None:
        """Takes part until ``resign()`` or a cancel, and returns when the work has returned and the release is sent, or
        after its drain_timeout: ``state`` tells which. Once per object.

        A cancel resigns, and CancelledError comes through after that; each further cancel is handed to the work. Await
        it to its end: a loop that closes earlier takes the release with it. Raises LeaseInUse when the lease object is
        in other use.
        """
        self._begin()
        self._loop = asyncio.get_running_loop()
        self._resignation = self._loop.create_future()
        if self._resigned:
            self._hear(Event.RESIGN, None)
        deciding = asyncio.create_task(self._run(), name="sqllease-election")
        telling = asyncio.create_task(self._tell_news(), name="sqllease-news")
        cancelled: asyncio.CancelledError | None = None
        while not deciding.done():
            try:
                await asyncio.wait([deciding])
            except asyncio.CancelledError as error:
                if cancelled is not None and self._term is not None:
                    self._term.cancel()
                cancelled = error
                self.resign()
        self._news.put_nowait(None)
        try:
            await asyncio.wait([telling], timeout=RELEASE_LIMIT_S)
        except asyncio.CancelledError as error:
            cancelled = error
        if telling.cancel():
            journal.news_cut_off(self._lease.name, self._lease.owner_id)
        if cancelled is not None:
            raise cancelled
        deciding.result()

    def resign(self) -> None:
        """Steps down, once and for all: the work is cancelled. Returns at once; from any thread or signal handler, also
        before ``run``.
        """
        self._resigned = True
        self._post(Event.RESIGN)

    def _post(self, event: Event, term: _Term | None = None) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self._hear, event, term)

    def _hear(self, event: Event, term: _Term | None) -> None:
        self._events.put_nowait((event, term))
        if event is not Event.RESIGN:
            return
        if self._resignation is not None and not self._resignation.done():
            self._resignation.set_result(None)
        if self._asking is not None:
            self._asking.cancel()

    async def _run(self) -> None:
        try:
            while not self._candidacy.over or not self._events.empty():
                try:
                    await self._step()
                except asyncio.CancelledError:  # from whoever cancels all tasks
                    self.resign()
        except BaseException as bug:
            self._bug = bug
            self._give_up("the election has failed")
            raise

    async def _step(self) -> None:
        pause = self._candidacy.pause(self._lease._clock.now())
        event, term = None, None
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(None if pause is None else min(pause, LOOK_S)):
                event, term = await self._events.get()
        match self._react(event, term):
            case Order.CAMPAIGN:
                await self._ask()
            case Order.START:
                self._start()
            case Order.LEAVE:
                await self._leave()

    async def _ask(self) -> None:
        context = copy_context()
        self._asking = asking = _task(self._campaign(context), context)
        while not asking.done():
            try:
                await asyncio.wait([asking])
            except asyncio.CancelledError:
                self.resign()
        self._asking = None
        try:
            asking.result()
        except asyncio.CancelledError as error:
            if not self._resigned:  # not the asking was cancelled, but something that it awaited
                self._events.put_nowait((self._unanswered(error), None))

    async def _campaign(self, context: Context) -> None:
        # What is won goes on record in one step with the winning: no cancel can come between.
        self._events.put_nowait((await self._try(context), None))

    async def _try(self, context: Context) -> Event:
        try:
            if self._prepare is not None:
                await _result("prepare", self._prepare())
        except Exception as error:  # noqa: BLE001  the user's code
            return self._unanswered(error)
        self._prepare = None
        block = self._lease.try_hold()
        try:
            hold = await block.__aenter__()
        except LeaseInUse:
            raise
        except LeaseError as error:
            return self._unanswered(error)
        return self._answered(None if hold is None else _Term(block, hold, context))

    def _start(self) -> None:
        term = self._term
        assert term is not None
        term.work = _task(self._work(term), term.context.copy())  # assert_held() finds the hold
        term.work.add_done_callback(lambda _: self._post(Event.RETURNED, term))
        term.hold.lost.listen(lambda: self._post(Event.LOST, term))

    async def _work(self, term: _Term) -> None:
        error: BaseException | None = None
        try:
            await self._on_started(term.hold)
        except KeyboardInterrupt:
            raise
        except BaseException as raised:  # noqa: BLE001  also sys.exit(): the work is over, the lease must not live on
            error = raised
        if isinstance(error, asyncio.CancelledError) and term.told:
            error = None
        term.stopping = True
        _uncancel()
        cause = term.ended(error)
        if self._on_stopped is not None:
            await self._call("on_stopped", self._on_stopped, cause)

    async def _leave(self) -> None:
        term = self._term
        assert term is not None
        assert self._resignation is not None
        leaving = _task(self._exit(term), term.context)
        # The limit holds also for a resignation that comes meanwhile.
        await asyncio.wait([leaving, self._resignation], return_when=asyncio.FIRST_COMPLETED)
        await asyncio.wait([leaving], timeout=RELEASE_LIMIT_S)
        if not leaving.done():
            journal.leaves_unreleased(self._lease.name, self._lease.owner_id, RELEASE_LIMIT_S)
        self._term = None

    async def _exit(self, term: _Term) -> None:
        try:
            with contextlib.suppress(LeaseLost):
                await term.block.__aexit__(None, None, None)
        except Exception as error:  # noqa: BLE001  whatever it is, this candidate goes on
            journal.not_left(self._lease.name, error)

    def _announce(self, info: LeaseInfo) -> None:
        self._news.put_nowait(info)

    async def _tell_news(self) -> None:
        while (info := await self._news.get()) is not None:
            assert self._on_new_leader is not None
            await self._call("on_new_leader", self._on_new_leader, info)

    async def _call(self, name: str, callback: Callable[..., object], argument: object) -> None:
        try:
            await _result(name, callback(argument))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a callback's bug must not break the election
            if isinstance(error, asyncio.CancelledError) and _cancelled():
                raise
            journal.listener_failed(self._lease.name, error)


async def _result(name: str, value: object) -> None:
    if inspect.isawaitable(value):
        await value
    else:
        check_ran(name, value)


def _cancelled() -> bool:
    """Whether somebody has cancelled the present task: a CancelledError may as well be that of something it awaited."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _uncancel() -> None:
    """The cancels of the present task have been obeyed: what it does next is not cancelled."""
    task = asyncio.current_task()
    while task is not None and task.uncancel():
        pass


def _task(coroutine: Coroutine[Any, Any, Any], context: Context) -> asyncio.Task[Any]:
    return asyncio.get_running_loop().create_task(coroutine, context=context)
