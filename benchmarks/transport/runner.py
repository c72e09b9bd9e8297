"""Runs one case: reducers and workers as processes of their nodes, and what they measured."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

from benchmarks.transport.cases import Case
from benchmarks.transport.network import Link, Star
from rsctl.transport.tls_identity import IDENTITY_VARIABLE, TLS_VARIABLE, make_identity

_ROOT = Path(__file__).resolve().parents[2]
_PORT = 29600
_PEER_PORT = 29700
_SECONDS = 600


def seconds(case: Case, engine: str, runs: int, tls: bool = False) -> list[float]:
    """The seconds of each run, each the slowest rank's. Raises RuntimeError if a sum is wrong."""
    links = [Link(bits, case.mtu, case.buffer) for bits in case.bits()]
    with Star(links, case.loss) as star, _reducers(case, engine, star, tls) as environ:
        workers = [
            _start(star, rank, _worker(case, engine, runs), environ | _place(case, star, rank))
            for rank in range(case.workers)
        ]
        outputs = [worker.communicate(timeout=_SECONDS)[0] for worker in workers]
    results = [json.loads(output.splitlines()[-1]) for output in outputs]
    if any(result["wrong"] for result in results):
        raise RuntimeError(f"{case.name}: {engine} computed wrong sums")
    return [max(run) for run in zip(*(result["seconds"] for result in results), strict=True)]


def measure(case: Case, engine: str, runs: int, tls: bool = False) -> float:
    """The median of the runs' seconds."""
    return median(seconds(case, engine, runs, tls))


@contextmanager
def _reducers(case: Case, engine: str, star: Star, tls: bool) -> Iterator[dict[str, str]]:
    environ = os.environ | {
        "RSCTL_TOKEN": secrets.token_hex(16),
        "RSCTL_RUN": f"bench-{case.name}",
        "RSCTL_TRANSPORT_CORE": "on" if engine == "core" else "off",
        "OMP_NUM_THREADS": "1",
        "TORCH_DEVICE_BACKEND_AUTOLOAD": "0",  # gloo alone, with nothing of rsctl in torch
    }
    if tls:
        environ |= {TLS_VARIABLE: "1", IDENTITY_VARIABLE: make_identity()}
    if case.congestion:
        environ["RSCTL_TRANSPORT_CONGESTION"] = case.congestion
    nodes = range(case.workers, case.workers + case.reducers)
    program = [sys.executable, "-m", "rsctl.transport.reduce", "--interface", "eth0"]
    running = [_start(star, node, program, environ) for node in nodes] if engine != "gloo" else []
    environ["RSCTL_REDUCERS"] = ",".join(f"{star.address(node)}:{_PORT}" for node in nodes)
    try:
        yield environ
    finally:
        for reducer in running:
            reducer.terminate()
            reducer.communicate()


def _place(case: Case, star: Star, rank: int) -> dict[str, str]:
    bits = case.bits()
    peers = [f"{star.address(node)}:{_PEER_PORT}" for node in range(case.workers)]
    return {
        "RANK": str(rank),
        "WORLD_SIZE": str(case.workers),
        "MASTER_ADDR": star.address(0),
        "MASTER_PORT": "29500",
        "GLOO_SOCKET_IFNAME": "eth0",
        "RSCTL_PEERS": ",".join(peers),
        "RSCTL_TRANSPORT_MTU": str(case.mtu),
        "RSCTL_NET_BANDWIDTH": str(min(bits[: case.workers])),
        "RSCTL_REDUCER_BANDWIDTH": ",".join(map(str, bits[case.workers :])),
    }


def _worker(case: Case, engine: str, runs: int) -> list[str]:
    arguments = [engine, str(case.size), str(runs), "1"]
    return [sys.executable, str(Path(__file__).with_name("worker.py")), *arguments]


def _start(
    star: Star, node: int, command: list[str], environ: dict[str, str]
) -> subprocess.Popen[str]:
    return subprocess.Popen(
        star.command(node, command), env=environ, cwd=_ROOT, stdout=subprocess.PIPE, text=True
    )
