"""Whole SageMaker jobs on the loopback: real torchrun, DDP and reducers, and how they end."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rsctl.node.rank import oom_kills
from rsctl.node.structured_lines import lock_of
from tests.kit.polling import wait_until

from .sagemaker import Job

UNKNOWN = "by an unknown sender" + (
    "; the kernel killed no process here to free memory" if oom_kills() is not None else ""
)
Addresses = Callable[[int], list[str]]
Script = Callable[[str], str]

TRAIN = """
import os, sys, time, torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 200))
print(f"up {rank} {os.getpid()}", flush=True)
steps = 3 if sys.argv[1] == "end" else 10**9
for step in range(steps):
    model(torch.full((2, 300), float(rank + 1))).sum().backward()
    if sys.argv[1] == "fail" and rank == 1 and step == 2:
        raise ValueError("no such luck")
    if step == 1:
        print(f"steady {rank}", flush=True)
    time.sleep(0.01)
print(f"gradient {model.module.weight.grad[0, 0].item():g}", flush=True)
dist.destroy_process_group()
"""


@pytest.fixture
def job(
    tmp_path: Path,
    launch: Callable[..., Any],
    addresses: Addresses,
    free_port: int,
    torch_forks: dict[str, str],
) -> Job:
    """Two workers and two reducers, which do not spend their time on importing torch."""
    hosts = addresses(4)
    groups = {"reducers": [hosts[1], hosts[3]], "workers": [hosts[0], hosts[2]]}
    made = Job(tmp_path, launch, groups, free_port)
    made.environ.update(torch_forks)
    return made


def start(job: Job, mode: str, path: str, *options: str) -> tuple[list[Any], list[Any]]:
    """Start all nodes of a job; its workers and its reducers, by index."""
    nodes = [
        job.start(host, *options, "--python", "--", path, mode)
        for host in job.workers + job.reducers
    ]
    return nodes[:2], nodes[2:]


def test_two_lanes_train_and_reducers_end_with_the_workers(job: Job, script: Script) -> None:
    workers, reducers = start(job, "end", script(TRAIN), "--processes", "2")
    assert [node.wait() for node in workers + reducers] == [0, 0, 0, 0]
    gradients = [node.printed("gradient") for node in workers for _ in range(2)]
    assert gradients == ["15"] * 4  # three steps of 2 * (1 + 2 + 3 + 4) / 4
    assert "2 nodes of 2 workers (two levels), 2 reducers sum all of it" in workers[0].err
    assert [node.out.partition(', "lock": ')[0] for node in workers + reducers] == [
        f'{{"rsctl": "node", "replica": "{replica}", "host": "{host}"'
        for replica, host in zip(
            ["worker-0", "worker-1", "reducer-0", "reducer-1"],
            job.workers + job.reducers,
            strict=True,
        )
    ]
    assert [job.failure(host) for host in job.workers + job.reducers] == [None] * 4


def test_a_failure_is_told_by_the_node_that_failed(job: Job, script: Script) -> None:
    path = script(TRAIN)
    workers, reducers = start(job, "fail", path)
    assert [node.wait() for node in workers + reducers] == [1, 1, 0, 0]
    assert job.failure(job.workers[1]) == (
        "worker-1, rank 1, failed (exit code 1)\n"
        "[rank1]: Traceback (most recent call last):\n"
        f'[rank1]:   File "{path}", line 14, in <module>\n'
        '[rank1]:     raise ValueError("no such luck")\n'
        "[rank1]: ValueError: no such luck"
    )
    others = [job.workers[0], *job.reducers]
    assert [job.failure(host) for host in others] == [None, None, None]
    assert "[rank1]: ValueError: no such luck\n" in workers[1].err


def test_a_killed_rank_ends_the_job(job: Job, script: Script) -> None:
    workers, reducers = start(job, "stay", script(TRAIN))
    os.kill(int(workers[1].printed("up 1")), signal.SIGKILL)
    assert [node.wait() for node in workers + reducers] == [1, 137, 0, 0]
    assert job.failure(job.workers[1]) == (
        f"worker-1, rank 1, was killed by SIGKILL (exit code 137), {UNKNOWN}"
    )
    assert job.failure(job.workers[0]) is None


def test_a_lost_chief_ends_the_job(job: Job, script: Script) -> None:
    workers, reducers = start(job, "stay", script(TRAIN))
    for rank, node in enumerate(workers):
        node.printed(f"steady {rank}")
    workers[0].process.kill()
    assert [node.wait() for node in workers + reducers] == [-signal.SIGKILL, 1, 0, 0]


def test_a_lost_reducer_ends_the_job_and_is_named(job: Job, script: Script) -> None:
    workers, reducers = start(job, "stay", script(TRAIN))
    for rank, node in enumerate(workers):
        node.printed(f"steady {rank}")
    (program,) = wait_until(lambda: children(reducers[1].process.pid))
    os.kill(program, signal.SIGKILL)
    assert [node.wait() for node in workers + reducers] == [1, 1, 0, 137]
    assert job.failure(job.reducers[1]) == (
        f"reducer-1 was killed by SIGKILL (exit code 137), {UNKNOWN}"
    )
    assert [job.failure(host) for host in job.workers] == [None, None]
    (line,) = reducers[1].lines("exit")
    del line["time"]
    assert line.pop("oom_kills") in (0, None)
    (node,) = reducers[1].lines("node")
    assert lock_of(line.pop("key")) == node["lock"]
    assert line == {
        "rsctl": "exit", "rank": None, "local_rank": None, "code": 137, "signal": "SIGKILL"
    }  # fmt: skip


def children(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
