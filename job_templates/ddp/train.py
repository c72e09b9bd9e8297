"""Train a model with DistributedDataParallel on any number of nodes.

Put your own data and model into `load_data` and `build_model`; the rest can stay as it is.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset

from rsctl.runtime import log_metrics


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


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=128, help="of each rank")
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()

    cuda = torch.cuda.is_available()
    device = torch.device("cuda", int(os.environ["LOCAL_RANK"])) if cuda else torch.device("cpu")
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
            raise RuntimeError(f"cannot resume from {checkpoint}: delete it?") from error

    # Join the others last: an optimizer made later would keep the process group's threads alive
    # beyond destroy_process_group, and those can crash the interpreter at exit.
    if cuda:
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if cuda else "gloo")
    chief = dist.get_rank() == 0
    model = DistributedDataParallel(net, device_ids=[device.index] if cuda else None)
    sampler = DistributedSampler(data, seed=args.seed)
    loader = DataLoader(data, args.batch_size, sampler=sampler, pin_memory=cuda)

    for epoch in range(done + 1, args.epochs + 1):
        sampler.set_epoch(epoch)  # a new shuffle, the same one on every rank
        started = time.perf_counter()
        totals = torch.zeros(3, device=device)  # loss, correct answers, samples
        for inputs, labels in loader:
            inputs = inputs.to(device, non_blocking=True)
            labels = labels.to(device, non_blocking=True)
            logits = model(inputs)
            loss = nn.functional.cross_entropy(logits, labels)
            optimizer.zero_grad()
            loss.backward()  # here DDP averages the gradients over the ranks
            optimizer.step()
            correct = (logits.detach().argmax(dim=1) == labels).sum()
            count = len(labels)
            totals += torch.stack([loss.detach() * count, correct, totals.new_tensor(count)])
        dist.all_reduce(totals)
        loss_sum, correct_sum, samples = totals.tolist()
        if chief:
            speed = samples / (time.perf_counter() - started)
            log_metrics(
                step=epoch, loss=loss_sum / samples, accuracy=correct_sum / samples, speed=speed
            )
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            save({"epoch": epoch, **state}, checkpoint)

    if chief:
        save(net.state_dict(), Path(os.environ.get("RSCTL_OUTPUT_DIR", "outputs"), "model.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
