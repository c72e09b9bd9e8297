"""Measure the time to the same loss: what counts where a setting changes the results of training.

Classifies random points that a random network has labelled. Every `--every` steps rank 0 checks the
loss on points that no rank trains on, and all ranks end when it has reached `--target`.

Reports `loss` at each check, and at the end `best_loss` and, if the target was reached,
`seconds_to_loss`, without the time of the checks. Put your own data and model into `Task`.
"""

import argparse
import math
import os
import time

import torch
import torch.distributed as dist
import torch.distributed.nn  # here, since a later import of it would keep gloo's threads alive
from torch import nn
from torch.nn.parallel import DistributedDataParallel

from rsctl.node import log_metrics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--target", type=float, default=1.0, help="the loss to reach")
    parser.add_argument("--steps", type=int, default=400, help="the most steps")
    parser.add_argument("--every", type=int, default=16, help="steps between two checks")
    parser.add_argument("--width", type=int, default=768)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


class Task:
    """The data and the model, the same ones on every rank."""

    def __init__(self, args: argparse.Namespace) -> None:
        generator = torch.Generator().manual_seed(0)
        inputs = torch.randn(42_000, 64, generator=generator)
        hidden = torch.randn(64, 32, generator=generator) / 8
        output = torch.randn(32, 10, generator=generator)
        labels = (torch.tanh(2 * inputs @ hidden) @ output).argmax(dim=1)
        self.train = inputs[:40_000], labels[:40_000]
        self.held = inputs[40_000:], labels[40_000:]
        torch.manual_seed(args.seed)
        width = args.width
        layers = [nn.Linear(64, width), nn.GELU(), nn.Linear(width, width), nn.GELU()]
        self.model = nn.Sequential(*layers, nn.Linear(width, 10))


def run(args: argparse.Namespace, device: torch.device) -> None:
    """What each rank does."""
    chief = dist.get_rank() == 0
    task = Task(args)
    net = task.model.to(device)
    inputs, labels = (part.to(device) for part in task.train)
    held, held_labels = (part.to(device) for part in task.held)
    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    draw = torch.Generator().manual_seed(1000 * args.seed + dist.get_rank())
    started, checking, best = time.perf_counter(), 0.0, math.inf
    for step in range(1, args.steps + 1):
        picked = torch.randint(len(labels), (args.batch_size,), generator=draw).to(device)
        loss = nn.functional.cross_entropy(model(inputs[picked]), labels[picked])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % args.every:
            continue
        begun = time.perf_counter()
        over = torch.zeros(1, device=device)
        if chief:
            with torch.no_grad():
                value = nn.functional.cross_entropy(net(held), held_labels).item()
            best = min(best, value)
            log_metrics(step=step, loss=value)
            if value <= args.target:
                log_metrics(seconds_to_loss=begun - started - checking)
                over += 1
        dist.broadcast(over, 0)
        checking += time.perf_counter() - begun
        if over.item():
            break
    if chief:
        log_metrics(best_loss=best)


def main() -> None:
    args = parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    torch.set_num_threads(1)
    run(args, device)  # a function of its own, so that its model is gone before its group
    if device.type == "cpu":
        time.sleep(0.2)  # gloo's threads let go of the last tensors; at exit it would be too late
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
