"""Nodes of a job with launcher mpi, around a stand-in for Open MPI that is started as it is.

tests/targets/local/test_compose_mpi.py has the real one.
"""

from __future__ import annotations

import json
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.node.structured_lines import lock_of

from ..conftest import LaunchNode, Node

AGENT = "OMPI_MCA_plm_rsh_agent"
# One rank a node: on the chief by itself, on others by the agent. Ends with the first failure.
MPIRUN = f"""\
#!{sys.executable}
import os, shlex, signal, subprocess, sys
if sys.argv[1:] == ["--version"]:
    print(os.environ.get("VERSION", "mpirun (Open MPI) 4.1.4")); sys.exit()
words = sys.argv[1:]
hosts = [line.split() for line in open(words[words.index("--hostfile") + 1])]
command = words[words.index("--hostfile") + 2 :]
size = int(words[words.index("-np") + 1])
ranks = []
for rank, (host, slots) in enumerate(hosts):
    env = {{**os.environ, "RANK_OF": f"{{rank}} {{size}}"}}
    if host == "localhost":
        words = ["orted", *command]
    else:
        agent = shlex.split(os.environ["{AGENT}"])
        words = [*agent, host, " orted", "--rank", str(rank), str(size), *map(shlex.quote, command)]
    ranks.append(subprocess.Popen(words, env=env))
signal.signal(signal.SIGTERM, lambda *_: [rank.terminate() for rank in ranks])
sys.exit(max(rank.wait() for rank in ranks))
"""
ORTED = f"""\
#!{sys.executable}
import os, sys
words = sys.argv[1:]
if words[0] == "--rank":
    os.environ["RANK_OF"] = " ".join(words[1:3]); words = words[3:]
rank, size = os.environ["RANK_OF"].split()
os.environ.update(OMPI_COMM_WORLD_RANK=rank, OMPI_COMM_WORLD_SIZE=size)
os.environ.update(OMPI_COMM_WORLD_LOCAL_RANK="0", OMPI_COMM_WORLD_LOCAL_SIZE="1")
os.execvp(words[0], words)
"""
SHOW = "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $RSCTL_REPLICA"
Start = Callable[..., list[Node]]


@pytest.fixture
def start(
    launch: LaunchNode, tmp_path: Path, addresses: Callable[[int], list[str]], free_port: int
) -> Start:
    """Start the nodes of a job of two workers around a shell command."""
    for name, text in (("mpirun", MPIRUN), ("orted", ORTED)):
        (tmp_path / name).write_text(text)
        (tmp_path / name).chmod(0o755)
    hosts = addresses(2)

    def nodes(shell: str, **env: str) -> list[Node]:
        common = {
            "PATH": f"{tmp_path}:/usr/bin:/bin",
            "RSCTL_PORT": str(free_port),
            "RSCTL_TOKEN": "0123456789abcdef",
            **env,
        }
        return [
            launch(
                *("--launcher", "mpi", "--", "sh", "-c", shell),
                cluster_fields={"index": index, "workers": hosts},
                **common,
            )
            for index in (1, 0)
        ]

    return nodes


def test_ranks_run_on_all_nodes_with_the_variables_that_torchrun_sets(start: Start) -> None:
    other, chief = start(SHOW)
    assert (chief.wait(), other.wait()) == (0, 0), chief.err + other.err
    assert sorted(chief.marked_out.splitlines()) == [
        "[worker-0/0] 0 2 0 1 worker-0",
        "[worker-1/0] 1 2 0 1 worker-1",
    ]
    assert other.out == ""


def test_a_failed_rank_is_reported_with_its_own_replica(start: Start) -> None:
    """After what it wrote to stderr, on the same stream, since mpirun brings each on its own."""
    failing = "[ $RANK = 0 ] || { echo Traceback >&2; printf 'step  9%%' >&2; exit 7; }"
    other, chief = start(failing, RSCTL_TARGET="compose")
    assert chief.wait() == 7, chief.err
    other_rank = '{"rsctl": "exit", "rank": 0, "local_rank": 0, "code": 0, '
    *before, report = [e for e in chief.err.splitlines() if not e.startswith(other_rank)]
    assert before == ["[worker-1/0] Traceback", "[worker-1/0] step  9%"]
    failure = json.loads(report)
    del failure["time"]
    (announced,) = other.lines("exits")
    assert lock_of(failure.pop("key")) == announced["lock"]
    assert failure == {
        **{"rsctl": "exit", "rank": 1, "local_rank": 0, "code": 7, "signal": None},
        "replica": "worker-1",
    }
    other.process.send_signal(signal.SIGTERM)  # as a supervisor does when a node has failed
    assert other.wait() in (0, 143)


def test_a_node_whose_chief_is_killed_says_that_it_lost_a_peer(start: Start) -> None:
    other, chief = start("echo up $RANK; sleep 60")
    chief.printed("up 1")
    chief.process.kill()
    assert other.wait() == 1
    assert other.err.splitlines()[-1] == "rsctl: Connection closed by peer: the chief has gone"


def test_a_stop_signal_ends_the_ranks_of_all_nodes(start: Start, tmp_path: Path) -> None:
    trap = f"trap 'touch {tmp_path}/ended-$RANK; exit 0' TERM"
    shell = f"{trap}; echo up $RANK; while :; do sleep 0.1; done"
    other, chief = start(shell)
    chief.printed("up 0")
    chief.printed("up 1")
    chief.process.terminate()
    assert (chief.wait(), other.wait()) == (143, 0)
    assert sorted(path.name for path in tmp_path.glob("ended-*")) == ["ended-0", "ended-1"]


def test_each_node_reports_a_stall_of_its_ranks(start: Start) -> None:
    nodes = start("sleep 600", RSCTL_STALL_SECONDS="1")
    for node in nodes:
        node.printed('{"rsctl": "stall"')
    nodes[1].process.terminate()
    assert nodes[1].wait() == 143


@pytest.mark.parametrize(
    ("env", "code"),
    [
        ({"PATH": "/nowhere"}, "mpirun-missing"),
        ({"VERSION": "HYDRA build details:"}, "mpirun-unknown"),
        ({"RSCTL_TOKEN": ""}, "token-missing"),
    ],
)
def test_what_a_node_lacks_is_a_finding(start: Start, env: dict[str, str], code: str) -> None:
    other, chief = start(SHOW, RSCTL_RESOLVE_SECONDS="0.2", **env)
    assert {chief.wait(), other.wait()} <= {2, 3, 75}
    assert [line["code"] for line in chief.lines("finding")] == [code] or env == {"RSCTL_TOKEN": ""}
    assert [line["code"] for line in other.lines("finding")] == [code]


def test_the_proof_names_the_version(launch: LaunchNode, tmp_path: Path) -> None:
    (tmp_path / "mpirun").write_text(MPIRUN)
    (tmp_path / "mpirun").chmod(0o755)
    node = launch("--check", "--launcher", "mpi", PATH=str(tmp_path))
    assert node.wait() == 0
    assert node.out.endswith("; mpirun (Open MPI) 4.1.4\n")
    node = launch("--check", "--launcher", "mpi", PATH="/nowhere")
    assert node.wait() == 3
    [finding] = node.lines("finding")
    assert finding["remedy"].startswith("Add openmpi-bin to image.apt")
