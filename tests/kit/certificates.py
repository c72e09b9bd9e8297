"""TLS of servers on loopback."""

from __future__ import annotations

import ssl
from datetime import datetime, timedelta, timezone
from pathlib import Path

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec


def own_certificate(folder: Path) -> ssl.SSLContext:
    """A server's TLS with a certificate of the authority in `authority.pem` of the folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate_file(folder))
    return context


def certificate_file(folder: Path) -> Path:
    """A new file in a folder, with a key and a certificate of localhost. That of its authority,
    with the extensions of `openssl req -x509`, is in `authority.pem` beside it.
    """
    authority, key = (ec.generate_private_key(ec.SECP256R1()) for _ in range(2))
    above = (
        _builder("authority", authority, authority)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(authority, hashes.SHA256())
    )
    certificate = (
        _builder("localhost", key, authority)
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .sign(authority, hashes.SHA256())
    )
    folder.mkdir(exist_ok=True)
    (folder / "authority.pem").write_bytes(above.public_bytes(serialization.Encoding.PEM))
    pem = folder / "server.pem"
    pem.write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
        + certificate.public_bytes(serialization.Encoding.PEM)
    )
    return pem


def _builder(
    name: str, key: ec.EllipticCurvePrivateKey, authority: ec.EllipticCurvePrivateKey
) -> x509.CertificateBuilder:
    subject, issuer = (
        x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, each)])
        for each in (name, "authority")
    )
    now, public = datetime.now(timezone.utc), key.public_key()
    own = x509.SubjectKeyIdentifier.from_public_key(public)
    above = x509.AuthorityKeyIdentifier.from_issuer_public_key(authority.public_key())
    return (
        x509.CertificateBuilder(issuer, subject, public, x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(own, critical=False)
        .add_extension(above, critical=False)
    )
