"""A TCP proxy on loopback that cuts a link in the middle of what a client sends.

For the one fault that no server can make itself: a request that arrives in part. Knows bytes, no protocol.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Self


class Proxy:
    """Use it in ``with``; clients connect to ``port``."""

    def __init__(self, target: int) -> None:
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self._strike: Callable[[], None] | None = None
        self._lock = threading.Lock()
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        threading.Thread(target=self._accept, daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        for each in self._sockets:
            _cut(each)

    def cut_next_request(self, then: Callable[[], None] = lambda: None) -> None:
        """Of the next bytes that a client sends only the first half goes on, and the link is cut. then: called
        first.
        """
        with self._lock:
            self._strike = then

    def _accept(self) -> None:
        with suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(("127.0.0.1", self._target))
                self._sockets += (client, server)
                for each in (client, server):
                    each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                threading.Thread(target=self._carry, args=(client, server, True), daemon=True).start()
                threading.Thread(target=self._carry, args=(server, client, False), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, request: bool) -> None:
        with suppress(OSError):
            while data := source.recv(65536):
                strike = self._take() if request else None
                if strike is not None:
                    strike()
                    sink.sendall(data[: len(data) // 2])
                    break
                sink.sendall(data)
        _cut(sink)
        _cut(source)

    def _take(self) -> Callable[[], None] | None:
        with self._lock:
            strike, self._strike = self._strike, None
            return strike


def _cut(end: socket.socket) -> None:
    with suppress(OSError):
        end.shutdown(socket.SHUT_RDWR)
    end.close()
