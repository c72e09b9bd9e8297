"""A worker of asynchronous training: sends gradients to parameter servers, and gets parameters.

Put your own data into `load_data`, your model into `build_model` of exchange.py.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from exchange import GRADIENT, LAST, build_model, checkpoint_path, join, load_checkpoint
from torch import nn
from torch.nn.utils import parameters_to_vector, vector_to_parameters
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from rsctl.node import log_metrics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def load_data(samples: int = 20_000, features: int = 32, classes: int = 8) -> TensorDataset:
    """Random points, labelled by a random network: the same data on every rank."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, features, generator=generator)
    hidden = torch.randn(features, 16, generator=generator) / features**0.5
    output = torch.randn(16, classes, generator=generator)
    return TensorDataset(inputs, (torch.tanh(inputs @ hidden) @ output).argmax(dim=1))


def exchange(vector: torch.Tensor, kind: float, servers: int) -> torch.Tensor:
    """Send each server its part of a gradient; the parameters that they answer with."""
    parts = vector.tensor_split(servers)
    messages = [torch.cat([part, torch.tensor([kind])]) for part in parts]
    answers = [torch.empty_like(part) for part in parts]
    pending = [dist.isend(message, server) for server, message in enumerate(messages)]
    pending += [dist.irecv(answer, server) for server, answer in enumerate(answers)]
    for each in pending:
        each.wait()
    return torch.cat(answers)


def save(state: dict, path: Path) -> None:
    """Write under another name, then rename: a killed process leaves no half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def train(model: nn.Module, done: int, args: argparse.Namespace, servers: int) -> None:
    rank, ranks = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    device = next(model.parameters()).device
    data = load_data()
    sampler = DistributedSampler(data, ranks, rank, seed=args.seed)
    loader = DataLoader(data, args.batch_size, sampler=sampler)
    for epoch in range(done + 1, args.epochs + 1):
        sampler.set_epoch(epoch)
        started, total, samples = time.perf_counter(), 0.0, 0
        for inputs, labels in loader:
            outputs = model(inputs.to(device))
            loss = nn.functional.cross_entropy(outputs, labels.to(device))
            model.zero_grad()
            loss.backward()
            gradient = parameters_to_vector([p.grad for p in model.parameters()]).cpu()
            update = exchange(gradient, GRADIENT, servers)
            vector_to_parameters(update.to(device), model.parameters())
            total += loss.item() * len(labels)
            samples += len(labels)
        speed = samples / (time.perf_counter() - started)
        log_metrics(step=epoch, loss=total / samples, samples_per_second=speed)
        if rank == 0:
            save({"epoch": epoch, "model": model.state_dict()}, checkpoint_path())


def main() -> None:
    args = parse_args()
    local_rank = int(os.environ["LOCAL_RANK"])
    device = torch.device("cuda", local_rank) if torch.cuda.is_available() else "cpu"
    model = build_model()
    done = load_checkpoint(model)
    model.to(device)
    servers, _ = join()
    train(model, done, args, servers)
    nothing = torch.zeros(sum(parameter.numel() for parameter in model.parameters()))
    last = exchange(nothing, LAST, servers)  # once all ranks have sent their last
    if os.environ["RANK"] == "0":
        vector_to_parameters(last.to(device), model.parameters())
        save(model.state_dict(), Path(os.environ.get("RSCTL_OUTPUT_DIR", "outputs"), "model.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
