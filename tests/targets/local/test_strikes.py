"""What a strike ends on a node of processes, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

import rsctl_start
from rsctl.targets.local.strikes import NotStruck, nodes_of

RUN = "t-struck"


@pytest.fixture
def started() -> Iterator[list[subprocess.Popen[bytes]]]:
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def start(command: list[str], started: list[subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    env = {**os.environ, "RSCTL_RUN": RUN, "RSCTL_REPLICA": "reducer-0"}
    started.append(subprocess.Popen(command, env=env, stdin=subprocess.PIPE))
    return started[-1]


@pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")
def test_the_program_of_a_reducer_is_killed_and_its_node_remains(
    started: list[subprocess.Popen[bytes]],
) -> None:
    launcher = start(["cat"], started)
    node = nodes_of(RUN, in_containers=False)["reducer-0"]
    with pytest.raises(NotStruck):
        node.kill_reducer()
    module = rsctl_start.command("rsctl.transport.reduce")[-1]
    reducer = start(["/bin/sh", "-c", "cat; :", module], started)
    assert node.kill_reducer().text == "SIGKILL to the program of reducer-0"
    assert reducer.wait(10) == -9
    assert launcher.poll() is None
