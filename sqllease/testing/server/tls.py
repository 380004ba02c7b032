"""Encryption of one link: a self-signed certificate for this server, and the handshake inside TDS packets.

Capped at TLS 1.2: with 1.3 on offer, Microsoft's driver and FreeTDS never finish a handshake that is wrapped in
PRELOGIN packets. Knows nothing of what is encrypted.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
import ssl
import tempfile

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID


def make_certificate() -> tuple[ssl.SSLContext, str]:
    """A fresh key and certificate for localhost and 127.0.0.1: the server's context, and the certificate as PEM."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "localhost")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=30))
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.DNSName("localhost"), x509.IPAddress(ipaddress.IPv4Address("127.0.0.1"))]
            ),
            critical=False,
        )
        .sign(key, hashes.SHA256())
    )
    pem = certificate.public_bytes(serialization.Encoding.PEM)
    secret = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    handle, path = tempfile.mkstemp(suffix=".pem")  # the ssl module reads keys from files only
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(secret + pem)
        context.load_cert_chain(path)
    finally:
        os.unlink(path)
    return context, pem.decode("ascii")


class Tunnel:
    """The TLS state of one link, over memory: bytes in, bytes out."""

    def __init__(self, context: ssl.SSLContext) -> None:
        self._in = ssl.MemoryBIO()
        self._out = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._in, self._out, server_side=True)
        self.established = False

    def handshake(self, data: bytes) -> bytes:
        """Takes the client's handshake bytes and gives the server's; sets ``established`` at the end."""
        self._in.write(data)
        try:
            self._tls.do_handshake()
            self.established = True
        except ssl.SSLWantReadError:
            pass
        return self._out.read()

    def decrypt(self, data: bytes) -> bytes:
        self._in.write(data)
        parts: list[bytes] = []
        try:
            while part := self._tls.read(65536):
                parts.append(part)
        except (ssl.SSLWantReadError, ssl.SSLZeroReturnError):
            pass
        return b"".join(parts)

    def encrypt(self, data: bytes) -> bytes:
        self._tls.write(data)
        return self._out.read()
