"""One client's link: handshake, login, then requests in order, each run as a task of the scheduler.

Carries out faults and attentions. Knows the order of messages, not their bytes and not what a statement means.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import ssl
from asyncio.trsock import TransportSocket
from collections import deque
from collections.abc import Callable, Sequence
from typing import Protocol

from .exchange import Exchange, Host, Outcome
from .login import prelogin_answer, read_login, wants_encryption
from .messages import read_calls
from .requestlog import Request
from .session import Session
from .sqltypes import SqlError, Value, Work, unsupported
from .tls import Tunnel
from .tokens import ATTENTION, ERROR, Answer, done, login_tokens
from .wire import (
    DEFAULT_PACKET_SIZE,
    IGNORE,
    RESET,
    RESET_KEEPING_TRANSACTION,
    Kind,
    Message,
    MessageReader,
    WireError,
    frame,
)

_logger = logging.getLogger(__name__)


class LinkHost(Host, Protocol):
    """What a link needs of its server."""

    links: set[Link]
    tls_context: ssl.SSLContext | None

    def route(self, session: Session) -> tuple[str, int] | None:
        """Host and port where a client that has just logged in has to log in instead."""


class Link(asyncio.Protocol):
    """The server's end of one TCP connection. All methods run in the server's thread."""

    def __init__(self, host: LinkHost) -> None:
        self._host = host
        self._transport: asyncio.Transport | None = None
        self._reader = MessageReader()
        self._tunnel: Tunnel | None = None
        self._receive: Callable[[Message], None] = self._prelogin
        self._waiting: deque[Message] = deque()
        self._exchange: Exchange | None = None
        self._session: Session | None = None
        self._packet_size = DEFAULT_PACKET_SIZE
        self._silent = False
        self._prepared: dict[Value, str] = {}
        self._closing: Request | None = None

    @property
    def is_open(self) -> bool:
        return self._transport is not None

    # bytes in and out

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._host.links.add(self)

    def data_received(self, data: bytes) -> None:
        try:
            if self._tunnel is not None and self._tunnel.established:
                data = self._tunnel.decrypt(data)
            self._reader.feed(data)
            while self._transport is not None and (message := self._reader.next()) is not None:
                self._receive(message)
        except (WireError, ssl.SSLError) as error:
            _logger.info("link closed: %s", error)
            self.cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.cut()

    def cut(self) -> None:
        """Ends the link now. A request that runs is interrupted, one that is held stays; then the session ends."""
        transport, self._transport = self._transport, None
        if transport is None:
            return
        if transport.get_write_buffer_size() == 0:
            cut_socket(transport.get_extra_info("socket"))
        transport.close()
        self._closing = self._note(Request("close"))
        self._waiting.clear()
        if self._exchange is None:
            self._end_session()
        elif not self._exchange.held:
            self._exchange.interrupt()

    def stop(self) -> None:
        """Cuts the link and gives up what it runs, held or not."""
        self.cut()
        if self._exchange is not None:
            self._exchange.interrupt()

    def _send(self, data: bytes, *, kind: Kind = Kind.ANSWER, half: bool = False) -> None:
        if self._transport is None or self._silent:
            return
        session = self._session.id if self._session is not None else 0
        packets = frame(kind, data, session=session, packet_size=self._packet_size)
        if self._tunnel is not None and self._tunnel.established:
            packets = self._tunnel.encrypt(packets)
        self._transport.write(packets[: len(packets) // 2] if half else packets)

    def _note(self, entry: Request) -> Request:
        entry.time = self._host.engine.clock.now()
        entry.session = self._session.id if self._session is not None else 0
        self._host.log.add(entry)
        return entry

    # opening

    def _prelogin(self, message: Message) -> None:
        if message.kind != Kind.PRELOGIN:
            raise WireError("PRELOGIN comes first")
        self._note(Request("prelogin", finished=True))
        context = self._host.tls_context
        encrypted = wants_encryption(message.data) and context is not None
        self._send(prelogin_answer(encrypted=encrypted))
        self._receive = self._login
        if encrypted and context is not None:
            self._tunnel = Tunnel(context)
            self._receive = self._handshake

    def _handshake(self, message: Message) -> None:
        assert self._tunnel is not None
        assert self._transport is not None
        answer = self._tunnel.handshake(message.data)
        if answer:  # the last handshake bytes still travel in a packet, everything after them does not
            self._transport.write(frame(Kind.PRELOGIN, answer))
        if self._tunnel.established:
            self._receive = self._login
            self._reader.feed(self._tunnel.decrypt(self._reader.rest()))

    def _login(self, message: Message) -> None:
        if message.kind != Kind.LOGIN:
            raise WireError("LOGIN7 expected")
        login = read_login(message.data)
        entry = self._note(Request("login", text=login.request.database))
        fault = self._host.faults.take("login", [entry])
        try:
            if fault is not None and fault.action == "refuse":
                self._refuse_login(entry, fault.errors)
            elif fault is not None:
                self._host.log.finish(entry, [], Work())
                self._silent = fault.action == "silence"
                if not self._silent:
                    self.cut()
            else:
                self._session = self._host.engine.login(login.request)
                entry.session = self._session.id
                self._host.log.finish(entry, [], Work())
                route = self._host.route(self._session)
                self._send(login_tokens(self._session.database.name, login.packet_size, route))
                self._packet_size = login.packet_size
            self._receive = self._request
        except SqlError as error:
            self._refuse_login(entry, getattr(error, "errors", None) or [error])

    def _refuse_login(self, entry: Request, errors: Sequence[SqlError]) -> None:
        answer = Answer()
        for error in errors:
            answer.error(error)
        self._host.log.finish(entry, [error.number for error in errors], Work())
        answer.end()
        self._send(b"".join(answer.parts))
        self.cut()

    # requests

    def _request(self, message: Message) -> None:
        exchange = self._exchange
        if self._silent:
            return
        if message.kind == Kind.ATTENTION and exchange is not None and not exchange.held:
            self._note(Request("attention", finished=True))
            exchange.interrupt()
            exchange.interrupted = True
        elif exchange is not None:
            self._waiting.append(message)
        elif message.kind == Kind.ATTENTION:
            self._note(Request("attention", finished=True))
            self._send(done(ATTENTION))
        elif message.status & IGNORE:
            self._send(done(ERROR))
        else:
            self._begin(message)

    def _begin(self, message: Message) -> None:
        assert self._session is not None
        try:
            if message.status & RESET_KEEPING_TRANSACTION:
                raise unsupported("RESETCONNECTIONSKIPTRAN")
            calls = read_calls(message)
        except WireError:
            self.cut()
            return
        except SqlError as error:
            answer = Answer()
            answer.error(error)
            answer.end()
            entry = self._note(Request("rpc" if message.kind == Kind.RPC else "other"))
            self._host.log.finish(entry, [error.number], Work())
            self._send(b"".join(answer.parts))
            return
        session, reset = self._session, bool(message.status & RESET)
        self._exchange = exchange = Exchange(self._host, session, calls, self._prepared, reset=reset)
        exchange.start(lambda: self._finish(exchange))

    def _finish(self, exchange: Exchange) -> None:
        """It has ended: send the answer, then turn to what came meanwhile."""
        self._exchange = None
        answer, outcome = exchange.answer, exchange.outcome
        if outcome is Outcome.SILENCE:
            self._silent = True
        elif outcome is not Outcome.CUT:
            if exchange.cancelled:
                answer.attention()
            self._send(b"".join(answer.parts), half=outcome is Outcome.HALF)
            if exchange.interrupted and not exchange.cancelled:  # it came too late, the answer was complete
                self._send(done(ATTENTION))
        if outcome in (Outcome.CUT, Outcome.HALF) or answer.fatal:
            self.cut()
        if self._transport is None:
            self._end_session()
        while self._waiting and self._exchange is None:
            self._request(self._waiting.popleft())

    def _end_session(self) -> None:
        self._host.links.discard(self)
        session, self._session = self._session, None
        if session is not None:
            session.close()
        if self._closing is not None:
            self._host.log.finish(self._closing, [], Work())


def cut_socket(link: socket.socket | TransportSocket) -> None:
    """Ends the connection itself: closing the descriptor would not, where a forked child has inherited it."""
    with contextlib.suppress(OSError):  # the other side was first, or listening sockets cannot be shut down here
        link.shutdown(socket.SHUT_RDWR)
