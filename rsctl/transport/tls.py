"""TLS below the protocol, where it is asked for: both sides' handshake of it. See PROTOCOL.md."""

from __future__ import annotations

import base64
import binascii
import socket
import ssl
from collections.abc import Callable

from rsctl.transport import frames
from rsctl.transport.errors import ErrorCode, TransportError
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import Channel, Handshake
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE
from rsctl.transport.tls_relay import RelayContexts
from rsctl.transport.tls_session import CoreContext, CoreSession, Session, has_openssl

_MAGIC = frames.header(frames.HELLO).pack()[:4]
_READ_BYTES = 1 << 14


class Tls:
    """Secures the connections of one process by its run's identity.

    TLS 1.3 only. Reducers present the run's certificate and workers take no other. Workers are
    authenticated by their proofs, into which both sides put what is unique to this connection.
    """

    def __init__(self, identity: str, core: bool = True) -> None:
        """`identity` is what `make_identity` returned. `core` says whether the process uses the
        core's engines, which encrypt by themselves where they find OpenSSL. Raises TransportError
        for another identity.
        """
        self.in_core = core and has_openssl()
        """Whether the engines encrypt; otherwise a relay does."""
        try:
            key, certificate = (
                base64.b64decode(part, validate=True) for part in identity.split(".")
            )
            self._start: Callable[[bool], Session]
            if self.in_core:
                contexts = [CoreContext(key, certificate, side) for side in (False, True)]
                self._start = lambda is_reducer: CoreSession(contexts[is_reducer])
            else:
                self._start = RelayContexts(key, certificate).start
        except (ValueError, binascii.Error, ssl.SSLError):
            # Not the reason: it might quote the secret.
            text = (
                f"{TLS_VARIABLE} requests TLS, but {IDENTITY_VARIABLE} has no certificate with its "
            )
            text += "key"
            raise TransportError(ErrorCode.SETTINGS, text) from None

    def accept(self, wire: socket.socket, handshake: Handshake) -> Channel:
        """The reducer's side. Raises OSError, and TransportError for a worker without TLS."""
        return self._secure(wire, handshake, server=True)

    def connect(self, wire: socket.socket, handshake: Handshake) -> Channel:
        """The worker's side. Raises OSError, FrameError if the peer does not use TLS,
        TransportError.
        """
        try:
            return self._secure(wire, handshake, server=False)
        except ssl.SSLCertVerificationError:
            text = f"its certificate is not this run's {IDENTITY_VARIABLE}"
            raise TransportError(ErrorCode.AUTHENTICATION, text) from None
        except ssl.SSLError as error:
            raise FrameError(f"no TLS 1.3 with it: {error.reason}") from None

    def _secure(self, wire: socket.socket, handshake: Handshake, server: bool) -> Channel:
        session = self._start(server)
        first = True
        while True:
            try:
                session.handshake()
                break
            except ssl.SSLWantReadError:
                _send(handshake, session)
                data = handshake.receive(_READ_BYTES)
                if first and data.startswith(_MAGIC):
                    raise _unequal(server) from None
                first = False
                session.put(data)
            except ssl.SSLError:
                _send(handshake, session)  # the alert, which says why
                raise
        _send(handshake, session)
        binding = session.binding()
        if not binding:
            raise TransportError(
                ErrorCode.SETTINGS, "this Python does not support the tls-unique channel binding"
            )
        return Channel(session.carry(wire), wire, binding)


def _unequal(server: bool) -> TransportError:
    one, other = ("reducer", "worker") if server else ("worker", "reducer")
    text = f"{TLS_VARIABLE} is set for this {one}, but not for the {other}, which does not use TLS"
    return TransportError(ErrorCode.MISMATCH, text)


def _send(handshake: Handshake, session: Session) -> None:
    data = session.take()
    if data:
        handshake.send(data)
