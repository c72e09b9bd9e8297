"""The starter of launcher mpi: who may have what started, and when it ends."""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from rsctl.node.cluster import Cluster
from rsctl.node.errors import LaunchError
from rsctl.node.mpi import protocol
from rsctl.node.mpi.starter import Starter
from tests.kit.polling import wait_until

TOKEN = "0123456789abcdef" * 4
ORTED = """\
#!/bin/sh
echo "$$" > "$MARK"
echo "out $*"; echo "err $WHO" >&2
[ "$1" = stay ] && exec sleep 1000
exit 5
"""


@pytest.fixture
def mark(tmp_path: Path) -> Path:
    """Where a daemon leaves its process id."""
    return tmp_path / "mark"


@pytest.fixture
def node(
    tmp_path: Path,
    mark: Path,
    monkeypatch: pytest.MonkeyPatch,
    addresses: Callable[[int], list[str]],
) -> Iterator[tuple[str, int, Starter]]:
    """The second of two workers, with a daemon that a test can look at."""
    (tmp_path / "orted").write_text(ORTED)
    (tmp_path / "orted").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    hosts = addresses(2)
    with socket.create_server((hosts[1], 0)) as probe:
        port = int(probe.getsockname()[1])
    cluster = Cluster("worker", 1, tuple(hosts), (), None, port)
    env = {**os.environ, "RSCTL_TOKEN": TOKEN, "RSCTL_RUN": "run", "MARK": str(mark), "WHO": "me"}
    starter = Starter(cluster, env)
    yield hosts[1], port, starter
    starter.close()


def ask(node: tuple[str, int, Starter], **fields: object) -> socket.socket:
    identity = protocol.Identity(TOKEN.encode(), "run", 1)
    return protocol.request(node[:2], identity, fields)


def frames(sock: socket.socket) -> dict[int, bytes]:
    """What a daemon sends, up to its exit code."""
    found: dict[int, bytes] = {}
    while protocol.EXIT not in found:
        kind, data = protocol.read_frame(sock)
        found[kind] = found.get(kind, b"") + data
    return found


def test_a_daemon_sends_what_it_writes_and_its_exit_code(node: tuple[str, int, Starter]) -> None:
    with ask(node) as chief, ask(node, daemon=["orted", "a b", "$HOME; ls"]) as daemon:
        assert frames(daemon) == {1: b"out a b $HOME; ls\n", 2: b"err me\n", 3: b"5"}
        chief.sendall(b"end 3\n")
        assert node[2].wait(60) == 3


def test_a_daemon_ends_with_its_connection(
    node: tuple[str, int, Starter], mark: Path, gone: Callable[[int], None]
) -> None:
    with ask(node):
        with ask(node, daemon=["orted", "stay"]):
            pid = int(wait_until(lambda: mark.exists() and mark.read_text()))
        gone(pid)


def test_a_daemon_may_be_asked_for_once_the_chief_is_answered(
    node: tuple[str, int, Starter], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked, hold = threading.Event(), node[2]._hold
    monkeypatch.setattr(node[2], "_hold", lambda sock: asked.wait(60) and hold(sock))
    with ask(node), ask(node, daemon=["orted"]) as daemon:
        asked.set()
        assert frames(daemon)[protocol.EXIT] == b"5"


def test_a_chief_that_is_lost_has_no_exit_code(node: tuple[str, int, Starter]) -> None:
    ask(node).close()
    assert node[2].wait(60) is None


@pytest.mark.parametrize(
    "identity",
    [
        protocol.Identity(b"f" * 64, "run", 1),
        protocol.Identity(TOKEN.encode(), "another", 1),
        protocol.Identity(TOKEN.encode(), "run", 2),
    ],
    ids=["token", "run", "node"],
)
def test_only_this_jobs_chief_is_answered(
    node: tuple[str, int, Starter], identity: protocol.Identity, mark: Path
) -> None:
    with ask(node):
        with pytest.raises(OSError, match=r"token|no whole line"):
            protocol.request(node[:2], identity, {"daemon": ["orted"]})
        assert not mark.exists()


@pytest.mark.parametrize("daemon", [["sh", "-c", "id"], ["/bin/orted"], [], "orted", ["orted", 1]])
def test_nothing_but_a_daemon_is_started(node: tuple[str, int, Starter], daemon: object) -> None:
    with ask(node), pytest.raises(OSError, match=r"token|no whole line"):
        ask(node, daemon=daemon)


def test_nothing_is_started_while_no_job_runs(node: tuple[str, int, Starter], mark: Path) -> None:
    with pytest.raises(OSError, match="no whole line"):
        ask(node, daemon=["orted"])
    with ask(node) as chief:
        chief.sendall(b"end 0\n")
        assert node[2].wait(60) == 0
    with pytest.raises(OSError, match="no whole line"):
        ask(node, daemon=["orted"])
    assert not mark.exists()


@pytest.mark.parametrize(
    "sent", [b"", b"x 99999999\n", b"x -1\n", b"x 000000000000000001\n", b"\n"]
)
def test_a_peer_that_sends_anything_else_gets_no_answer(
    node: tuple[str, int, Starter], sent: bytes
) -> None:
    with socket.create_connection(node[:2], timeout=60) as sock:
        greeting = sock.makefile("rb").readline()
        assert greeting.startswith(b"rsctl-starter ")
        sock.sendall(sent)
        sock.shutdown(socket.SHUT_WR)
        assert sock.recv(100) == b""


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"a":' * 100_000, b"[]", b"\xff"])
def test_a_request_that_is_proven_and_cannot_be_read_ends_no_thread(
    node: tuple[str, int, Starter], body: bytes, capfd: pytest.CaptureFixture[str]
) -> None:
    """Such as JSON that is nested too deeply; the chief is answered afterwards."""
    with ask(node):
        with socket.create_connection(node[:2], timeout=60) as sock:
            nonce = sock.makefile("rb").readline().decode().split()[1]
            identity = protocol.Identity(TOKEN.encode(), "run", 1)
            proof = protocol._proof(identity, "chief", nonce, body)
            sock.sendall(f"{proof} {len(body)}\n".encode() + body)
            assert sock.recv(100) == b""
        with ask(node, daemon=["orted"]) as daemon:
            assert frames(daemon)[protocol.EXIT] == b"5"
    assert "Traceback" not in capfd.readouterr().err


def test_a_chief_that_never_comes(node: tuple[str, int, Starter]) -> None:
    with pytest.raises(
        LaunchError, match=r"after 0.01 s the chief has not requested this node's part"
    ):
        node[2].wait(0.01)
