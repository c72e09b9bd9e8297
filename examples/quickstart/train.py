"""Train a small CNN on handwritten digits with DistributedDataParallel.

This ordinary PyTorch script does not use rsctl. It also runs as

    torchrun --nproc-per-node 2 train.py
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.nn  # here, since a later import of it would keep gloo's threads alive
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, DistributedSampler, TensorDataset


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--lr", type=float, default=4e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=5, metavar="EPOCHS")
    return parser.parse_args()


def load_data(seed: int) -> tuple[TensorDataset, TensorDataset]:
    """1797 images of 8x8 pixels, of which one in five of each digit is held out for the test."""
    digits = load_digits()
    images = torch.tensor(digits.images, dtype=torch.float32).unsqueeze(1) / 16
    labels = torch.tensor(digits.target)
    train, test = train_test_split(
        range(len(labels)), test_size=0.2, stratify=digits.target, random_state=seed
    )
    return TensorDataset(images[train], labels[train]), TensorDataset(images[test], labels[test])


def build_model() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 16, kernel_size=3, padding=1),
        nn.GroupNorm(4, 16),  # not BatchNorm, whose statistics would differ from rank to rank
        nn.ReLU(),
        nn.Conv2d(16, 32, kernel_size=3, padding=1),
        nn.GroupNorm(4, 32),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(32 * 4 * 4, 64),
        nn.ReLU(),
        nn.Linear(64, 10),
    )


def train_epoch(
    model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader, device: torch.device
) -> tuple[float, int]:
    """One pass over the training set. Returns the mean loss and the samples of all ranks."""
    model.train()
    totals = torch.zeros(2, device=device)  # the sum of the losses, the number of samples
    for images, labels in loader:
        images, labels = images.to(device), labels.to(device)
        loss = nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()  # here DDP averages the gradients over the ranks
        optimizer.step()
        totals[0] += loss.detach() * len(labels)
        totals[1] += len(labels)
    dist.all_reduce(totals)
    loss_sum, samples = totals.tolist()
    return loss_sum / samples, int(samples)


@torch.no_grad()
def evaluate(model: nn.Module, test: TensorDataset, device: torch.device) -> float:
    """Accuracy on the whole test set, of which each rank looks at a slice.

    Plain slices, because a DistributedSampler evens them out by counting some samples twice.
    """
    model.eval()
    rank, ranks = dist.get_rank(), dist.get_world_size()
    images, labels = (tensor[rank::ranks].to(device) for tensor in test.tensors)
    correct = (model(images).argmax(dim=1) == labels).sum()
    dist.all_reduce(correct)
    return correct.item() / len(test)


def save(state: dict, path: Path) -> None:
    """Write under another name, then rename: a killed process leaves no half-written file."""
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_suffix(".partial")
    torch.save(state, partial)
    partial.replace(path)


def resume(
    path: Path, model: nn.Module, optimizer: torch.optim.Optimizer, device: torch.device
) -> int:
    """Restore model and optimizer. Returns the number of epochs that were already trained."""
    try:
        state = torch.load(path, map_location=device, weights_only=True)
        model.load_state_dict(state["model"])
        optimizer.load_state_dict(state["optimizer"])
        return state["epoch"]
    except Exception as error:
        raise RuntimeError(f"cannot resume from {path}; delete it") from error


def run(args: argparse.Namespace, device: torch.device) -> None:
    """What each rank does."""
    chief = dist.get_rank() == 0
    torch.manual_seed(args.seed)
    train, test = load_data(args.seed)
    sampler = DistributedSampler(train, seed=args.seed)
    loader = DataLoader(train, batch_size=args.batch_size, sampler=sampler)
    net = build_model().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=args.lr)
    if chief:
        print(f"{dist.get_world_size()} ranks on {device.type}, {len(train)} images", flush=True)

    trained = 0
    checkpoint_dir = os.environ.get("RSCTL_CHECKPOINT_DIR")
    checkpoint = Path(checkpoint_dir, "checkpoint.pt") if checkpoint_dir else None
    if checkpoint and checkpoint.exists():
        trained = resume(checkpoint, net, optimizer, device)
        if chief:
            print(f"resumed from {checkpoint} after epoch {trained}", flush=True)

    model = DistributedDataParallel(net, device_ids=[device] if device.type == "cuda" else None)
    for epoch in range(trained + 1, args.epochs + 1):
        sampler.set_epoch(epoch)  # a new shuffle, the same one on every rank
        started = time.perf_counter()
        loss, samples = train_epoch(model, optimizer, loader, device)
        speed = samples / (time.perf_counter() - started)
        accuracy = evaluate(net, test, device)
        if chief:
            print(
                f"epoch {epoch} loss={loss:.4f} accuracy={accuracy:.4f} samples/s={speed:.0f}",
                flush=True,
            )
            if checkpoint and (epoch % args.checkpoint_every == 0 or epoch == args.epochs):
                state = {"model": net.state_dict(), "optimizer": optimizer.state_dict()}
                save({"epoch": epoch, **state}, checkpoint)

    if chief and (output_dir := os.environ.get("RSCTL_OUTPUT_DIR")):
        save(net.state_dict(), Path(output_dir, "model.pt"))


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
