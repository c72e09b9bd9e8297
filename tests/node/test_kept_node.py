"""`--keep`: a node that has failed stays, and ends with the exit code of its command."""

from __future__ import annotations

import signal
from collections.abc import Callable
from typing import Any

from tests.kit.polling import wait_until

Launch = Callable[..., Any]


def test_a_failed_node_stays_until_it_is_stopped(launch: Launch) -> None:
    node = launch(
        "--launcher", "once", "--keep", "600", "--", "sh", "-c", "exit 7", RSCTL_RUN="t-1"
    )
    [found] = wait_until(lambda: node.lines("finding"))
    message, _, until = found["message"].partition(" until ")
    assert (found["severity"], message) == (
        "warning",
        "worker-0 failed with exit code 7; its node is kept",
    )
    assert until.endswith(" UTC")
    assert found["remedy"] == "look into it: rsctl shell t-1 worker-0; end it: rsctl cancel t-1"
    assert node.process.poll() is None
    node.process.send_signal(signal.SIGTERM)
    assert node.wait() == 7


def test_a_failed_node_stays_for_its_time(launch: Launch) -> None:
    node = launch("--launcher", "once", "--keep", "1", "--", "sh", "-c", "exit 7")
    assert node.wait() == 7
    assert [line["code"] for line in node.lines("finding")] == ["kept"]


def test_nodes_that_have_not_failed_do_not_stay(launch: Launch) -> None:
    complete = launch("--launcher", "once", "--keep", "600", "--", "true")
    source = "trap 'exit 9' TERM; echo up; while :; do sleep 0.1; done"
    stopped = launch("--launcher", "once", "--keep", "600", "--", "bash", "-c", source)
    stopped.printed("up")
    stopped.process.send_signal(signal.SIGTERM)
    assert (complete.wait(), stopped.wait()) == (0, 9)
