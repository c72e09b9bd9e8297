"""One training on a star of network namespaces."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from benchmarks.convergence.methods import METHODS
from benchmarks.measure import Failed
from benchmarks.transport.network import Link, Star

_SCRIPT = str(Path(__file__).with_name("training.py"))
_PORT = 29600
_SECONDS = 3600

Curve = list[tuple[int, float, float]]
"""Steps, seconds of training, and the validation loss then."""


@dataclass(frozen=True)
class Trial:
    """One training: `mbit` is the rate of each link in each direction, in Mbit/s."""

    task: str
    workers: int
    mbit: float
    method: str
    seed: int
    steps: int


def train(trial: Trial) -> Curve:
    """The curve of the first rank. Raises Failed, also if ranks have different parameters."""
    method = METHODS[trial.method]
    reducers = trial.workers if method.has_reducers else 0
    links = [Link(trial.mbit * 1e6)] * (trial.workers + reducers)
    command = [sys.executable, _SCRIPT, trial.task, str(trial.steps), str(trial.seed)]
    with Star(links) as star, _reducers(trial, reducers, star) as environ:
        running = [
            subprocess.Popen(
                star.command(rank, command),
                env={**environ, **_place(trial, star, rank)},
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL if rank else None,
                text=True,
            )
            for rank in range(trial.workers)
        ]
        lines = [_last_line(output) for output in _outputs(running)]
    if len({line["digest"] for line in lines}) != 1:
        raise Failed(f"{trial}: the ranks have different parameters")
    return [tuple(point) for point in lines[0]["curve"]]


def _last_line(output: str) -> dict[str, object]:
    found: dict[str, object] = json.loads(
        next(line for line in reversed(output.splitlines()) if line.startswith('{"digest"'))
    )
    return found


def _outputs(workers: list[subprocess.Popen[str]]) -> list[str]:
    outputs = []
    try:
        for worker in workers:
            outputs.append(worker.communicate(timeout=_SECONDS)[0])
            if worker.returncode:
                raise Failed("a worker has failed: see above")
    except subprocess.TimeoutExpired as slow:
        raise Failed(f"a worker has not ended after {_SECONDS} s") from slow
    finally:
        for worker in workers:
            worker.kill()
    return outputs


@contextmanager
def _reducers(trial: Trial, reducers: int, star: Star) -> Iterator[dict[str, str]]:
    mine = {name: v for name, v in os.environ.items() if not name.startswith("RSCTL_")}
    environ = {
        **mine,
        **METHODS[trial.method].environ,
        "OMP_NUM_THREADS": "1",
        "RSCTL_TOKEN": secrets.token_hex(16),
        "RSCTL_RUN": "bench-convergence",
        "RSCTL_NET_BANDWIDTH": str(trial.mbit * 1e6),
    }
    nodes = range(trial.workers, trial.workers + reducers)
    program = [sys.executable, "-m", "rsctl.transport.reduce", "--interface", "eth0"]
    running = [
        subprocess.Popen(star.command(node, program), env=environ, stdout=subprocess.DEVNULL)
        for node in nodes
    ]
    addresses = ",".join(f"{star.address(node)}:{_PORT}" for node in nodes)
    try:
        yield {**environ, **({"RSCTL_REDUCERS": addresses} if addresses else {})}
    finally:
        for reducer in running:
            reducer.terminate()
            reducer.wait()


def _place(trial: Trial, star: Star, rank: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "WORLD_SIZE": str(trial.workers),
        "MASTER_ADDR": star.address(0),
        "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "eth0",
    }
