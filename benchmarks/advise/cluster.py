"""Runs a case on a star of network namespaces, and its script alone; both tell their steps."""

from __future__ import annotations

import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.advise.cases import Case
from benchmarks.measure import Failed
from benchmarks.transport.network import Link, Star
from rsctl.estimate.advice.measured import StepRecord
from rsctl.runs.step_times import reported_steps, whole_record
from rsctl.runs.stream.events import LogEvent

_SCRIPT = str(Path(__file__).with_name("training.py"))
_COMPUTING = str(Path(__file__).with_name("computing.py"))
_PORT = 29600
_SECONDS = 600
_WARM_UP_STEPS = 6
_LOW_PORT = 20000


def measure_alone(case: Case, steps: int, reading: float = 0.0) -> StepRecord:
    """The steps of one worker without communication, as `rsctl advise --measure` takes them."""
    place = {"RANK": "0", "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1", "WORLD_SIZE": "1"}
    address = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(_LOW_PORT + secrets.randbelow(9000))}
    measure = {"RSCTL_MEASURE_STEPS": str(steps), "RSCTL_COMM_BUCKET_MB": "1"}
    worker = subprocess.Popen(
        _pinned(case, 0, _training(case, steps + 2 * _WARM_UP_STEPS, reading)),
        env={**_environ(), **place, **address, **measure},
        stdout=subprocess.PIPE,
        text=True,
    )
    return _record(_outputs([worker])[0])


def measure_together(case: Case, steps: int) -> StepRecord:
    """The steps of the whole job on its shaped network. Raises Failed; needs root."""
    links = [Link(case.mbit * 1e6)] * (case.workers + case.reducers)
    with Star(links) as star, _reducers(case, star) as environ:
        command = _training(case, steps + _WARM_UP_STEPS)
        workers = [
            subprocess.Popen(
                star.command(rank, _pinned(case, rank, command)),
                env={**environ, **_place(case, star, rank)},
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in range(case.workers)
        ]
        return _record(_outputs(workers)[0])


@contextmanager
def _reducers(case: Case, star: Star) -> Iterator[dict[str, str]]:
    environ = {
        **_environ(),
        "RSCTL_TOKEN": secrets.token_hex(16),
        "RSCTL_RUN": "bench-advise",
        "RSCTL_NET_BANDWIDTH": str(case.mbit * 1e6),
        "RSCTL_COMM_BUCKET_MB": str(case.bucket_mb),
        "RSCTL_RECORD_STEPS": "1",
    }
    nodes = range(case.workers, case.workers + case.reducers)
    program = [sys.executable, "-m", "rsctl.transport.reduce", "--interface", "eth0"]
    running = [
        subprocess.Popen(
            star.command(node, _pinned(case, node, program)), env=environ, stdout=subprocess.DEVNULL
        )
        for node in nodes
    ]
    addresses = ",".join(f"{star.address(node)}:{_PORT}" for node in nodes)
    try:
        yield {**environ, **({"RSCTL_REDUCERS": addresses} if addresses else {})}
    finally:
        for reducer in running:
            reducer.terminate()
            reducer.wait()


def _place(case: Case, star: Star, rank: int) -> dict[str, str]:
    return {
        "RANK": str(rank),
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "WORLD_SIZE": str(case.workers),
        "MASTER_ADDR": star.address(0),
        "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "eth0",
    }


def _training(case: Case, steps: int, reading: float = 0.0) -> list[str]:
    if case.batch:
        return [sys.executable, _COMPUTING, *map(str, (case.bytes, case.batch, steps))]
    numbers = [case.bytes, case.compute, steps, reading]
    return [sys.executable, _SCRIPT, *map(str, numbers)]


def _pinned(case: Case, node: int, command: list[str]) -> list[str]:
    """The command on one core if the ranks of a case compute."""
    return ["taskset", "--cpu-list", str(node % case.cores), *command] if case.batch else command


def _environ() -> dict[str, str]:
    mine = {name: v for name, v in os.environ.items() if not name.startswith("RSCTL_")}
    return {**mine, "OMP_NUM_THREADS": "1"}


def _outputs(workers: list[subprocess.Popen[str]]) -> list[str]:
    """What workers print until they end. Raises Failed if one fails or takes ten minutes."""
    try:
        outputs = [worker.communicate(timeout=_SECONDS)[0] for worker in workers]
    except subprocess.TimeoutExpired as slow:
        raise Failed(f"a worker has not ended after {_SECONDS} s") from slow
    finally:
        for worker in workers:
            worker.kill()
    if any(worker.returncode for worker in workers):
        raise Failed("a worker has failed: see above")
    return outputs


def _record(output: str) -> StepRecord:
    """The last record in a worker's output."""
    lines = [LogEvent("", "worker-0", "", "stdout", text) for text in output.splitlines()]
    record = whole_record([part for line in lines if (part := reported_steps(line))])
    if record is None:
        raise Failed("a worker has not told its steps")
    return record
