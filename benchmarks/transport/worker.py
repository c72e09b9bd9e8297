"""One worker of a benchmark: `python worker.py ENGINE BYTES RUNS HYBRID`.

ENGINE is core, python or gloo. Prints one JSON line: the seconds of each run, and what moved.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import numpy as np

WARM_UPS = 2


def main() -> None:
    """Time all-reduces of one size, each after a barrier, and check the last sum."""
    engine, size, runs, hybrid = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    data = np.empty(size // 4, np.float32)
    rank, world = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    with _gloo(data) if engine == "gloo" else _reducers(data, engine, hybrid == "1") as all_reduce:
        seconds = []
        for _ in range(WARM_UPS + runs):
            data[:] = rank + 1
            all_reduce(False)
            begin = time.perf_counter()
            all_reduce(True)
            seconds.append(time.perf_counter() - begin)
    wrong = int(np.count_nonzero(data != world * (world + 1) / 2))
    print(json.dumps({"seconds": seconds[WARM_UPS:], "wrong": wrong, **_traffic()}), flush=True)


AllReduce = Callable[[bool], None]
"""Reduces the data, or only one number as a barrier."""


@contextmanager
def _reducers(data: np.ndarray, engine: str, hybrid: bool) -> Iterator[AllReduce]:
    os.environ["RSCTL_TRANSPORT_CORE"] = "on" if engine == "core" else "off"
    from rsctl.transport import connect

    if not hybrid:
        os.environ.pop("RSCTL_PEERS", None)
    barrier = bytearray(4)
    with connect() as transport:

        def all_reduce(whole: bool) -> None:
            transport.all_reduce(memoryview(data) if whole else memoryview(barrier)).wait(300)

        yield all_reduce


@contextmanager
def _gloo(data: np.ndarray) -> Iterator[AllReduce]:
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    tensor, one = torch.from_numpy(data), torch.zeros(1)
    yield lambda whole: dist.all_reduce(tensor if whole else one)
    dist.barrier()


def _traffic() -> dict[str, int]:
    with open("/proc/self/net/dev", encoding="utf-8") as counters:
        fields = next(row for row in counters if "eth0:" in row).split(":")[1].split()
    return {"received": int(fields[0]), "sent": int(fields[8])}


if __name__ == "__main__":
    main()
