"""``@guarded``: a function that runs on one machine at a time. For functions and for coroutine functions."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

from .aio import AsyncLeaseStore
from .errors import LeaseValueError
from .names import check_lease_name
from .options import LeaseOptions, Seconds
from .store import LeaseStore


def guarded(
    store: LeaseStore | AsyncLeaseStore,
    name: str,
    *,
    timeout: Seconds | None = 0,
    options: LeaseOptions | None = None,
    hold_at_least: Seconds | None = None,
    max_hold: Seconds | None = None,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """A decorator: each call takes the lease ``name``, runs, and gives it back. The call returns an ``Outcome``.

    timeout: seconds to wait for the lease, by default not at all. Each call is an owner of its own, so calls of one
    process exclude each other too. A coroutine function needs an AsyncLeaseStore, a plain one a LeaseStore; anything
    else is LeaseValueError when it is decorated. Errors as those of ``hold()``.
    """
    check_lease_name(name)

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if inspect.iscoroutinefunction(function) != isinstance(store, AsyncLeaseStore):
            raise LeaseValueError(
                f"{function.__name__}: a coroutine function needs an AsyncLeaseStore, a plain function a LeaseStore"
            )

        def start(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
            return store.lease(name, options=options).run(
                lambda held: function(*args, **kwargs), timeout=timeout, hold_at_least=hold_at_least, max_hold=max_hold
            )

        @functools.wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            return start(args, kwargs)

        @functools.wraps(function)
        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return await start(args, kwargs)

        return call_async if isinstance(store, AsyncLeaseStore) else call

    return decorate
