"""A Vertex job on the loopback: torchrun, DDP, and reducers that outlive the workers' restart."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .sagemaker import TOKEN

TRAIN = """
import sys, torch
import torch.distributed as dist

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.manual_seed(0)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(300, 200))
for step in range(3):
    model(torch.full((2, 300), float(rank + 1))).sum().backward()
    if sys.argv[1] == "fail" and rank == 1 and step == 1:
        raise SystemExit(9)
print(f"gradient {model.module.weight.grad[0, 0].item():g}", flush=True)
dist.destroy_process_group()
"""


def test_restarted_workers_find_the_same_reducers(
    launch: Callable[..., Any],
    script: Callable[[str], str],
    addresses: Callable[[int], list[str]],
    free_port: int,
    torch_forks: dict[str, str],
) -> None:
    chief, *workers = addresses(3)
    pools = {
        "workerpool0": [f"{chief}:{free_port}"],
        "workerpool1": [f"{workers[0]}:2222"],
        "workerpool2": [f"{workers[1]}:2222"],
    }
    path = script(TRAIN)

    def start(pool: int, mode: str) -> Any:
        spec = {"cluster": pools, "task": {"type": f"workerpool{pool}", "index": 0}}
        return launch(
            *("--python", "--", path, mode),
            CLUSTER_SPEC=json.dumps(spec),
            RSCTL_TARGET="vertex",
            RSCTL_REDUCER_KIND="rsctl",
            RSCTL_RUN="run-abc123",
            RSCTL_TOKEN=TOKEN,
            **torch_forks,
        )

    reducer = start(2, "")
    first = [start(pool, "fail") for pool in (0, 1)]
    assert [node.wait() for node in first] == [1, 9]
    again = [start(pool, "end") for pool in (0, 1)]
    assert [node.wait() for node in again] == [0, 0]
    assert [node.printed("gradient") for node in again] == ["9", "9"]
    assert reducer.process.poll() is None
    reducer.process.terminate()
    assert reducer.wait() == 0
    assert reducer.lines("telemetry")[-1]["reducer"]["ended"] == "all workers have left"
