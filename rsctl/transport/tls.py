"""TLS below the protocol, where it is asked for: both sides' handshake of it. See PROTOCOL.md."""

from __future__ import annotations

import base64
import binascii
import contextlib
import os
import socket
import ssl
import tempfile
from collections.abc import Iterator

from rsctl.transport import frames
from rsctl.transport.errors import ErrorCode, TransportError
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import Channel, Handshake
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE
from rsctl.transport.tls_relay import TlsRelay

_MAGIC = frames.header(frames.HELLO).pack()[:4]
_READ_BYTES = 1 << 14
_PEM = "-----BEGIN {0}-----\n{1}-----END {0}-----\n"


class Tls:
    """Secures the connections of one process by its run's identity.

    TLS 1.3 only. Reducers present the run's certificate and workers take no other. Workers are
    authenticated by their proofs, into which both sides put what is unique to this connection.
    """

    def __init__(self, identity: str) -> None:
        """`identity` is what `make_identity` returned. Raises TransportError if it is not that."""
        try:
            key, self._certificate = (
                base64.b64decode(part, validate=True) for part in identity.split(".")
            )
            self._as_reducer = _context(ssl.PROTOCOL_TLS_SERVER)
            self._as_reducer.num_tickets = 0  # no client resumes
            with _file(_pem("EC PRIVATE KEY", key) + _pem("CERTIFICATE", self._certificate)) as at:
                self._as_reducer.load_cert_chain(at)
            self._as_worker = _context(ssl.PROTOCOL_TLS_CLIENT)
            self._as_worker.check_hostname = False
            self._as_worker.load_verify_locations(cadata=self._certificate)
        except (ValueError, binascii.Error, ssl.SSLError):
            # Not the reason: it might quote the secret.
            text = (
                f"{TLS_VARIABLE} requests TLS, but {IDENTITY_VARIABLE} has no certificate with its "
            )
            text += "key"
            raise TransportError(ErrorCode.SETTINGS, text) from None
        self._relay = TlsRelay()

    def accept(self, wire: socket.socket, handshake: Handshake) -> Channel:
        """The reducer's side. Raises OSError, and TransportError for a worker without TLS."""
        return self._secure(wire, handshake, self._as_reducer, server=True)

    def connect(self, wire: socket.socket, handshake: Handshake) -> Channel:
        """The worker's side. Raises OSError, FrameError if the peer does not use TLS,
        TransportError.
        """
        try:
            return self._secure(wire, handshake, self._as_worker, server=False)
        except ssl.SSLCertVerificationError:
            text = f"its certificate is not this run's {IDENTITY_VARIABLE}"
            raise TransportError(ErrorCode.AUTHENTICATION, text) from None
        except ssl.SSLError as error:
            raise FrameError(f"no TLS 1.3 with it: {error.reason}") from None

    def _secure(
        self, wire: socket.socket, handshake: Handshake, context: ssl.SSLContext, server: bool
    ) -> Channel:
        incoming, outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        tls = context.wrap_bio(incoming, outgoing, server_side=server)
        first = True
        while True:
            try:
                tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                _send(handshake, outgoing)
                data = handshake.receive(_READ_BYTES)
                if first and data.startswith(_MAGIC):
                    raise _unequal(server) from None
                first = False
                incoming.write(data)
            except ssl.SSLError:
                _send(handshake, outgoing)  # the alert, which says why
                raise
        _send(handshake, outgoing)
        if not server and tls.getpeercert(binary_form=True) != self._certificate:
            raise ssl.SSLCertVerificationError("another certificate")
        binding = tls.get_channel_binding("tls-unique")
        if not binding:
            raise TransportError(
                ErrorCode.SETTINGS, "this Python does not support the tls-unique channel binding"
            )
        return Channel(self._relay.forward(wire, tls, incoming, outgoing), wire, binding)


def _unequal(server: bool) -> TransportError:
    one, other = ("reducer", "worker") if server else ("worker", "reducer")
    text = f"{TLS_VARIABLE} is set for this {one}, but not for the {other}, which does not use TLS"
    return TransportError(ErrorCode.MISMATCH, text)


def _context(side: int) -> ssl.SSLContext:
    context = ssl.SSLContext(side)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


def _send(handshake: Handshake, outgoing: ssl.MemoryBIO) -> None:
    data = outgoing.read()
    if data:
        handshake.send(data)


def _pem(label: str, data: bytes) -> str:
    return _PEM.format(label, base64.encodebytes(data).decode())


@contextlib.contextmanager
def _file(text: str) -> Iterator[str]:
    """A file in memory, since `ssl` reads keys from files only; elsewhere one that is gone soon."""
    if not hasattr(os, "memfd_create"):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write(text)
            file.flush()
            yield file.name
        return
    memory = os.memfd_create("rsctl-identity")
    try:
        os.write(memory, text.encode())
        yield f"/proc/self/fd/{memory}"
    finally:
        os.close(memory)
