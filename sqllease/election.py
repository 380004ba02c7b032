"""``LeaderElection``: one leader at a time, for blocking work. What all colours share is in ``candidate``, the rules
are in ``candidacy``.

A thread of its own campaigns and decides, another runs the work: nothing that the work, a callback or Ctrl-C does can
stop the deciding one.
"""

from __future__ import annotations

import contextlib
import inspect
import queue
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from contextvars import Context, copy_context

from . import journal
from .answers import LeaseInfo
from .candidacy import WAITING, Event, Order
from .candidate import LOOK_S, RELEASE_LIMIT_S, CandidateBase, OnNewLeader, OnStopped, TermBase, check_ran
from .errors import LeaseError, LeaseInUse, LeaseLost, LeaseValueError
from .holding import Hold, Holdable
from .options import Seconds


class Stop(threading.Event):
    """Set when the work has to stop: its leader resigns, or the lease is lost (as the clock tells, never later)."""

    def __init__(self, hold: Hold) -> None:
        super().__init__()
        self._lost = hold.lost
        hold.lost.listen(self.set)

    def is_set(self) -> bool:
        return super().is_set() or self._lost.is_set()

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(timeout) or self.is_set()


class Leading(TermBase):
    """What the work of a leader is given. Stop when ``stop`` is set: ``while not leading.stop.wait(1): step()``.

    hold: the lease that is held. While the work drains after a resignation, ``check()`` still passes.
    """

    hold: Hold

    def __init__(self, block: AbstractContextManager[Hold | None], hold: Hold, context: Context) -> None:
        super().__init__(hold, context)
        self._block = block
        self.stop = Stop(hold)

    @property
    def fencing_token(self) -> int:
        """As ``Hold.fencing_token``."""
        return self.hold.fencing_token

    def check(self) -> None:
        """Raises LeaseLost when the lease is lost. No I/O: call it before each step of the work."""
        self.hold.check()

    def tell(self) -> None:
        """Sets ``stop``."""
        self.stop.set()


class LeaderElection(CandidateBase[Leading]):
    """One of many processes leads; the others wait for their turn.

    on_started(leading): the leader's work, in a thread of its own; see ``Leading``. While it runs the lease is renewed,
    also after ``resign()``; the lease is released only after it has returned. Returning or raising unasked steps down,
    and the others go first. Threads that it has started count for nothing: join them before it returns.
    on_stopped(cause): the last part of the work, in its thread, still under the lease unless that is lost. cause: the
    error of the work, or LeaseLost, or None. on_new_leader(info): once per change of leader as seen here, in a thread
    for such news. What callbacks raise is logged.
    poll_interval: seconds between two tries. drain_timeout: seconds for which a lease is renewed while work that was
    told to stop has not returned; None without end. Past it nothing is sent any more, ``state`` is OUTLIVED, and
    ``run`` returns. prepare: called before the first try, and again until it does not raise: ``store.ensure_created``.

    Not guaranteed: that work stops when it is told to (a thread cannot be killed: see ``healthy()``); that a paused
    process does not write after its lease has ended (fence, or send ``fencing_token``); fairness; that every change of
    leader is seen; a leader while the database does not answer: each one steps down when its lease runs out.
    """

    def __init__(
        self,
        lease: Holdable,
        on_started: Callable[[Leading], object],
        on_stopped: OnStopped | None = None,
        on_new_leader: OnNewLeader | None = None,
        *,
        poll_interval: Seconds = 1.0,
        drain_timeout: Seconds | None = None,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        functions = {
            "on_started": on_started,
            "on_stopped": on_stopped,
            "on_new_leader": on_new_leader,
            "prepare": prepare,
        }
        for name, function in functions.items():
            if inspect.iscoroutinefunction(function):
                raise LeaseValueError(f"{name} is a coroutine function: use AsyncLeaderElection")
        lease.try_hold()  # sends nothing: refuses numbers that cannot work
        super().__init__(lease, on_stopped, on_new_leader, poll_interval, drain_timeout, prepare)
        self._lease, self._on_started = lease, on_started
        # Of all ways to wake a thread, the one that a signal handler may use too.
        self._events: queue.SimpleQueue[tuple[Event, Leading | None]] = queue.SimpleQueue()
        self._news: queue.SimpleQueue[LeaseInfo | None] = queue.SimpleQueue()
        self._end = threading.Event()
        self._resigned_at: float | None = None

    def run(self) -> None:
        """Takes part until ``resign()``; returns when the work has returned and the lease is released, or past its
        drain_timeout: ``state`` tells which. Once per object. A candidate waits at most 5 s for a question in flight;
        a lease that it wins after that is given back behind its back, if the process lives.

        Ctrl-C, or what else a signal handler raises, resigns, and comes through after that; a second one comes through
        at once, and the election goes on draining behind it as long as the process lives. Raises LeaseInUse when the
        lease object is in other use.
        """
        self._begin()
        deciding = threading.Thread(target=copy_context().run, args=(self._run,), name="sqllease-election", daemon=True)
        try:
            deciding.start()
            self._wait_for_end()
        except BaseException:
            self.resign()
            if deciding.ident is not None:  # else it could not even be started
                self._wait_for_end()
            raise
        if self._bug is not None:
            raise self._bug

    def resign(self) -> None:
        """Steps down, once and for all: the work is told to stop. Returns at once; from any thread or signal handler,
        also before ``run``.
        """
        self._resigned_at = self._resigned_at or time.monotonic()
        self._events.put((Event.RESIGN, None))

    def _wait_for_end(self) -> None:
        # Not join(): up to Python 3.12 one that is interrupted takes the thread for dead. And not without a time limit:
        # Windows hears no Ctrl-C meanwhile.
        while not self._end.wait(LOOK_S):
            since = self._resigned_at
            if since is not None and self.state in WAITING and time.monotonic() > since + RELEASE_LIMIT_S:
                journal.leaves_unanswered(self._lease.name, self._lease.owner_id)
                return

    def _run(self) -> None:
        if self._on_new_leader is not None:
            threading.Thread(target=self._tell_news, name="sqllease-news", daemon=True).start()
        try:
            while not self._candidacy.over or not self._events.empty():
                self._step()
        except BaseException as bug:  # noqa: BLE001  raised by run(), in the caller's thread
            self._bug = bug
            self._give_up("the election has failed")
        finally:
            self._news.put(None)
            self._end.set()

    def _step(self) -> None:
        pause = self._candidacy.pause(self._lease._clock.now())
        event, term = None, None
        with contextlib.suppress(queue.Empty):
            event, term = self._events.get(timeout=None if pause is None else min(pause, LOOK_S))
        match self._react(event, term):
            case Order.CAMPAIGN:
                self._events.put((self._campaign(), None))
            case Order.START:
                self._start()
            case Order.LEAVE:
                self._leave()

    def _campaign(self) -> Event:
        try:
            if self._prepare is not None:
                check_ran("prepare", self._prepare())
        except Exception as error:  # noqa: BLE001  the user's code
            return self._unanswered(error)
        self._prepare = None
        block, context = self._lease.try_hold(), copy_context()
        try:
            hold = context.run(block.__enter__)
        except LeaseInUse:
            raise
        except LeaseError as error:
            return self._unanswered(error)
        return self._answered(None if hold is None else Leading(block, hold, context))

    def _start(self) -> None:
        term = self._term
        assert term is not None
        work = term.context.copy().run  # assert_held() finds the hold
        threading.Thread(target=work, args=(self._work, term), name="sqllease-leader", daemon=True).start()
        term.hold.lost.listen(lambda: self._events.put((Event.LOST, term)))

    def _work(self, term: Leading) -> None:
        error: BaseException | None = None
        try:
            try:
                check_ran("on_started", self._on_started(term))
            except BaseException as raised:  # noqa: BLE001  also sys.exit(): the work is over, the lease must not live on
                error = raised
            cause = term.ended(error)
            if self._on_stopped is not None:
                self._call("on_stopped", self._on_stopped, cause)
        finally:
            self._events.put((Event.RETURNED, term))

    def _leave(self) -> None:
        term = self._term
        assert term is not None
        leaving = threading.Thread(target=self._exit, args=(term,), name="sqllease-leave", daemon=True)
        leaving.start()
        leaving.join(RELEASE_LIMIT_S if self._candidacy.resigning else None)
        if leaving.is_alive():
            journal.leaves_unreleased(self._lease.name, self._lease.owner_id, RELEASE_LIMIT_S)
        self._term = None

    def _exit(self, term: Leading) -> None:
        try:
            with contextlib.suppress(LeaseLost):
                term.context.run(term._block.__exit__, None, None, None)
        except Exception as error:  # noqa: BLE001  whatever it is, this candidate goes on
            journal.not_left(self._lease.name, error)

    def _announce(self, info: LeaseInfo) -> None:
        self._news.put(info)

    def _tell_news(self) -> None:
        while (info := self._news.get()) is not None:
            assert self._on_new_leader is not None
            self._call("on_new_leader", self._on_new_leader, info)

    def _call(self, name: str, callback: Callable[..., object], argument: object) -> None:
        try:
            check_ran(name, callback(argument))
        except BaseException as error:  # noqa: BLE001  a callback's bug must not break the election
            journal.listener_failed(self._lease.name, error)
