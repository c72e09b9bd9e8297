"""One TLS channel: its two ends, what it needs of the environment, and what it leaves there."""

from __future__ import annotations

import contextlib
import itertools
import os
import socket
import ssl
from typing import Any

import pytest

from rsctl.transport import ErrorCode, TransportError, WorkerSettings, tls_relay
from rsctl.transport.frames import FrameError
from rsctl.transport.handshake import Channel, Handshake, Hello, prove_worker, verify_worker
from rsctl.transport.settings import read_tls
from rsctl.transport.tls import Tls
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE, make_identity
from rsctl.transport.tls_stream import CHUNK_BYTES
from tests.transport.conftest import NEEDS_CORE, TOKEN, in_threads

SIDES = [
    pytest.param(cores, marks=NEEDS_CORE if any(cores) else ())
    for cores in itertools.product((False, True), repeat=2)
]
_HELLO = Hello("run", 0, 0, 1, 0, 32768, 8, 8000, 0, bytes(32))


@pytest.fixture(scope="module")
def run_identity() -> str:
    """The identity of the run."""
    return make_identity()


@pytest.mark.parametrize("core", [False, pytest.param(True, marks=NEEDS_CORE)])
def test_answers_that_are_no_tls_are_said_to_be_none(run_identity: str, core: bool) -> None:
    here, there = socket.socketpair()
    there.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
    with here, there, pytest.raises(FrameError, match=r"no TLS 1\.3 with it: WRONG_VERSION_NUMBER"):
        Tls(run_identity, core).connect(here, Handshake(here))


def test_memory_stays_bounded_where_the_peer_does_not_read(run_identity: str) -> None:
    worker, reducer = _pair(run_identity)
    taken = 0
    worker.sock.settimeout(1.0)
    with contextlib.suppress(TimeoutError):
        while taken < 100 * CHUNK_BYTES:
            taken += worker.sock.send(bytes(1 << 16))
    buffers = sum(
        sock.getsockopt(socket.SOL_SOCKET, option)
        for sock in (worker.sock, worker.wire, reducer.wire, reducer.sock)
        for option in (socket.SO_SNDBUF, socket.SO_RCVBUF)
    )
    assert taken <= 2 * CHUNK_BYTES + 2 * buffers
    for channel in (worker, reducer):
        channel.sock.close()


@pytest.mark.parametrize("cores", SIDES)
def test_half_a_connection_can_end_before_the_other(
    run_identity: str, cores: tuple[bool, bool]
) -> None:
    worker, reducer = _pair(run_identity, cores)
    worker.sock.sendall(b"question" * 10_000)
    worker.sock.shutdown(socket.SHUT_WR)
    asked = b""
    while more := reducer.sock.recv(1 << 16):
        asked += more
    reducer.sock.sendall(b"answer")
    reducer.sock.close()
    answered = b""
    while more := worker.sock.recv(1 << 16):
        answered += more
    worker.sock.close()
    assert (asked, answered) == (b"question" * 10_000, b"answer")


def test_what_was_said_before_a_close_still_arrives(run_identity: str) -> None:
    worker, reducer = _pair(run_identity)
    reducer.sock.sendall(b"unread")
    worker.sock.sendall(b"last words" * 10_000)
    worker.sock.close()
    heard = b""
    with contextlib.suppress(ConnectionResetError):
        while more := reducer.sock.recv(1 << 16):
            heard += more
    reducer.sock.close()
    assert heard == b"last words" * 10_000


def _pair(identity: str, cores: tuple[bool, bool] = (False, False)) -> tuple[Channel, Channel]:
    """A worker's and a reducer's end of one connection: in the core, or with a relay each."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        near = socket.create_connection(listener.getsockname())
        far, _ = listener.accept()

    def secure(server: int) -> Channel:
        ours, wire = Tls(identity, cores[server]), far if server else near
        assert ours.in_core is cores[server]
        return (ours.accept if server else ours.connect)(wire, Handshake(wire))

    worker, reducer = in_threads(2, secure)
    for channel in (worker, reducer):
        channel.sock.settimeout(20)
    assert worker.binding == reducer.binding != b""
    return worker, reducer


@pytest.mark.parametrize("cores", SIDES)
def test_a_handshake_is_bound_to_its_connection(
    run_identity: str, cores: tuple[bool, bool]
) -> None:
    pairs = [_pair(run_identity, cores) for _ in range(2)]
    assert len({worker.binding for worker, _ in pairs}) == 2
    worker, reducer = pairs[0]

    def one(side: int) -> Any:
        if side:
            return prove_worker(Handshake(worker.sock).over(worker), _HELLO, TOKEN)
        found = verify_worker(Handshake(reducer.sock).over(reducer), TOKEN)
        reducer.sock.sendall(found.ready)
        return found.hello

    assert in_threads(2, one) == [_HELLO, None]
    for channel in [channel for pair in pairs for channel in pair]:
        channel.sock.close()


def _mixed_identity() -> str:
    """The key of one identity with the certificate of another."""
    return f"{make_identity().split('.')[0]}.{make_identity().split('.')[1]}"


def test_the_environment_asks_for_it(run_identity: str) -> None:
    assert read_tls({}) is None
    assert read_tls({TLS_VARIABLE: "0", IDENTITY_VARIABLE: run_identity}) is None
    assert read_tls({TLS_VARIABLE: "True", IDENTITY_VARIABLE: run_identity}) is not None


@pytest.mark.parametrize(
    ("environ", "message"),
    [
        ({TLS_VARIABLE: "perhaps"}, "RSCTL_TRANSPORT_TLS must be 1 or 0, not 'perhaps'"),
        *(
            (
                {TLS_VARIABLE: "1", **given},
                "RSCTL_TRANSPORT_TLS requests TLS, but RSCTL_TLS_IDENTITY has no certificate "
                "with its key",
            )
            for given in (
                {},
                {IDENTITY_VARIABLE: "s3cret"},
                {IDENTITY_VARIABLE: "czNjcmV0.czNjcmV0"},
                {IDENTITY_VARIABLE: "kéy.kéy"},
                {IDENTITY_VARIABLE: _mixed_identity()},
            )
        ),
    ],
)
def test_settings_that_make_no_sense_are_named_without_the_secret(
    environ: dict[str, str], message: str
) -> None:
    with pytest.raises(TransportError) as refused:
        read_tls(environ)
    assert (refused.value.code, refused.value.message) == (ErrorCode.SETTINGS, message)


def test_an_identity_fits_a_variable_and_is_the_runs_own(run_identity: str) -> None:
    assert len({make_identity() for _ in range(20)}) == 20
    assert max(len(make_identity()) for _ in range(20)) <= 512
    for core in (True, False):
        settings = WorkerSettings("run", TOKEN, 0, 1, (), tls=Tls(run_identity, core))
        assert run_identity.split(".")[0] not in repr(settings) + repr(settings.tls)


def test_where_there_are_no_files_in_memory_none_is_left(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, run_identity: str
) -> None:
    monkeypatch.delattr(os, "memfd_create")
    monkeypatch.setattr(tls_relay.tempfile, "tempdir", str(tmp_path))
    seen: list[int] = []
    real = ssl.SSLContext.load_cert_chain

    def load(self: ssl.SSLContext, path: str) -> None:
        seen.append(os.stat(path).st_mode & 0o777)
        real(self, path)

    monkeypatch.setattr(ssl.SSLContext, "load_cert_chain", load)
    Tls(run_identity, core=False)
    assert (seen, list(tmp_path.iterdir())) == ([0o600], [])
