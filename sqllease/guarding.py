"""``@guarded``: a function that runs on one machine at a time. For functions and for coroutine functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ParamSpec, Protocol, TypeVar, overload

from .aio import AsyncLeaseStore
from .errors import LeaseValueError
from .hold import Outcome, Terms
from .names import check_lease_name
from .options import LeaseOptions, Seconds
from .store import LeaseStore

P = ParamSpec("P")
T = TypeVar("T")


class Guard(Protocol):
    """Turns a function into one that returns an Outcome of what it returned."""

    def __call__(self, function: Callable[P, T], /) -> Callable[P, Outcome[T]]: ...


class AsyncGuard(Protocol):
    """As ``Guard``, for coroutine functions."""

    def __call__(self, function: Callable[P, Awaitable[T]], /) -> Callable[P, Awaitable[Outcome[T]]]: ...


@overload
def guarded(
    store: LeaseStore,
    name: str,
    *,
    timeout: Seconds | None = 0,
    poll_interval: Seconds = 1.0,
    options: LeaseOptions | None = None,
    hold_at_least: Seconds | None = None,
    max_hold: Seconds | None = None,
) -> Guard: ...


@overload
def guarded(
    store: AsyncLeaseStore,
    name: str,
    *,
    timeout: Seconds | None = 0,
    poll_interval: Seconds = 1.0,
    options: LeaseOptions | None = None,
    hold_at_least: Seconds | None = None,
    max_hold: Seconds | None = None,
) -> AsyncGuard: ...


def guarded(
    store: LeaseStore | AsyncLeaseStore,
    name: str,
    *,
    timeout: Seconds | None = 0,
    poll_interval: Seconds = 1.0,
    options: LeaseOptions | None = None,
    hold_at_least: Seconds | None = None,
    max_hold: Seconds | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: each call takes the lease ``name``, runs, and gives it back. The call returns an ``Outcome``.

    timeout: seconds to wait for the lease, by default not at all. Each call is an owner of its own, so calls of one
    process exclude each other too. A coroutine function needs an AsyncLeaseStore, a plain one a LeaseStore; anything
    else, generator functions too, is LeaseValueError when it is decorated, as are terms that cannot work. Errors of a
    call as those of ``hold()``.
    """
    check_lease_name(name)
    if not isinstance(store, (LeaseStore, AsyncLeaseStore)):
        raise LeaseValueError(f"store must be a LeaseStore or an AsyncLeaseStore, not {type(store).__name__}")
    terms: dict[str, Any] = {
        "timeout": timeout,
        "poll_interval": poll_interval,
        "hold_at_least": hold_at_least,
        "max_hold": max_hold,
    }
    Terms.of(options or LeaseOptions(), keep_alive=True, on_lost=None, **terms)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise LeaseValueError(f"{function!r} is a generator: it would run after its lease has been given back")
        if inspect.iscoroutinefunction(function) != isinstance(store, AsyncLeaseStore):
            raise LeaseValueError(f"{function!r}: coroutine functions need an AsyncLeaseStore, plain ones a LeaseStore")

        def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return store.lease(name, options=options).run(lambda held: function(*args, **kwargs), **terms)

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return start(args, kwargs)

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await start(args, kwargs)

        return call_async if isinstance(store, AsyncLeaseStore) else call

    return decorate
