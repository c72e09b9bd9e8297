"""Train on one machine with several processes: DistributedDataParallel, one rank for each GPU.

Gradients of several small batches are added up before each step, for a large batch in little
memory. Put your own data and model into `load_data` and `build_model`.
"""

import argparse
import contextlib
import json
import math
import os
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # here, since a later import of it would keep gloo's threads alive
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank at once")
    parser.add_argument("--accumulate", type=int, default=2, help="batches for each step")
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--seed", type=int, default=0)
    return parser.parse_args()


def load_data(samples: int = 4096, size: int = 16, classes: int = 6) -> TensorDataset:
    """Noisy stripes, to be told apart by their direction: the same images on every rank."""
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(classes, (samples,), generator=generator)
    angles = (math.pi / classes * labels).view(-1, 1, 1)
    phases = 2 * math.pi * torch.rand(samples, 1, 1, generator=generator)
    y, x = torch.meshgrid(torch.arange(size), torch.arange(size), indexing="ij")
    stripes = torch.sin(x * angles.cos() + y * angles.sin() + phases)
    noise = torch.randn(samples, size, size, generator=generator)
    return TensorDataset((stripes + noise).unsqueeze(1), labels)


def build_model(classes: int = 6) -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=5, stride=2, padding=2),
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, stride=2, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, classes),
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
        loss_sum = torch.zeros((), device=device)
        for index, (images, labels) in enumerate(loader, start=1):
            steps_now = index % args.accumulate == 0 or index == len(loader)
            # The ranks need to exchange gradients only before a step.
            with contextlib.nullcontext() if steps_now else model.no_sync():
                logits = model(images.to(device, non_blocking=True))
                loss = nn.functional.cross_entropy(logits, labels.to(device, non_blocking=True))
                (loss / args.accumulate).backward()
            loss_sum += loss.detach()
            if steps_now:
                optimizer.step()
                optimizer.zero_grad()
        dist.all_reduce(loss_sum)
        if chief:
            loss = loss_sum.item() / len(loader) / dist.get_world_size()
            # One JSON line like this is all that rsctl needs; no import, nothing to declare.
            line = {"rsctl": "metrics", "step": epoch, "loss": round(loss, 4)}
            print(json.dumps(line), flush=True)
            state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
            save({"epoch": epoch, **state}, checkpoint)

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
