"""torchrun: two nodes on the loopback, and how failures and stops come through it.

Where a test kills or stops a node, ranks and torchrun are processes that the node started.
"""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

Launch = Callable[..., Any]
Script = Callable[[str], str]

TWO_NODES = {"workers": ["127.0.0.1", "127.0.0.1"], "interface": "lo"}

ALL_REDUCE = """
import os, sys, torch
import torch.distributed as dist
from rsctl.node import log_metrics

dist.init_process_group("gloo")
ranks = torch.tensor(1.0 + dist.get_rank())
dist.all_reduce(ranks)
log_metrics(step=1, sum=ranks)
if dist.get_rank() == int(sys.argv[1]):
    os._exit(3)
dist.barrier()
dist.destroy_process_group()
"""

# Ranks share a pipe: what is to be one line is one write.
STAY = """
import os, signal, sys
def stop(*_):
    sys.stdout.write(f"saved {os.environ['RANK']}\\n")
    sys.exit(0)
signal.signal(signal.SIGTERM, stop)
sys.stdout.write(f"rank {os.environ['RANK']} {os.getpid()}\\n")
while True:
    signal.pause()
"""

# As PyTorch's tutorials: the script starts its ranks, and they meet at an address of its own.
SPAWN = """
import datetime, sys, torch
import torch.distributed as dist
import torch.multiprocessing as mp

def main(rank, init_methods):
    for init_method in init_methods:
        soon = datetime.timedelta(seconds=15)
        dist.init_process_group("gloo", init_method, soon, rank=rank, world_size=2)
        ranks = torch.tensor(1.0 + rank)
        dist.all_reduce(ranks)
        sys.stdout.write(f"{init_method[:3]} sum {ranks.item():g}\\n")
        dist.destroy_process_group()

if __name__ == "__main__":
    dist.init_process_group("gloo")
    sys.stdout.write(f"world {dist.get_world_size()}\\n")
    dist.destroy_process_group()
    mp.start_processes(main, args=(sys.argv[1:],), nprocs=2, start_method="fork")
"""


@pytest.fixture
def forked(launch: Launch, torch_forks: dict[str, str]) -> Launch:
    """As `launch`, without the time that importing torch takes."""
    return partial(launch, **torch_forks)


def two_nodes(
    launch: Launch, port: int, *command: str, ranks: tuple[int, int] = (1, 1)
) -> list[Any]:
    return [
        launch(
            *("--processes", str(ranks[index]), "--python"),
            "--",
            *command,
            cluster_fields={**TWO_NODES, "index": index},
            RSCTL_PORT=str(port),
        )
        for index in range(2)
    ]


LEAVES = """\
import os, sys, time, torch, torch.distributed as dist
from pathlib import Path
called = Path(sys.argv[1])
dist.init_process_group("gloo")
dist.all_reduce(torch.ones(2))
if os.environ["RANK"] == "1":
    while not called.exists():
        time.sleep(0.01)
    os._exit(3)
waiting = dist.all_reduce(torch.ones(5), async_op=True)
called.touch()
time.sleep(600)
"""


def test_a_rank_that_is_ended_for_another_one_leaves_its_calls(
    forked: Launch, script: Script, tmp_path: Path
) -> None:
    called = str(tmp_path / "called")
    node = forked("--processes", "2", "--python", "--", script(LEAVES), called)
    assert node.wait() == 3
    [left] = node.lines("rank")
    assert (left["rank"], left["state"]) == (0, "X")
    last = left["groups"]["0"]["entries"][-1]
    assert (last["op"], last["sizes"]) == ("all_reduce", [[5]])


def test_two_nodes_train_and_the_rank_that_fails_first_is_told_first(
    forked: Launch, script: Script, free_port: int
) -> None:
    """The chief may have another number of ranks than the other nodes."""
    nodes = two_nodes(forked, free_port, script(ALL_REDUCE), "1", ranks=(1, 2))
    assert [node.wait() for node in nodes] == [1, 3]
    metrics = [sorted(row for row in node.out.splitlines() if "metrics" in row) for node in nodes]
    of_rank = '{{"rsctl": "metrics", "step": 1, "sum": 6.0, "rank": {}{}}}'
    assert metrics == [
        [of_rank.format(0, "")],
        [of_rank.format(1 + n, f', "rsctl_rank": "worker-1/{n}"') for n in range(2)],
    ]
    exits = sorted((line for node in nodes for line in node.lines("exit")), key=by_time)
    del exits[0]["time"]
    assert exits[0] == {"rsctl": "exit", "rank": 1, "local_rank": 0, "code": 3, "signal": None}
    assert {line["rank"] for line in exits[1:]} <= {0, 2}


def by_time(line: dict[str, Any]) -> str:
    return str(line["time"])


def test_a_killed_rank_is_told_and_its_neighbour_is_only_stopped(
    launch: Launch, script: Script, free_port: int
) -> None:
    node = launch(*("--processes", "2", "--python", "--", script(STAY)), RSCTL_PORT=str(free_port))
    node.printed("rank 0")
    os.kill(int(node.printed("rank 1")), signal.SIGKILL)
    assert node.wait() == 137
    (line,) = node.lines("exit")
    del line["time"], line["oom_kills"]
    assert line == {
        "rsctl": "exit", "rank": 1, "local_rank": 1, "code": 137, "signal": "SIGKILL"
    }  # fmt: skip
    assert node.out.count("saved 0") == 1


def test_told_to_stop_every_rank_saves_once(launch: Launch, script: Script, free_port: int) -> None:
    node = launch(*("--processes", "2", "--python", "--", script(STAY)), RSCTL_PORT=str(free_port))
    node.printed("rank 0")
    node.printed("rank 1")
    os.killpg(node.process.pid, signal.SIGTERM)
    assert node.wait() != 0
    assert node.lines("exit") == []
    saved = [line for line in node.out.splitlines() if line.startswith("saved")]
    assert sorted(saved) == ["saved 0", "saved 1"]


def test_killed_it_takes_the_ranks_with_it(
    launch: Launch, script: Script, free_port: int, gone: Callable[[int], None]
) -> None:
    node = launch(*("--processes", "2", "--python", "--", script(STAY)), RSCTL_PORT=str(free_port))
    ranks = [int(node.printed(f"rank {rank}")) for rank in range(2)]
    node.process.kill()
    for pid in ranks:
        gone(pid)


PATIENT_CLOSE = """
import signal
from torch.distributed.elastic.multiprocessing.api import PContext, SignalException
from rsctl.node import torchrun

PContext.close = lambda self, death_sig=None, timeout=30: print(death_sig, timeout)
torchrun._wait_for_ranks_after_stop()
try:
    raise SignalException("told to stop", signal.SIGTERM)
except SignalException as stopped:
    PContext.close(None, stopped.sigval, timeout=30)
PContext.close(None, signal.SIGTERM)
"""


def test_only_whoever_stops_a_node_limits_how_long_that_takes(
    forked: Launch, script: Script
) -> None:
    node = forked("--launcher", "once", "--python", "--", script(PATIENT_CLOSE))
    assert (node.wait(), node.out) == (0, "15 1000000\n15 30\n")


DOLLARS = ["a$$b", "$$$", "x$$", "$local_rank", "${local_rank}", "$${local_rank}", "$x", "$"]


def test_a_rank_that_is_alone_may_start_ranks_itself(
    forked: Launch, script: Script, free_port: int
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        own = server.getsockname()[1]
    meetings = ["env://", f"tcp://127.0.0.1:{own}"]
    node = forked("--python", "--", script(SPAWN), *meetings, RSCTL_PORT=str(free_port))
    assert node.wait() == 0
    sums = ["env sum 3", "env sum 3", "tcp sum 3", "tcp sum 3"]
    assert sorted(node.out.splitlines()) == [*sums, "world 1"]


def test_arguments_arrive_as_written(forked: Launch, script: Script, free_port: int) -> None:
    """torch itself would replace `$$` and `${local_rank}`."""
    path = script("import sys; print('given', sys.argv[1:])")
    node = forked("--python", "--", path, *DOLLARS, RSCTL_PORT=str(free_port))
    assert (node.wait(), node.printed("given")) == (0, str(DOLLARS))


ONE_ENDS = """
import os, signal, sys
if sys.argv[1] == "listens":
    from rsctl.node import should_stop
    should_stop()
if os.environ["RANK"] == "1":
    signal.pause()
"""


@pytest.mark.parametrize("kind", ["listens", "plain"])
def test_a_node_whose_ranks_have_ended_ends_at_a_stop_signal(
    forked: Launch, script: Script, free_port: int, kind: str
) -> None:
    """torch itself would wait for the other node until it is killed."""
    first, _ = (
        forked(
            *("--python", "--", script(ONE_ENDS), kind),
            cluster_fields={**TWO_NODES, "index": index},
            RSCTL_PORT=str(free_port),
            LOGLEVEL="INFO",
        )
        for index in range(2)
    )
    first.wait_for_stderr("for other agents to finish")
    first.process.send_signal(signal.SIGTERM)
    assert first.wait() == 0
