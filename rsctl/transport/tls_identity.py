"""Whether TLS is requested, and the certificate and key of a run, which identify its reducers.

To start reducers without rsctl, create one with `python -m rsctl.transport.tls_identity`.
"""

from __future__ import annotations

import base64
from datetime import datetime

TLS_VARIABLE = "RSCTL_TRANSPORT_TLS"
"""The variable by which a job asks for TLS between workers and reducers."""

IDENTITY_VARIABLE = "RSCTL_TLS_IDENTITY"
"""The variable that has the run's certificate and its key: a secret."""

_VALUES = {
    **dict.fromkeys(("1", "true", "on", "yes"), True),
    **dict.fromkeys(("", "0", "false", "off", "no"), False),
}


def is_enabled(value: str) -> bool:
    """Whether this value of `TLS_VARIABLE` asks for TLS. Raises ValueError if it is neither."""
    try:
        return _VALUES[value.strip().lower()]
    except KeyError:
        raise ValueError(f"{TLS_VARIABLE} must be 1 or 0, not {value!r}") from None


def make_identity() -> str:
    """A new P-256 key and a certificate of it by itself: both as DER in base64, `KEY.CERTIFICATE`.

    A variable of a SageMaker job holds 512 characters; with names or extensions in the certificate
    it would be longer. It does not expire: it is used as long as its run, and nodes' clocks differ.
    Raises ImportError where `cryptography` is missing.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, nobody = ec.generate_private_key(ec.SECP256R1()), x509.Name([])
    certificate = (
        x509.CertificateBuilder()
        .subject_name(nobody)
        .issuer_name(nobody)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(datetime(2000, 1, 1))
        .not_valid_after(datetime(9999, 12, 31, 23, 59, 59))
        .sign(key, hashes.SHA256())
    )
    secret = key.private_bytes(
        serialization.Encoding.DER,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    )
    parts = secret, certificate.public_bytes(serialization.Encoding.DER)
    return ".".join(base64.b64encode(part).decode() for part in parts)


if __name__ == "__main__":
    print(make_identity())
