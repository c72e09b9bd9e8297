"""Time to the same validation loss with local steps, on a slow network of namespaces.

python -m benchmarks.local_steps [METHOD...] [--mbit 20] [--workers 4] [--seed 0]   (as root)

Each method trains `local_steps_training.py`. The time that rank 0 takes to check is left out.
"""

from __future__ import annotations

import argparse
import json
import os
import secrets
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.transport.network import Link, Star

ROOT = Path(__file__).parents[1]
SCRIPT = ROOT / "benchmarks" / "local_steps_training.py"


def _local(steps: int, **more: str) -> Mapping[str, str]:
    return {"RSCTL_COMM_LOCAL_STEPS": str(steps), **more}


@dataclass(frozen=True)
class Method:
    """How workers exchange: the reducers for each worker, and the binding's variables."""

    reducers: int = 1
    comm: Mapping[str, str] = field(default_factory=dict)


AVERAGE = {
    "RSCTL_COMM_OUTER_OPTIMIZER": "sgd",
    "RSCTL_COMM_OUTER_LR": "1",
    "RSCTL_COMM_OUTER_MOMENTUM": "0",
}
METHODS = {
    "gloo": Method(reducers=0),
    "reducers": Method(),
    "reducers-bf16": Method(comm={"RSCTL_COMM_COMPRESSION": "bf16"}),
    "local-16": Method(comm=_local(16)),
    "local-16-average": Method(comm=_local(16, **AVERAGE)),
    "local-32": Method(comm=_local(32)),
    "local-32-bf16": Method(comm=_local(32, RSCTL_COMM_COMPRESSION="bf16")),
    "local-32-fragments": Method(comm=_local(32, RSCTL_COMM_FRAGMENTS="4")),
    "local-32-gloo": Method(reducers=0, comm=_local(32)),
}


def run(method: Method, args: argparse.Namespace) -> list[dict[str, float]]:
    """The curve of one training: lines with step, seconds and loss."""
    workers, reducers = args.workers, args.workers * method.reducers
    links = [Link(args.mbit * 1e6)] * (workers + reducers)
    with Star(links, name=f"rslocal{os.getpid()}") as star:
        return _train(star, method, args, workers, reducers)


def _train(
    star: Star, method: Method, args: argparse.Namespace, workers: int, reducers: int
) -> list[dict[str, float]]:
    environ = {k: v for k, v in os.environ.items() if not k.startswith("RSCTL_")}
    environ |= {"PYTHONPATH": f"{args.installed}:{ROOT}", "OMP_NUM_THREADS": "1"}
    environ |= {"RSCTL_TOKEN": secrets.token_hex(16), "RSCTL_RUN": "bench"}
    environ |= {"GLOO_SOCKET_IFNAME": "eth0", "MASTER_ADDR": star.address(0)}
    environ |= {"MASTER_PORT": "29500", "WORLD_SIZE": str(workers), "LOCAL_RANK": "0"}
    environ |= {"LOCAL_WORLD_SIZE": "1", **method.comm}
    addresses, running = [], []
    try:
        for number in range(workers, workers + reducers):
            argv = [sys.executable, "-m", "rsctl.transport.reduce", "--bind"]
            argv += [star.address(number), "--port", "29600"]
            process = subprocess.Popen(star.command(number, argv), env=environ, stdout=-1)
            running.append(process)
            assert process.stdout is not None
            addresses.append(json.loads(process.stdout.readline())["address"])
        if reducers:
            environ |= {"RSCTL_REDUCERS": ",".join(addresses)}
            environ |= {"RSCTL_NET_BANDWIDTH": str(args.mbit * 1e6)}
        ranks = []
        for rank in range(workers):
            argv = [sys.executable, str(SCRIPT), *args.script]
            process = subprocess.Popen(
                star.command(rank, argv), env={**environ, "RANK": str(rank)}, stdout=-1
            )
            running.append(process)
            ranks.append(process)
        printed, *_ = [process.communicate()[0] for process in ranks]
        assert all(process.returncode == 0 for process in ranks)
        lines = printed.decode().splitlines()
        return [json.loads(line) for line in lines if line.startswith('{"step"')]
    finally:
        for process in running:
            process.kill()
            process.wait()


def main() -> None:
    """Run the methods and print their curves, and when each has reached the target."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("methods", nargs="*", default=[])
    options.add_argument("--mbit", type=float, default=20)
    options.add_argument("--workers", type=int, default=4)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--target", type=float, default=2.0)
    options.add_argument("--steps", type=int, default=400)
    options.add_argument("--task", default="text", help="text or points")
    options.add_argument("--batch", type=int, default=8)
    options.add_argument("--installed", default="", help="a folder with the entry point of torch")
    args = options.parse_args()
    args.script = ["--seed", str(args.seed), "--target", str(args.target)]
    args.script += ["--steps", str(args.steps), "--task", args.task, "--batch", str(args.batch)]
    for name in args.methods or METHODS:
        curve = run(METHODS[name], args)
        last = curve[-1]
        reached = last["seconds"] if last["loss"] <= args.target else None
        fields = {
            "method": name,
            "mbit": args.mbit,
            "workers": args.workers,
            "task": args.task,
            "seed": args.seed,
        }
        fields |= {"target": args.target, "seconds_to_target": reached}
        print(json.dumps({**fields, "curve": curve}), flush=True)


if __name__ == "__main__":
    main()
