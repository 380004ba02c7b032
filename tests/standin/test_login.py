"""Opening a link: encryption, LOGIN7, who is let in, and connection strings. Right values: MS-TDS (section numbers),
Microsoft's "SQLDriverConnect Function" for connection strings, and what both drivers were measured to do.
"""

from __future__ import annotations

import os
import ssl
import subprocess
import sys
from pathlib import Path

import pyodbc
import pytest

from sqllease.testing import LocalSqlServer
from sqllease.testing.server.login import read_login
from tests.drivers import Driver
from tests.standin.rawclient import LOGIN, PLAIN_PRELOGIN, PRELOGIN, RawClient, login7

READ_ONLY_INTENT = 0x20
CHILD = (
    "import sys, pyodbc; print(pyodbc.connect(sys.argv[1], autocommit=True, timeout=5).execute('SELECT 1').fetchval())"
)


def connect(server: LocalSqlServer, driver: Driver, **keywords: str) -> pyodbc.Connection:
    return pyodbc.connect(server.connection_string(driver.odbc, **keywords), autocommit=True, timeout=5)


@pytest.mark.parametrize("tls", [False, True], ids=["plain", "tls"])
def test_both_drivers_log_in_plain_and_encrypted(driver: Driver, tls: bool) -> None:
    with LocalSqlServer(tls=tls) as server:
        connection = connect(server, driver)
        assert connection.execute("SELECT DB_NAME()").fetchval() == server.database
        assert (server.log.logins, server.connections) == (1, 1)
        connection.close()
        server.log.wait_for(lambda request: request.kind == "close" and request.finished)
        assert server.connections == 0


def test_without_tls_a_client_that_insists_on_it_is_not_served(ms_driver: Driver) -> None:
    with LocalSqlServer(tls=False) as server, pytest.raises(pyodbc.OperationalError, match="08001"):
        connect(server, ms_driver, Encrypt="yes")
    assert server.log.logins == 0


def test_the_certificate_is_not_trusted_unasked(server: LocalSqlServer, ms_driver: Driver) -> None:
    with pytest.raises(pyodbc.OperationalError, match="self-signed certificate"):
        connect(server, ms_driver, TrustServerCertificate="no")


def test_a_client_that_is_given_the_certificate_verifies_it(
    server: LocalSqlServer, ms_driver: Driver, tmp_path: Path
) -> None:
    """In a process of its own: OpenSSL reads SSL_CERT_FILE once."""
    assert server.certificate is not None
    file = tmp_path / "server.pem"
    file.write_text(server.certificate, encoding="ascii")
    given = server.connection_string(
        ms_driver.odbc, Server=f"localhost,{server.port}", TrustServerCertificate="no", Encrypt="yes"
    )
    child = subprocess.run(
        [sys.executable, "-c", CHILD, given],
        env=os.environ | {"SSL_CERT_FILE": str(file)},
        capture_output=True,
        text=True,
        timeout=30,
        check=False,
    )
    assert (child.stdout.strip(), child.stderr) == ("1", "")


def test_every_server_has_a_key_of_its_own() -> None:
    first, second = LocalSqlServer(), LocalSqlServer()
    assert first.certificate != second.certificate
    assert first.tls_context is not None
    assert first.tls_context.maximum_version == ssl.TLSVersion.TLSv1_2


def test_a_wrong_password_is_error_18456(server: LocalSqlServer, driver: Driver) -> None:
    """The one login failure that has a class of its own, with Microsoft's driver only."""
    with pytest.raises(pyodbc.Error, match=r"Login failed for user 'sa'\. \(18456\)") as caught:
        connect(server, driver, password="wrong")
    expected = (pyodbc.InterfaceError, "28000") if driver.id == "ms" else (pyodbc.ProgrammingError, "42000")
    assert (type(caught.value), caught.value.args[0]) == expected
    assert server.log.errors == [18456]
    server.log.wait_for(lambda request: request.kind == "close" and request.finished)
    assert server.connections == 0


def test_an_unknown_database_is_4060_and_then_18456(server: LocalSqlServer, driver: Driver) -> None:
    """Microsoft's driver shows the first, FreeTDS the last."""
    with pytest.raises(pyodbc.ProgrammingError) as caught:
        connect(server, driver, database="elsewhere")
    assert f"({4060 if driver.id == 'ms' else 18456})" in caught.value.args[1]
    assert server.log.errors == [4060, 18456]


def test_a_client_that_names_no_database_gets_the_server_s(server: LocalSqlServer, ms_driver: Driver) -> None:
    given = ";".join(
        part for part in server.connection_string(ms_driver.odbc).split(";") if not part.startswith("DATABASE")
    )
    connection = pyodbc.connect(given, autocommit=True, timeout=5)
    assert connection.execute("SELECT DB_NAME()").fetchval() == server.database
    connection.close()


HARD_PASSWORDS = ["a;b", "a}b", "{a}", "a=b", "a}}b;c", " a ", "a,b", "a}", "é\U0001f600", "a'\"b", "#", "a b"]


@pytest.mark.parametrize("password", HARD_PASSWORDS)
def test_a_password_may_hold_what_connection_strings_are_made_of(driver: Driver, password: str) -> None:
    """In braces where it holds one of []{}(),;?*=!@ or an outer blank; a closing brace doubled, but not for FreeTDS."""
    with LocalSqlServer(password=password) as server:
        connect(server, driver).close()


def test_a_connection_string_braces_what_has_to_be_braced() -> None:
    server = LocalSqlServer(database="a]b", password="x}y")
    given = server.connection_string("/a path/with {braces}/libdriver.so", APP="plain")
    assert given.startswith("DRIVER={/a path/with {braces}}/libdriver.so};")
    assert "DATABASE={a]b};UID=sa;PWD={x}}y};APP=plain;" in given


def test_keywords_replace_those_of_the_same_name_in_any_case() -> None:
    given = LocalSqlServer().connection_string("ODBC Driver 18 for SQL Server", encrypt="strict", uid="me")
    assert ("Encrypt=strict;" in given, "encrypt" in given, "UID=me;" in given, "sa" in given) == (
        True,
        False,
        True,
        False,
    )


def test_login7_is_read_to_its_last_field() -> None:
    """2.2.6.4; bit 0x20 of TypeFlags is fReadOnlyIntent."""
    login = read_login(login7("me", "s€cret\U0001f600", "db", type_flags=READ_ONLY_INTENT))
    request = login.request
    assert (request.user, request.password, request.database) == ("me", "s€cret\U0001f600", "db")
    assert (request.application, request.host, request.read_only) == ("raw", "host", True)
    assert login.packet_size == 4096
    assert not read_login(login7("me", "")).request.read_only


def test_the_login_answer_says_what_drivers_insist_on(server: LocalSqlServer) -> None:
    """2.2.7.9 and 2.2.7.14: database (1), collation (7) and packet size (4), then LOGINACK with TDS 7.4, then DONE."""
    with RawClient(server) as client:
        answer = client.login()
    position, seen = 0, []
    while answer[position] != 0xFD:
        token, length = answer[position], int.from_bytes(answer[position + 1 : position + 3], "little")
        seen.append((token, answer[position + 3] if token == 0xE3 else 0))
        if token == 0xAD:
            assert answer[position + 3 : position + 8] == bytes.fromhex("01 74000004")
        position += 3 + length
    assert seen == [(0xE3, 1), (0xAB, 0), (0xE3, 7), (0xE3, 2), (0xAB, 0), (0xAD, 0), (0xE3, 4)]


@pytest.mark.parametrize(("asked", "answered"), [(0, 2), (1, 1), (2, 2)], ids=["off", "on", "not supported"])
def test_only_a_client_that_insists_is_encrypted(server: LocalSqlServer, asked: int, answered: int) -> None:
    """2.2.6.5: a client that could do either gets no TLS at all, which each driver accepts."""
    prelogin = bytearray(PLAIN_PRELOGIN)
    prelogin[PLAIN_PRELOGIN.index(b"\xff") + 1 + 6] = asked
    with RawClient(server) as client:
        answer = client.ask(PRELOGIN, bytes(prelogin))
    assert answer[int.from_bytes(answer[6:8], "big")] == answered


def test_a_login_of_an_old_protocol_is_cut_off(server: LocalSqlServer) -> None:
    with RawClient(server) as client:
        client.ask(PRELOGIN, PLAIN_PRELOGIN)
        assert client.ask(LOGIN, login7("sa", server.password, version=0x71000001)) == b""
    assert server.log.logins == 0


def test_a_login_before_prelogin_is_cut_off(server: LocalSqlServer) -> None:
    with RawClient(server) as client:
        assert client.ask(LOGIN, login7("sa", server.password)) == b""


def test_a_stopped_server_may_start_again_with_its_data_and_port(driver: Driver) -> None:
    server = LocalSqlServer()
    with server:
        port = server.port
        server.execute("CREATE TABLE dbo.T (n int NOT NULL PRIMARY KEY); INSERT dbo.T VALUES (1)")
        lost = connect(server, driver)
    with pytest.raises(pyodbc.Error):
        lost.execute("SELECT 1")
    with server:
        assert server.port == port
        connection = connect(server, driver)
        assert connection.execute("SELECT COUNT(*) FROM dbo.T").fetchval() == 1
        connection.close()
    server.stop()
