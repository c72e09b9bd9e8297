"""Waiting for the names of the other nodes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rsctl.node.errors import LaunchError
from rsctl.node.peers import wait_for_names

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
