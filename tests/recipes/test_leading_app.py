"""The FastAPI recipe on the real library: two applications, as on two hosts, one of which leads."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import httpx
import pytest
from fastapi import FastAPI

from sqllease import schema
from sqllease.testing import LocalSqlServer
from tests.drivers import Driver
from tests.lease.support import PATIENCE_S

from .leading_app import application

EVERY_S = 0.02
DURATION_S = 2.5
"""Renewed about every 0.8 s: a loss is seen as soon."""


class Host:
    """One application that counts its sweeps."""

    def __init__(self, dsn: str) -> None:
        self.sweeps = 0
        self.trouble: Exception | None = None
        self.app: FastAPI = application(dsn, self.sweep, every=EVERY_S, duration=DURATION_S)

    async def sweep(self) -> None:
        self.sweeps += 1
        trouble, self.trouble = self.trouble, None
        if trouble is not None:
            raise trouble

    def running(self) -> AbstractAsyncContextManager[object]:
        return self.app.router.lifespan_context(self.app)

    async def leads(self) -> bool:
        transport = httpx.ASGITransport(app=self.app)
        async with httpx.AsyncClient(transport=transport, base_url="http://host") as client:
            answer = await client.get("/leading")
        leads: bool = answer.json()
        return leads


async def until(condition: Callable[[], object], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, f"did not happen within {PATIENCE_S:g} s: {what}"
        await asyncio.sleep(0.002)


@pytest.fixture
def dsn(server: LocalSqlServer, driver: Driver) -> str:
    server.execute(schema.create_script())
    return server.connection_string(driver=driver.odbc)


async def test_one_of_two_leads_and_at_its_shutdown_the_other_takes_over(dsn: str) -> None:
    first, second = Host(dsn), Host(dsn)
    async with AsyncExitStack() as late:
        async with first.running():
            await until(lambda: first.sweeps, "the first one sweeps")
            await late.enter_async_context(second.running())
            before = first.sweeps
            await until(lambda: first.sweeps > before, "it goes on sweeping")
            assert (await first.leads(), await second.leads()) == (True, False)
            assert second.sweeps == 0
        swept = first.sweeps
        await until(lambda: second.sweeps, "the other one sweeps")
        assert await second.leads() is True
        assert first.sweeps == swept


async def test_who_lost_the_lease_stops_and_stands_again(dsn: str, server: LocalSqlServer) -> None:
    host = Host(dsn)
    async with host.running():
        await until(lambda: host.sweeps, "it sweeps")
        (row,) = server.execute("SELECT OwnerInstanceId FROM [lease].[Leases]")
        server.clock.advance(3600)
        await until(
            lambda: [row] != server.execute("SELECT OwnerInstanceId FROM [lease].[Leases]"), "it has a new lease"
        )
        before = host.sweeps
        await until(lambda: host.sweeps > before, "it sweeps again")


async def test_a_sweep_that_fails_is_told_and_does_not_end_the_sweeping(
    dsn: str, caplog: pytest.LogCaptureFixture
) -> None:
    host = Host(dsn)
    host.trouble = ValueError("a bug in the sweep")
    async with host.running():
        await until(lambda: host.sweeps >= 3, "it goes on sweeping")
    assert "a bug in the sweep" in caplog.text


async def test_without_a_database_the_application_starts_and_leads_once_there_is_one(
    dsn: str, server: LocalSqlServer
) -> None:
    server.faults.refuse_login(18456, times=3)
    host = Host(dsn)
    async with host.running():
        assert await host.leads() is False
        await until(lambda: host.sweeps, "it sweeps")
