"""Train a model with DistributedDataParallel on any number of nodes.

Put your own data and model into `load_data` and `build_model`; the rest can stay as it is.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # here, since a later import of it would keep gloo's threads alive
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from rsctl.node import log_metrics, should_stop


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def load_data(samples: int = 20_000, features: int = 32, classes: int = 8) -> TensorDataset:
    """Random points, labelled by a random network: the same data on every rank."""
    generator = torch.Generator().manual_seed(0)
    inputs = torch.randn(samples, features, generator=generator)
    hidden = torch.randn(features, 16, generator=generator) / features**0.5
    output = torch.randn(16, classes, generator=generator)
    return TensorDataset(inputs, (torch.tanh(inputs @ hidden) @ output).argmax(dim=1))


def build_model(features: int = 32, width: int = 256, classes: int = 8) -> nn.Module:
    return nn.Sequential(
        nn.Linear(features, width),
        nn.GELU(),
        nn.Linear(width, width),
        nn.GELU(),
        nn.Linear(width, classes),
    )


def save(state: dict, path: Path) -> None:
    """Write under another name, then rename: a killed process leaves no half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def run(args: argparse.Namespace, device: torch.device) -> None:
    """What each rank does."""
    cuda = device.type == "cuda"
    chief = dist.get_rank() == 0

    torch.manual_seed(args.seed)
    data = load_data()
    net = build_model().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)

    done = 0
    checkpoint = Path(os.environ.get("RSCTL_CHECKPOINT_DIR", "checkpoints"), "last.pt")
    if checkpoint.exists():
        try:
            state = torch.load(checkpoint, map_location=device, weights_only=True)
            net.load_state_dict(state["model"])
            optimizer.load_state_dict(state["optimizer"])
            done = state["epoch"]
        except Exception as error:
            raise RuntimeError(f"cannot resume from {checkpoint}; delete it") from error
        if chief:
            print(f"resumed from {checkpoint} after epoch {done}", flush=True)

    model = DistributedDataParallel(net, device_ids=[device] if cuda else None)
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, args.batch_size, sampler=sampler, pin_memory=cuda)

    for epoch in range(done + 1, args.epochs + 1):
        sampler.set_epoch(epoch)  # a new shuffle, the same one on every rank
        started = time.perf_counter()
        totals = torch.zeros(2, device=device)  # sum of the losses, number of samples
        for inputs, labels in loader:
            inputs = inputs.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()  # here DDP averages the gradients over the ranks
            optimizer.step()
            totals[0] += loss.detach() * len(labels)
            totals[1] += len(labels)
        dist.all_reduce(totals)
        if chief:
            loss_sum, samples = totals.tolist()
            speed = samples / (time.perf_counter() - started)
            log_metrics(step=epoch, loss=loss_sum / samples, samples_per_second=speed)
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            save({"epoch": epoch, **state}, checkpoint)
        if should_stop():  # on all ranks at the same epoch: a cancellation, or a limit of time
            return

    if chief:
        save(net.state_dict(), Path(os.environ.get("RSCTL_OUTPUT_DIR", "outputs"), "model.pt"))


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
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
