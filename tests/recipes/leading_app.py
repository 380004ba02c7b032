"""A web application on several hosts, one of which does the work in the background: a FastAPI lifespan and a hold."""

from __future__ import annotations

# --- README: FastAPI
import asyncio
import logging
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress

from fastapi import FastAPI

from sqllease import AsyncLeaseStore, LeaseOptions

log = logging.getLogger(__name__)


def application(
    connection_string: str, sweep: Callable[[], Awaitable[None]], *, every: float = 5.0, duration: float = 30.0
) -> FastAPI:
    async def lead(app: FastAPI, store: AsyncLeaseStore) -> None:
        while True:
            try:
                lease = store.lease("outbox-sweeper", options=LeaseOptions(duration))
                async with lease.hold(poll_interval=every) as held:  # waits to be the one
                    app.state.leading = True
                    while not await held.lost.wait(timeout=every):
                        await sweep()
            except Exception:  # the lease is lost, the database away, or the sweep failed: stand again
                log.exception("the sweeper stands again")
                await asyncio.sleep(every)
            finally:
                app.state.leading = False

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        store = AsyncLeaseStore(connection_string)
        app.state.leading = False
        leading = asyncio.create_task(lead(app, store))
        yield
        leading.cancel()  # leaves the hold, which gives the lease back: another host takes over at once
        with suppress(asyncio.CancelledError):
            await leading
        await store.aclose()

    app = FastAPI(lifespan=lifespan)

    @app.get("/leading")
    async def leading() -> bool:
        leads: bool = app.state.leading
        return leads

    return app


# --- end
