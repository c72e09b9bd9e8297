"""Waiting for the names of the other nodes."""

from __future__ import annotations

import socket
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Any

import pytest

from rsctl.node import peers
from rsctl.node.errors import LaunchError
from rsctl.node.peers import wait_for_listeners, wait_for_names

# The resolver refuses it at once and asks nobody: a label has 63 characters at most.
NO_NAME = "x" * 64


class Names:
    """Name `n-T` resolves from second T on; time passes only while somebody sleeps."""

    def __init__(self) -> None:
        self.now = 0.0

    def wait(self, *names: str, limit: float) -> None:
        wait_for_names(names, limit, self._resolves, lambda: self.now, self._sleep)

    def _resolves(self, name: str) -> bool:
        return self.now >= float(name.removeprefix("n-"))

    def _sleep(self, seconds: float) -> None:
        self.now += seconds


def test_addresses_and_localhost_resolve_at_once(capsys: pytest.CaptureFixture[str]) -> None:
    wait_for_names(["127.0.0.1", "::1", "localhost"], limit=0)
    assert capsys.readouterr().err == ""


def test_says_once_whom_it_waits_for(capsys: pytest.CaptureFixture[str]) -> None:
    names = Names()
    names.wait("n-0", "n-10", "n-20", limit=300)
    assert names.now == pytest.approx(20, abs=0.3)
    assert capsys.readouterr().err == "rsctl: waiting for the names n-10, n-20\n"


def test_a_short_wait_is_silent(capsys: pytest.CaptureFixture[str]) -> None:
    Names().wait("n-0", "n-2", limit=300)
    assert capsys.readouterr().err == ""


def test_gives_up_at_the_limit() -> None:
    names = Names()
    with pytest.raises(LaunchError) as refused:
        names.wait("n-0", "n-900", limit=300)
    assert names.now == pytest.approx(300)
    assert refused.value.finding() == {
        "severity": "error",
        "code": "peers-unresolved",
        "message": "after 300 s these nodes have no address: n-900",
        "remedy": "Check whether they started, and why not; a slow start needs a longer "
        "RSCTL_RESOLVE_SECONDS.",
    }


def test_what_does_not_listen_has_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    """A firewall, such as a cloud's security group, drops what it does not allow."""
    monkeypatch.setattr(peers, "_CONNECT_SECONDS", 0.2)
    with ExitStack() as open_sockets:
        full = open_sockets.enter_context(socket.create_server(("127.0.0.1", 0), backlog=0))
        with suppress(TimeoutError):
            for _ in range(9):  # Linux drops a connection that the queue has no place for
                sock = socket.create_connection(full.getsockname(), timeout=0.2)
                open_sockets.enter_context(sock)
        closed = open_sockets.enter_context(socket.socket())
        closed.bind(("127.0.0.1", 0))
        addresses = [closed.getsockname(), full.getsockname()]
        with pytest.raises(LaunchError) as refused:
            wait_for_listeners(addresses, limit=0)
        with pytest.raises(LaunchError) as closed_only:
            wait_for_listeners(addresses[:1], limit=0)
    silent = [f"127.0.0.1:{port}" for _, port in addresses]
    finding = refused.value.finding()
    assert finding["message"] == (
        f"after 0 s the reducers do not listen: {silent[0]} (Connection refused), {silent[1]} "
        "(timed out)"
    )
    usual = "Check whether they started, and why not; a slow start needs a longer "
    usual += "RSCTL_RESOLVE_SECONDS."
    assert finding["remedy"] == (
        f"{usual} If they run, a firewall blocks the port: a security group must allow its own "
        "members."
    )
    assert closed_only.value.finding()["remedy"] == usual


def test_a_node_whose_peer_never_comes(launch: Callable[..., Any]) -> None:
    node = launch(
        *("--launcher", "once", "--", "echo", "ran"),
        cluster_fields={"workers": ["127.0.0.1", NO_NAME]},
        RSCTL_RESOLVE_SECONDS="0.5",
    )
    assert node.wait() == 75
    (finding,) = node.lines("finding")
    assert finding["message"] == f"after 0.5 s these nodes have no address: {NO_NAME}"
    assert "ran" not in node.out
