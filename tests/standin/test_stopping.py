"""Clients that connect in the very moment in which the server stops: nothing of them is left open."""

from __future__ import annotations

import gc
import socket
import sys
import threading
from contextlib import suppress

import pytest

from sqllease.testing import LocalSqlServer


def test_what_is_accepted_while_the_server_stops_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    left_open: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda trouble: left_open.append(trouble.object))
    for _ in range(60):
        server = LocalSqlServer(tls=False).start()
        begin = threading.Event()

        def connect(port: int = server.port, begin: threading.Event = begin) -> None:
            begin.wait()
            for _ in range(6):
                with suppress(OSError):
                    socket.create_connection(("127.0.0.1", port), 1).close()

        client = threading.Thread(target=connect)
        client.start()
        begin.set()
        server.stop()
        client.join()
    gc.collect()
    assert left_open == []
