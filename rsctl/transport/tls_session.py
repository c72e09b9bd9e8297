"""One TLS connection and its handshake, by Python's `ssl` or in the C++ core.

Both keep ciphertext in memory. Which is used makes no difference to the peer.
"""

from __future__ import annotations

import ctypes
import importlib
import os
import socket
import ssl
from functools import cache
from typing import Any, Protocol

from rsctl.transport import native
from rsctl.transport.native import TEXT_BYTES

_BUFFER_BYTES = 1 << 16
_BINDING_BYTES = 64
_OLDEST_OPENSSL = 0x10101000
_DONE, _WANTS, _FAILED, _UNTRUSTED = range(4)


class Session(Protocol):
    """One side of a connection."""

    def handshake(self) -> None:
        """Go on as far as possible. Raises ssl.SSLWantReadError if more must come, SSLError if it
        has failed, and SSLCertVerificationError for a certificate that is not trusted."""

    def put(self, ciphertext: bytes) -> None:
        """Take what has come from the peer. Raises ssl.SSLError."""

    def take(self) -> bytes:
        """Return the bytes for the peer, once."""

    def binding(self) -> bytes:
        """The tls-unique channel binding of RFC 5929; empty if this Python has none."""

    def carry(self, wire: socket.socket) -> socket.socket:
        """The socket to use above TLS, after the handshake. Raises OSError."""


@cache
def has_openssl() -> bool:
    """Whether the core is built and can call the OpenSSL that this interpreter uses."""
    core = native.library()
    if core is None or not ssl.OPENSSL_VERSION.startswith("OpenSSL"):
        return False
    try:
        # Symbols are also looked up in the libraries that a module needs. A module that is
        # part of the interpreter has no file.
        openssl = ctypes.CDLL(getattr(importlib.import_module("_ssl"), "__file__", None))
        version = openssl.OpenSSL_version_num
        version.restype = ctypes.c_ulong
        if not _OLDEST_OPENSSL <= version() == ssl.OPENSSL_VERSION_NUMBER:
            return False
        functions = [getattr(openssl, name) for name in core.rsctl_tls_names().decode().split()]
    except (OSError, AttributeError):
        return False
    addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
    core.rsctl_tls_use((ctypes.c_void_p * len(addresses))(*addresses))
    return True


class CoreContext:
    """The settings that the core's connections of one side share."""

    def __init__(self, key: bytes, certificate: bytes, is_reducer: bool) -> None:
        """Raises ValueError if these are not a certificate and its key, in DER."""
        core: Any = native.library()
        self.core = core
        self.handle = core.rsctl_tls_context_start(
            key, len(key), certificate, len(certificate), is_reducer
        )
        if not self.handle:
            raise ValueError("not a certificate with its key")

    def __del__(self) -> None:
        if getattr(self, "handle", None):
            self.core.rsctl_tls_context_free(self.handle)


class CoreSession:
    """A Session in the core, which an engine of the core takes over."""

    def __init__(self, context: CoreContext) -> None:
        """Raises MemoryError."""
        self._core = context.core
        self._context = context  # the handshake calls it
        self._handle = self._core.rsctl_tls_start(context.handle)
        if not self._handle:
            raise MemoryError("no memory for TLS")

    def __del__(self) -> None:
        if getattr(self, "_handle", None):
            self._core.rsctl_tls_free(self._handle)

    def handshake(self) -> None:
        """See Session."""
        text = ctypes.create_string_buffer(TEXT_BYTES)
        step = self._core.rsctl_tls_handshake(self._handle, text)
        if step == _DONE:
            return
        reason = text.value.decode("ascii", "replace")
        if step == _WANTS:
            raise ssl.SSLWantReadError
        error = (ssl.SSLCertVerificationError if step == _UNTRUSTED else ssl.SSLError)(reason)
        error.reason = reason.upper().replace(" ", "_")  # as Python's own module names it
        raise error

    def put(self, ciphertext: bytes) -> None:
        """See Session."""
        if not self._core.rsctl_tls_put(self._handle, ciphertext, len(ciphertext)):
            raise ssl.SSLError("no memory for TLS")

    def take(self) -> bytes:
        """See Session."""
        taken, buffer = b"", ctypes.create_string_buffer(_BUFFER_BYTES)
        while count := self._core.rsctl_tls_take(self._handle, buffer, _BUFFER_BYTES):
            taken += buffer.raw[:count]
        return taken

    def binding(self) -> bytes:
        """See Session."""
        buffer = ctypes.create_string_buffer(_BINDING_BYTES)
        size = self._core.rsctl_tls_binding(self._handle, buffer, _BINDING_BYTES)
        return buffer.raw[:size]

    def carry(self, wire: socket.socket) -> socket.socket:
        """See Session."""
        return CoreTlsSocket(wire, self)

    def write(self, plaintext: bytes) -> None:
        """Encrypt, for `take`. Raises ssl.SSLError."""
        if not self._core.rsctl_tls_write(self._handle, plaintext, len(plaintext)):
            raise ssl.SSLError("TLS has failed")

    def read(self, most: int) -> bytes | None:
        """Plaintext; None if more must come, empty at the peer's end and after a fault."""
        buffer = ctypes.create_string_buffer(most)
        count = self._core.rsctl_tls_read(self._handle, buffer, most)
        return None if count == 0 else buffer.raw[: max(count, 0)]

    def finish(self) -> None:
        """End this side, for `take`."""
        self._core.rsctl_tls_finish(self._handle)

    def detach(self) -> int:
        """The core's object, which the caller owns now."""
        handle, self._handle = self._handle, None
        return int(handle)


class CoreTlsSocket(socket.socket):
    """The socket above TLS in the core: for the protocol's handshake, then for an engine of the
    core. It owns `wire`."""

    def __init__(self, wire: socket.socket, session: CoreSession) -> None:
        """Raises OSError."""
        super().__init__(wire.family, wire.type, wire.proto, os.dup(wire.fileno()))
        self.settimeout(wire.gettimeout())
        self._wire = wire
        self._session = session

    def recv(self, most: int, flags: int = 0) -> bytes:
        """As a socket's. Raises OSError."""
        while (plaintext := self._session.read(most)) is None:
            ciphertext = super().recv(_BUFFER_BYTES)
            if not ciphertext:
                return b""
            self._session.put(ciphertext)
        return plaintext

    def sendall(self, data: Any, flags: int = 0) -> None:
        """As a socket's. Raises OSError."""
        self._session.write(bytes(data))
        super().sendall(self._session.take())

    def shutdown(self, how: int) -> None:
        """End this side's half in an orderly way. Raises OSError."""
        self._session.finish()
        super().sendall(self._session.take())
        super().shutdown(how)

    def close(self) -> None:
        """Close the connection."""
        super().close()
        self._wire.close()

    def hand_over(self) -> tuple[int, int]:
        """The descriptor and the core's TLS object, which the caller owns now."""
        self._wire.close()
        return self.detach(), self._session.detach()
