"""What a strike ends on a node, and what it leaves."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import rsctl_start
from rsctl.targets.local import strike_program, strikes
from rsctl.targets.local.rank_processes import RankProcess, rank_processes
from rsctl.targets.local.strikes import NotStruck, nodes_of
from tests.kit.polling import wait_until

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="finds processes in /proc")

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
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    process = subprocess.Popen(command, env=env, **pipes)  # type: ignore[call-overload]
    started.append(process)
    # The kernel shows no variables while the process starts its program.
    wait_until(Path(f"/proc/{process.pid}/environ").read_bytes, "the variables of a process")
    return started[-1]


def test_the_program_of_a_reducer_is_killed_and_its_node_remains(
    started: list[subprocess.Popen[bytes]],
) -> None:
    launcher = start(["cat"], started)
    node = nodes_of(RUN, in_containers=False)["reducer-0"]
    with pytest.raises(NotStruck, match="reducer-0 had no running program"):
        node.kill_reducer()
    module = rsctl_start.command("rsctl.transport.reduce")[-1]
    reducer = start(["/bin/sh", "-c", "cat; :", module], started)
    assert node.kill_reducer().text == "SIGKILL to the program of reducer-0"
    assert reducer.wait(10) == -9
    assert launcher.poll() is None


def test_a_rank_that_starts_later_than_the_chief(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    launcher = start(["/bin/sh", "-c", "read _; cat; :", "rsctl.node.launch"], started)
    node = nodes_of(RUN, in_containers=False)["reducer-0"]

    def begin(_: float) -> None:
        assert launcher.stdin is not None
        launcher.stdin.write(b"\n")
        launcher.stdin.flush()
        wait_until(lambda: strike_program.scripts([*strike_program.of_run(RUN)]), "its rank")

    monkeypatch.setattr(strikes, "sleep", begin)
    assert node.kill_ranks().text == "SIGKILL to rank of reducer-0"


@pytest.mark.parametrize("fault", ["kill_ranks", "fill_disk"])
def test_what_a_launcher_starts_before_the_rank_may_end_meanwhile(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    start(["cat"], started)
    ended = subprocess.Popen(["true"])
    ended.wait()
    find = strike_program.scripts
    found = iter([[ended.pid]])
    monkeypatch.setattr(strike_program, "scripts", lambda pids: next(found, None) or find(pids))
    monkeypatch.setattr(strikes, "sleep", lambda _: None)
    strike = getattr(nodes_of(RUN, in_containers=False)["reducer-0"], fault)()
    assert strike.text.endswith(" of reducer-0")
    strike.undo()


def test_a_node_without_ranks(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """If a strike has no effect, the job has not survived it."""
    monkeypatch.setattr(strikes, "_EFFECT_SECONDS", 0.0)
    start(["/bin/sh", "-c", "read _", "rsctl.node.launch"], started)
    node = nodes_of(RUN, in_containers=False)["reducer-0"]
    for strike in (node.kill_ranks, node.fill_disk):
        with pytest.raises(NotStruck, match="reducer-0 had no running rank"):
            strike()
    with pytest.raises(NotStruck, match="processes share the network of this machine"):
        node.cut_off()


def test_a_node_that_is_lost(started: list[subprocess.Popen[bytes]]) -> None:
    process = start(["cat"], started)
    node = nodes_of(RUN, in_containers=False)["reducer-0"]
    assert node.kill().text == "SIGKILL to all processes of reducer-0"
    assert process.wait(10) == -9
    for strike in (node.kill, node.freeze, node.ask):
        with pytest.raises(NotStruck, match="reducer-0 had no running process"):
            strike()


def test_a_process_whose_name_the_kernel_cuts_within_a_letter(
    started: list[subprocess.Popen[bytes]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kernel keeps 15 bytes of a program's name."""
    program = tmp_path / "entraînement-é"
    program.symlink_to("/bin/cat")
    monkeypatch.setenv("RANK", "0")
    process = start([str(program)], started)
    assert rank_processes(RUN) == [RankProcess(0, "reducer-0", process.pid)]
    node = nodes_of(RUN, in_containers=False)["reducer-0"]
    assert node.kill_ranks().text == "SIGKILL to rank of reducer-0"
    assert process.wait(10) == -9


def test_a_launcher_of_the_users_own_is_not_a_rank(
    started: list[subprocess.Popen[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has the number of its node, which may be that of one of its ranks."""
    monkeypatch.setenv("NODE_RANK", "0")
    process = start(["sh", "-c", "RANK=0 sleep 600 & wait"], started)
    [rank] = wait_until(
        lambda: [each for each in rank_processes(RUN) if each.pid != process.pid], "its rank"
    )
    assert rank_processes(RUN) == [rank]
    nodes_of(RUN, in_containers=False)["reducer-0"].kill()


def test_a_frozen_node_thaws(started: list[subprocess.Popen[bytes]]) -> None:
    process = start(["cat"], started)
    frozen = nodes_of(RUN, in_containers=False)["reducer-0"].freeze()
    assert frozen.text == "SIGSTOP to all processes of reducer-0"
    assert strike_program.state(process.pid) == "T"
    frozen.undo()
    wait_until(lambda: strike_program.state(process.pid) != "T", "the process to continue")


def test_a_notice_of_an_end(started: list[subprocess.Popen[bytes]]) -> None:
    """A node that does not use it is killed when it is over."""
    stubborn = start(["/bin/sh", "-c", "trap 'echo asked' TERM; echo up; cat; cat"], started)
    assert stubborn.stdout is not None
    assert stubborn.stdout.readline() == b"up\n"
    asked = nodes_of(RUN, in_containers=False)["reducer-0"].ask()
    assert asked.text == "SIGTERM to reducer-0"
    assert stubborn.poll() is None
    asked.finish()
    assert stubborn.wait(10) == -9


def test_an_engine_that_runs_nothing_in_a_container(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is the engine's: whether a rank runs there is not known."""
    problem = "OCI runtime exec failed: exec failed: unable to start container process"
    docker = tmp_path / "docker"
    listed = "[ $1 = ps ] && echo 0123abcd worker-1 && exit"
    docker.write_text(f"#!/bin/sh\n{listed}\necho 'Traceback:\n{problem}' >&2; exit 126\n")
    docker.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    node = nodes_of(RUN, in_containers=True)["worker-1"]
    for strike in (node.fill_disk, node.kill_ranks, node.kill_reducer):
        with pytest.raises(NotStruck, match=f"^worker-1: {problem}$"):
            strike()
