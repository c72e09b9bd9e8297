"""A rank that leaves while others wait for it fails the job, and is named; nothing else does."""

from __future__ import annotations

import re
from typing import Any

import pytest

from ..conftest import Rsctl

BEGIN = """
import os, sys, threading, time
import torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
one = torch.ones(1)
dist.all_reduce(one)  # gloo's first connections have been made on both sides
"""
END = "dist.destroy_process_group()\n"
DDP = """
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
for step in range(3 - rank):
    model(torch.ones(1, 2)).sum().backward()
"""
LAST_IS_ALONE = """
dist.all_reduce(one)
if rank == 0:
    for wait in ({waits},):
        try:
            wait()
        except RuntimeError as error:
            print("caught", error)
"""
LEFT = "worker-1 ended with exit code 0 while worker-0 waited for it in "
AN_ALL_REDUCE = f"{LEFT}an all-reduce"


@pytest.fixture
def rsctl(rsctl: Rsctl, torch_forks: dict[str, str]) -> Rsctl:
    """Its jobs do not spend their time on importing torch."""
    rsctl.env.update(torch_forks)
    return rsctl


def submit(rsctl: Rsctl, script: str, **keys: Any) -> Any:
    run = {"script": "train.py", "env": {"OMP_NUM_THREADS": "1"}}
    rsctl.write_job(run=run, **{"workers": {"count": 2}, **keys})
    (rsctl.folder / "source" / "train.py").write_text(BEGIN + script)
    return rsctl("submit", "job.yaml")


@pytest.mark.parametrize(
    ("script", "message"),
    [
        pytest.param(DDP + END, AN_ALL_REDUCE, id="uneven-batches"),
        pytest.param(
            "if rank == 1:\n    sys.exit(256)\ndist.all_reduce(one)\n", AN_ALL_REDUCE, id="exit-256"
        ),
        pytest.param(
            "if rank == 1:\n    threading.Thread(target=os._exit, args=[0]).start()\n"
            "    time.sleep(600)\ndist.broadcast(one, 1)\n",
            f"{LEFT}a broadcast",
            id="exit-in-a-thread",
        ),
        pytest.param(
            "if rank == 1:\n    os.execvp('true', ['true'])\ndist.all_reduce(one)\n",
            AN_ALL_REDUCE,
            id="exec",
        ),
        pytest.param(
            LAST_IS_ALONE.format(waits="lambda: dist.all_reduce(one)") + END,
            AN_ALL_REDUCE,
            id="caught",
        ),
        pytest.param(
            LAST_IS_ALONE.format(waits="lambda: dist.all_reduce(one, async_op=True).wait()")
            + "os._exit(0)",
            f"{LEFT}a collective operation",
            id="caught-and-os-exit",
        ),
        pytest.param(
            "dist.all_reduce(one)\nif rank == 1:\n    dist.destroy_process_group()\n"
            "    time.sleep(600)\ndist.all_reduce(one)\n",
            "worker-1 left the process group while worker-0 waited for it in an all-reduce",
            id="left-the-group",
        ),
    ],
)
def test_a_rank_that_leaves_early(rsctl: Rsctl, script: str, message: str) -> None:
    done = submit(rsctl, script)
    assert done.exit_code == 1, done.stdout
    assert f"cause: {message}\n" in done.stderr
    assert "worker-1 (rank 1) left early at " in done.stderr
    assert "drop_last" in done.stderr
    assert "Join" in done.stderr
    run = rsctl.status("@last")
    assert run["reason"] == message
    after = {each["replica"]: (each["state"], each["reason"]) for each in run["replicas"]}
    assert after["worker-1"] == ("failed", "while others waited for it")
    assert after["worker-0"] == ("failed", "as a result of the failure of worker-1")


def test_ranks_of_one_node(rsctl: Rsctl) -> None:
    done = submit(rsctl, DDP + END, workers={"count": 1, "processes": 2})
    assert done.exit_code == 1, done.stdout
    message = "rank 1 ended with exit code 0 while rank 0 waited for it in an all-reduce"
    assert f"cause: {message}\n" in done.stderr


@pytest.mark.parametrize(
    "script",
    [
        pytest.param("dist.all_reduce(one)\nif rank == 0:\n    time.sleep(2)\n", id="later"),
        pytest.param(
            "dist.all_reduce(one)\n" + END + "if rank == 0:\n    time.sleep(2)\n", id="destroyed"
        ),
        # A barrier comes last: after a failed one no other failure is looked at.
        pytest.param(
            LAST_IS_ALONE.format(
                waits="lambda: dist.irecv(one, 1).wait(), lambda: dist.recv(one, 1), dist.barrier"
            )
            + END,
            id="messages-and-barrier",
        ),
        pytest.param(
            LAST_IS_ALONE.format(waits="dist.monitored_barrier") + END, id="monitored-barrier"
        ),
        pytest.param(
            "group = dist.new_group([0])\ndist.all_reduce(one)\nif rank == 1:\n    sys.exit()\n"
            "for _ in range(20):\n    dist.all_reduce(one, group=group)\n    time.sleep(0.1)\n",
            id="subgroup",
        ),
    ],
)
def test_ranks_that_end_apart(rsctl: Rsctl, script: str) -> None:
    done = submit(rsctl, script)
    assert done.exit_code == 0, done.stdout + done.stderr


@pytest.mark.parametrize("on_loss", ["fail", "fallback"])
@pytest.mark.parametrize(
    ("leave", "message"),
    [
        ("os._exit(0)", AN_ALL_REDUCE),
        ("sys.exit()", AN_ALL_REDUCE),
        (
            "dist.destroy_process_group(); time.sleep(600)",
            "worker-1 left the process group while worker-0 waited for it in an all-reduce",
        ),
    ],
)
def test_a_rank_that_leaves_beside_reducers(
    rsctl: Rsctl, leave: str, message: str, on_loss: str
) -> None:
    script = f"""
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 1))
for step in range(3):
    if rank == 1 and step == 2:
        {leave}
    model(torch.ones(1, 2)).sum().backward()
"""
    pool = {"reducers": {"count": 1}, "comm": {"on_reducer_loss": on_loss}}
    done = submit(rsctl, script, **pool)
    assert done.exit_code == 1, done.stdout
    assert f"cause: {message}\n" in done.stderr
    assert "on_reducer_loss" not in done.stderr
    assert re.search("reducer [12]", done.stderr) is None, "the job has one reducer, number 0"
