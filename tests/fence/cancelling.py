"""Cancels a task twice while the fence waits for a lock, and ends. A program of its own: a driver that crashes takes it
down, and not pytest.

cancelling.py DSN: a lease, a transaction of the caller's, and another session that has the row locked.
"""

from __future__ import annotations

import asyncio
import sys
import threading

import aioodbc
import pyodbc

from sqllease import AsyncLeaseStore, LeaseOptions


async def main(dsn: str) -> None:
    store = AsyncLeaseStore(dsn)
    lease = store.lease("job", options=LeaseOptions(duration=400, command_timeout=30))
    assert await lease.try_acquire()
    other = pyodbc.connect(dsn, autocommit=False)
    other.execute("UPDATE [lease].[Leases] SET Metadata = N'locked'")
    asks = asyncio.Event()

    async def work() -> None:
        async with aioodbc.connect(dsn=dsn, autocommit=False) as connection, lease.fenced(connection) as cursor:
            await cursor.execute("INSERT INTO dbo.Work (Done) VALUES (N'not to be')")
            asks.set()

    working = asyncio.create_task(work())
    await asks.wait()
    print("asks", flush=True)
    await asyncio.to_thread(sys.stdin.readline)  # until the fence waits on the server
    for _ in range(2):
        working.cancel()
        await asyncio.sleep(0.1)
    assert not working.done(), "it has left a statement that still runs"
    threading.Thread(target=other.rollback).start()
    await asyncio.wait([working])
    assert working.cancelled()
    await store.aclose()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
