"""Messages that drivers do not send, or not when a test would want them. Right answers: MS-TDS (section numbers)."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.protocol import Link
from tests.standin.rawclient import (
    ALL_HEADERS,
    ATTENTION,
    BATCH,
    END_OF_MESSAGE,
    IGNORE,
    LOGIN,
    PLAIN_PRELOGIN,
    PRELOGIN,
    RESET_CONNECTION,
    RPC,
    RawClient,
    done,
    executesql,
    login7,
    packet,
)

DONE_ERROR, DONE_ATTENTION = 0x02, 0x20


@pytest.fixture
def client(server: LocalSqlServer) -> Iterator[RawClient]:
    with RawClient(server) as client:
        client.login()
        yield client


def test_an_attention_on_an_idle_link_is_acknowledged(client: RawClient) -> None:
    """2.2.1.7."""
    assert client.ask(ATTENTION, b"") == done(DONE_ATTENTION)


def test_an_attention_that_comes_with_its_request_keeps_it_from_beginning(
    server: LocalSqlServer, client: RawClient
) -> None:
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    request = packet(BATCH, ALL_HEADERS + "INSERT dbo.T VALUES (1)".encode("utf-16-le"))
    client.at_once(request, packet(ATTENTION, b""))
    assert client.answer() == done(DONE_ATTENTION)
    assert server.execute("SELECT COUNT(*) FROM dbo.T") == [(0,)]


class MemoryTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def get_write_buffer_size(self) -> int:
        return len(self.written)

    def close(self) -> None:
        """Nobody is at the other end."""


def test_an_attention_that_crosses_the_answer_is_acknowledged_behind_it(server: LocalSqlServer) -> None:
    """3.3.5.9. The request has ended, its answer is not sent yet: only the server's own thread can hit that moment."""

    async def cross() -> bytes:
        link, transport = Link(server), MemoryTransport()
        link.connection_made(transport)
        link.data_received(packet(PRELOGIN, PLAIN_PRELOGIN) + packet(LOGIN, login7(server.user, server.password)))
        transport.written = b""
        link.data_received(packet(BATCH, ALL_HEADERS + "SELECT 1 AS n".encode("utf-16-le")))
        server.engine.scheduler.run()
        link.data_received(packet(ATTENTION, b""))
        assert transport.written == b""
        await asyncio.sleep(0)
        return transport.written

    written = asyncio.run_coroutine_threadsafe(cross(), server.loop).result(10)
    length = int.from_bytes(written[2:4], "big")
    assert written[length - 13] == 0xFD
    assert written[length + 8 :] == done(DONE_ATTENTION)


def test_a_request_that_the_client_gives_up_while_sending_is_not_executed(
    server: LocalSqlServer, client: RawClient
) -> None:
    """2.2.1.7: IGNORE with the last packet; the answer is one DONE with the error bit, no acknowledgment."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    client.packet(BATCH, ALL_HEADERS + "INSERT dbo.T VALUES (1)".encode("utf-16-le"), status=0)
    assert client.ask(BATCH, b"", IGNORE | END_OF_MESSAGE) == done(DONE_ERROR)
    assert server.execute("SELECT COUNT(*) FROM dbo.T") == [(0,)]


def test_a_reset_connection_rolls_back_and_is_confirmed_before_anything_else(
    server: LocalSqlServer, client: RawClient
) -> None:
    """2.2.3.1.2 and 2.2.7.9: ENVCHANGE 18, both values empty."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    client.batch("BEGIN TRANSACTION; INSERT dbo.T VALUES (1)")
    answer = client.batch("SELECT COUNT(*) AS n FROM dbo.T WITH (READUNCOMMITTED)", RESET_CONNECTION | END_OF_MESSAGE)
    assert answer.startswith(bytes.fromhex("e3 0300 12 00 00"))
    assert server.execute("SELECT COUNT(*) FROM dbo.T") == [(0,)]


def test_every_call_of_a_message_has_its_own_end_and_all_are_one_round_trip(
    server: LocalSqlServer, client: RawClient
) -> None:
    """2.2.7.8: DONEPROC says that more follows (0x01) in an RPC batch (0x80), the last one does not."""
    server.log.clear()
    call = executesql("DECLARE @a int = 1")
    answer = client.ask(RPC, ALL_HEADERS + call + b"\xff" + call)
    status = bytes.fromhex("79 00000000")
    assert answer.endswith(status + done(0, token=0xFE))
    assert status + done(0x81, token=0xFE) in answer
    assert [request.text for request in server.log.requests] == ["DECLARE @a int = 1"] * 2
    assert server.log.round_trips == 1


def test_under_nocount_a_procedure_call_is_answered_by_its_end_alone(server: LocalSqlServer, client: RawClient) -> None:
    """Microsoft, "SET NOCOUNT": no DONEINPROC for each statement."""
    server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY)")
    call = executesql("SET NOCOUNT ON; INSERT dbo.T VALUES (1); DELETE dbo.T")
    assert client.ask(RPC, ALL_HEADERS + call) == bytes.fromhex("79 00000000") + done(0, token=0xFE)


def test_the_end_of_a_failed_batch_says_that_it_failed(client: RawClient) -> None:
    """2.2.7.6: DONE_ERROR."""
    assert client.batch("SELECT n FROM dbo.Missing").endswith(done(DONE_ERROR))


def test_a_second_request_waits_for_the_first(client: RawClient) -> None:
    """3.3.5.9: it is queued."""
    client.at_once(*(packet(BATCH, ALL_HEADERS + f"SELECT 1 AS {name}".encode("utf-16-le")) for name in "ab"))
    assert "a".encode("utf-16-le") in client.answer()
    assert "b".encode("utf-16-le") in client.answer()


def test_bulk_load_is_refused_by_name(server: LocalSqlServer, client: RawClient) -> None:
    assert "BULK INSERT".encode("utf-16-le") in client.ask(0x07, b"")
    assert server.log.errors == [40517]


def test_bytes_that_are_no_tds_end_the_link(client: RawClient) -> None:
    client.packet(BATCH, b"\x01")
    assert client.answer() == b""
