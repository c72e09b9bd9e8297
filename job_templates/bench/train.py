"""Measure training steps: a multi-layer perceptron of any size on random data.

`--parallel ddp` averages gradients over all ranks, `fsdp` shards the parameters over them, and `dp`
is one process for all GPUs of one node (nn.DataParallel; without GPUs a plain model).

Rank 0 reports each step: `samples_per_second` of all ranks together, and `step_seconds`.
"""

import argparse
import os
import time
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.distributed as dist
import torch.distributed.nn  # here, since a later import of it would keep gloo's threads alive
from torch import nn
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DataParallel, DistributedDataParallel

from rsctl.node import log_metrics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--parallel", choices=("ddp", "fsdp", "dp"), default="ddp")
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--depth", type=int, default=6, help="layers of width x width parameters")
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank and pass")
    parser.add_argument("--accumulate", type=int, default=1, help="passes for each step")
    parser.add_argument("--steps", type=int, default=30)
    args = parser.parse_args()
    if args.parallel == "dp" and int(os.environ["WORLD_SIZE"]) > 1:
        parser.error("--parallel dp is one process: set workers.count and workers.processes to 1")
    return args


def build_model(args: argparse.Namespace, device: torch.device) -> nn.Module:
    torch.manual_seed(0)
    layers = [layer for _ in range(args.depth) for layer in (linear(args.width), nn.ReLU())]
    model = nn.Sequential(*layers).to(device)
    if args.parallel == "dp":
        return DataParallel(model) if device.type == "cuda" else model
    if args.parallel == "fsdp":
        for layer in model:
            if isinstance(layer, nn.Linear):
                fully_shard(layer)
        return fully_shard(model)
    return DistributedDataParallel(model, device_ids=[device] if device.type == "cuda" else None)


def linear(width: int) -> nn.Linear:
    return nn.Linear(width, width, bias=False)


def without_sync(model: nn.Module, is_last: bool) -> AbstractContextManager[None]:
    """Gradients travel in the last pass of a step only."""
    if hasattr(model, "set_requires_gradient_sync"):
        model.set_requires_gradient_sync(is_last)
    elif isinstance(model, DistributedDataParallel) and not is_last:
        return model.no_sync()
    return nullcontext()


def run(args: argparse.Namespace, device: torch.device) -> None:
    """What each rank does."""
    model = build_model(args, device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    ranks = dist.get_world_size()
    inputs = torch.randn(args.batch_size, args.width, device=device)
    started = time.perf_counter()
    for step in range(1, args.steps + 1):
        optimizer.zero_grad()
        for number in range(1, args.accumulate + 1):
            with without_sync(model, number == args.accumulate):
                (model(inputs).square().mean() / args.accumulate).backward()
        optimizer.step()
        if device.type == "cuda":
            torch.cuda.synchronize(device)
        now = time.perf_counter()
        seconds, started = now - started, now
        if dist.get_rank() == 0:
            samples = args.batch_size * args.accumulate * ranks
            log_metrics(step=step, samples_per_second=samples / seconds, step_seconds=seconds)


def main() -> None:
    args = parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    run(args, device)  # a function of its own, so that its model is gone before its group
    if device.type == "cpu":
        time.sleep(0.2)  # gloo's threads let go of the last tensors; at exit it would be too late
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
