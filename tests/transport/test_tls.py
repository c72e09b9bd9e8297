"""TLS below the protocol: who is taken for whom, what travels, and what breaks it."""

from __future__ import annotations

import contextlib
import gc
import os
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from rsctl.transport import (
    ErrorCode,
    Transport,
    TransportError,
    WorkerSettings,
    connect,
    tls,
    tls_session,
)
from rsctl.transport.handshake import Handshake, Hello, prove_worker, verify_worker
from rsctl.transport.tls import Tls
from rsctl.transport.tls_identity import make_identity
from tests.kit.polling import wait_until
from tests.transport.conftest import NEEDS_CORE, TOKEN, Pool

_HELLO = Hello("run", 0, 0, 1, 0, 32768, 8, 8000, 0, bytes(32))
_MARKER = b"0123456789ABCDEF"


@pytest.fixture(scope="module")
def run_identity() -> str:
    """The identity of the run."""
    return make_identity()


@pytest.fixture
def identity(run_identity: str) -> str:
    """Pools here use TLS."""
    return run_identity


def _refusal(pool: Pool, **changes: Any) -> tuple[ErrorCode, str]:
    with pytest.raises(TransportError) as refused:
        connect(pool.settings(0, 1, **changes)).close()
    port = pool.settings(0, 1).reducers[0][1]
    return refused.value.code, refused.value.message.replace(str(port), "PORT")


def _sum(transport: Transport, rank: int) -> list[float]:
    data = np.full(3, rank + 1, np.float32)
    transport.all_reduce(memoryview(data)).wait(30)
    return data.tolist()


class Proxy:
    """Stands between workers and a reducer. `pass_on(data, towards reducer)` is what it passes,
    None to cut the connection."""

    def __init__(
        self, target: tuple[str, int], pass_on: Callable[[bytes, bool], bytes | None]
    ) -> None:
        self._target = target
        self._pass_on = pass_on
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.address: tuple[str, int] = self._listener.getsockname()
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                here, _ = self._listener.accept()
                there = socket.create_connection(self._target)
                for ends in ((here, there, True), (there, here, False)):
                    threading.Thread(target=self._carry, args=ends, daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket, towards: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                passed = self._pass_on(data, towards)
                if passed is None:
                    break
                sink.sendall(passed)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR if passed is None else socket.SHUT_WR)

    def close(self) -> None:
        """Accept no more."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()


@pytest.fixture
def proxy(pool: Pool) -> Iterator[Callable[..., None]]:
    """Put a proxy in front of a reducer of the pool; workers then know only the proxy."""
    proxies: list[Proxy] = []

    def between(pass_on: Callable[[bytes, bool], bytes | None]) -> None:
        pool.start(1)
        proxies.append(Proxy(pool.reducers[0].address, pass_on))
        reducer = pool.reducers.pop()
        closing.append(reducer)
        pool.others = [proxies[0].address]

    closing: list[Any] = []
    yield between
    for each in [*proxies, *closing]:
        each.close()


@pytest.mark.parametrize("secured", [True, False])
def test_gradients_can_be_read_on_the_wire_without_tls_only(
    pool: Pool, proxy: Callable[..., None], secured: bool
) -> None:
    seen = {True: bytearray(), False: bytearray()}

    def record(data: bytes, towards: bool) -> bytes:
        seen[towards] += data
        return data

    if not secured:
        pool.identity = None
    proxy(record)
    gradient = bytearray(_MARKER * 10_000)
    pool.run(1, lambda transport, rank: transport.all_reduce(gradient).wait(30))
    assert [_MARKER in data for data in seen.values()] == [not secured] * 2
    assert min(len(data) for data in seen.values()) > 160_000
    assert gradient == _MARKER * 10_000


def test_another_runs_certificate_is_not_taken(pool: Pool) -> None:
    pool.start(1)
    assert _refusal(pool, tls=Tls(make_identity())) == (
        ErrorCode.AUTHENTICATION,
        "reducer 0 (127.0.0.1:PORT) refused: its certificate is not this run's RSCTL_TLS_IDENTITY",
    )
    assert pool.run(2, _sum) == [[3.0] * 3] * 2


def test_the_certificate_is_not_enough_without_the_token(pool: Pool) -> None:
    pool.start(1)
    assert _refusal(pool, token=b"not the token of this run") == (
        ErrorCode.AUTHENTICATION,
        "reducer 0 (127.0.0.1:PORT) refused: wrong token",
    )


def test_a_worker_without_tls_is_told(pool: Pool) -> None:
    pool.start(1)
    assert _refusal(pool, tls=None) == (
        ErrorCode.MISMATCH,
        "reducer 0 (127.0.0.1:PORT) refused: RSCTL_TRANSPORT_TLS is set for this reducer, but "
        "not for the worker, which does not use TLS",
    )


def test_a_reducer_without_tls_is_not_talked_to(pool: Pool) -> None:
    secured = pool.tls()
    pool.identity = None
    pool.start(1)
    assert _refusal(pool, tls=secured) == (
        ErrorCode.MISMATCH,
        "reducer 0 (127.0.0.1:PORT) refused: RSCTL_TRANSPORT_TLS is set for this worker, but not "
        "for the reducer, which does not use TLS",
    )


def _serve_one(secured: Tls, token: bytes) -> tuple[tuple[str, int], threading.Thread]:
    """A reducer's handshake, up to its proof, by someone who knows these secrets."""
    listener = socket.create_server(("127.0.0.1", 0))

    def pretend() -> None:
        with listener, contextlib.suppress(OSError, TransportError):
            wire, _ = listener.accept()
            handshake = Handshake(wire)
            line = secured.accept(wire, handshake)
            with line.sock:
                Handshake(line.sock).send(verify_worker(handshake.over(line), token).ready)

    thread = threading.Thread(target=pretend)
    thread.start()
    address: tuple[str, int] = listener.getsockname()
    return address, thread


def test_someone_with_the_certificate_and_another_token_is_no_reducer(run_identity: str) -> None:
    address, thread = _serve_one(Tls(run_identity), b"another token, sixteen bytes")
    settings = WorkerSettings("run", TOKEN, 0, 1, (address,), tls=Tls(run_identity), patience=0.2)
    with pytest.raises(TransportError):
        connect(settings)
    thread.join()


def test_someone_with_the_token_and_another_certificate_is_no_reducer(run_identity: str) -> None:
    address, thread = _serve_one(Tls(make_identity()), TOKEN)
    settings = WorkerSettings("run", TOKEN, 0, 1, (address,), tls=Tls(run_identity), patience=0.2)
    with pytest.raises(TransportError, match="its certificate is not this run's"):
        connect(settings)
    thread.join()


def test_proofs_do_not_pass_from_one_tls_connection_to_another(
    pool: Pool, run_identity: str
) -> None:
    """In the middle with the certificate's own key, relaying every byte of the handshake."""
    pool.start(1)
    listener = socket.create_server(("127.0.0.1", 0))

    def relay() -> None:
        near, _ = listener.accept()
        far = socket.create_connection(pool.reducers[0].address)
        ours = Tls(run_identity)
        lines = ours.accept(near, Handshake(near)).sock, ours.connect(far, Handshake(far)).sock
        for sock in lines:
            sock.setblocking(True)
        turned = threading.Thread(target=_copy, args=lines[::-1])
        turned.start()
        _copy(*lines)
        turned.join()

    thread = threading.Thread(target=relay)
    thread.start()
    settings = pool.settings(0, 1, reducers=(listener.getsockname(),))
    with pytest.raises(TransportError) as refused:
        connect(settings)
    thread.join()
    listener.close()
    assert refused.value.code is ErrorCode.AUTHENTICATION
    assert refused.value.message.endswith(" refused: wrong token")


def _copy(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(1 << 16):
            sink.sendall(data)
        sink.shutdown(socket.SHUT_WR)


def _a_client_hello() -> bytes:
    context, outgoing = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), ssl.MemoryBIO()
    context.check_hostname = False
    with pytest.raises(ssl.SSLWantReadError):
        context.wrap_bio(ssl.MemoryBIO(), outgoing).do_handshake()
    return outgoing.read()


@pytest.mark.parametrize(
    "sent",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: reducer\r\n\r\n" + b"x" * 200,
        b"\x16\x03\x01\xff\xff" + b"x" * 70_000,
        b"\x17\x03\x03\x00\x20" + bytes(32),
        _a_client_hello()[:100],
        _a_client_hello() + b"\x17\x03\x03\x00\x20" + bytes(32),
    ],
    ids=["nothing", "http", "long-record", "data-first", "half-hello", "hello-then-data"],
)
def test_strangers_are_shown_out_and_the_run_goes_on(pool: Pool, sent: bytes) -> None:
    pool.start(1)
    sock = socket.create_connection(pool.reducers[0].address, timeout=10)
    with sock, contextlib.suppress(OSError):
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        while sock.recv(4096):
            pass
    assert pool.run(2, _sum) == [[3.0] * 3] * 2
    assert pool.reducers[0].refused == 1


def test_older_tls_is_refused(pool: Pool) -> None:
    pool.start(1)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    sock = socket.create_connection(pool.reducers[0].address, timeout=10)
    with sock, pytest.raises(ssl.SSLError, match="PROTOCOL_VERSION"):
        context.wrap_socket(sock)


@pytest.mark.parametrize("damage", ["changed", "cut"])
def test_changed_and_cut_records_end_the_run_and_change_no_gradient(
    pool: Pool, proxy: Callable[..., None], damage: str
) -> None:
    passed = [0]

    def damaging(data: bytes, towards: bool) -> bytes | None:
        if not towards:
            return data
        before, passed[0] = passed[0], passed[0] + len(data)
        if not before < 500_000 <= passed[0]:
            return data
        return None if damage == "cut" else data[:-1] + bytes([data[-1] ^ 1])

    proxy(damaging)
    data = np.ones(500_000, np.float32)

    def work(transport: Transport, rank: int) -> tuple[ErrorCode, bool]:
        with pytest.raises(TransportError) as failed:
            transport.all_reduce(memoryview(data)).wait(30)
        return failed.value.code, "reducer 0" in failed.value.message

    assert pool.run(1, work) == [(ErrorCode.LOST, True)]
    assert set(data.tolist()) == {1.0}


_AFTER_HANDSHAKE = {
    "garbage": b"\x17\x03\x03\x00\x20" + bytes(32),
    "half a record": b"\x17\x03\x03\x40\x00" + bytes(99),
    "longer than TLS allows": b"\x17\x03\x03\xff\xff" + bytes(70_000),
    "renegotiation in clear": b"\x16\x03\x03\x00\x04" + bytes(4),
    "an alert in clear": b"\x15\x03\x03\x00\x02\x02\x28",
    "no TLS": b"GET / HTTP/1.1\r\n\r\n",
    "its end": b"",
}


@pytest.mark.parametrize("sent", _AFTER_HANDSHAKE.values(), ids=_AFTER_HANDSHAKE)
def test_a_member_that_breaks_tls_is_named_and_the_next_epoch_runs(pool: Pool, sent: bytes) -> None:
    pool.start(1)
    wire = socket.create_connection(pool.reducers[0].address, timeout=10)
    secured, handshake = Tls(pool.identity or "", pool.engine == "core"), Handshake(wire)
    channel = secured.connect(wire, handshake)
    prove_worker(handshake.over(channel), _HELLO, TOKEN)
    with contextlib.suppress(OSError):
        channel.wire.sendall(sent)
        channel.sock.shutdown(socket.SHUT_WR)
    wait_until(lambda: pool.reducers[0].outcome() is not None)
    outcome = pool.reducers[0].outcome()
    assert outcome is not None
    assert (outcome.code, outcome.message[:16]) == (ErrorCode.LOST, "rank 0 was lost:")
    assert pool.run(2, _sum, epoch=1) == [[3.0] * 3] * 2
    channel.sock.close()


def test_many_small_blocks_in_one_packet_are_all_read(pool: Pool) -> None:
    pool.start(1)
    data = [np.full(200_000, rank + 1, np.float32) for rank in range(2)]

    def work(transport: Transport, rank: int) -> bool:
        transport.all_reduce(memoryview(data[rank])).wait(30)
        return bool((data[rank] == 3).all())

    assert pool.run(2, work, frame=4096, window=64) == [True, True]


@pytest.mark.parametrize("openssl", ["LibreSSL 3.9.0", "OpenSSL"])
def test_without_the_interpreters_openssl_a_relay_encrypts(
    openssl: str, monkeypatch: pytest.MonkeyPatch, pool: Pool, run_identity: str
) -> None:
    if openssl == "OpenSSL":  # linked into the interpreter, and not to be found in it
        monkeypatch.setattr(tls_session.importlib, "import_module", lambda name: object())
    monkeypatch.setattr(ssl, "OPENSSL_VERSION", openssl)
    monkeypatch.setattr(tls_session, "has_openssl", tls_session.has_openssl.__wrapped__)
    monkeypatch.setattr(tls, "has_openssl", tls_session.has_openssl)
    pool.start(1)
    assert not Tls(run_identity).in_core
    assert pool.run(2, lambda transport, rank: transport.tls) == ["relay"] * 2


@NEEDS_CORE
def test_a_process_may_exit_while_its_engines_encrypt(run_identity: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _EXITS],
        env=os.environ | {"RSCTL_TLS_IDENTITY": run_identity},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "core\n", "")


_EXITS = """
import ctypes, os
from rsctl.transport import WorkerSettings, connect
from rsctl.transport.engines import reducer_engine
from rsctl.transport.server import Reducer
from rsctl.transport.tls import Tls

tls, token = Tls(os.environ["RSCTL_TLS_IDENTITY"]), b"a token of this test"
reducer = Reducer("127.0.0.1", 0, token, "run", lambda group: reducer_engine(group, True), tls=tls)
transport = connect(WorkerSettings("run", token, 0, 1, (reducer.address,), tls=tls))
going = [transport.all_reduce(bytearray(4_000_000)) for _ in range(20)]
going[0].wait(10)
print(transport.tls, flush=True)
ctypes.CDLL(None).exit(0)
"""


def test_nothing_is_left_behind(pool: Pool) -> None:
    before = _descriptors()
    pool.start(2)
    for epoch in range(4):
        assert pool.run(2, _sum, epoch=epoch) == [[3.0] * 3] * 2
    while pool.reducers:
        pool.reducers.pop().close()
    wait_until(lambda: not [t for t in threading.enumerate() if t.name == "rsctl-tls"])
    wait_until(lambda: _descriptors() <= before)


def _descriptors() -> int:
    gc.collect()  # an engine in C++ keeps some of its own while Python remembers it
    return len(os.listdir("/proc/self/fd"))
