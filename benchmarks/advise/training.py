"""A training script for measurements of the network: DDP whose computation sleeps.

`python training.py BYTES COMPUTE_SECONDS STEPS [INPUT_SECONDS]`. The model has layers of 512 KiB of
parameters. The forward pass takes a third of the computation, the backward pass two thirds, evenly
over the layers, so that gradients become ready one by one, as those of a real model do. It sleeps
until a GPU would be done, and leaves the cores to the network. Nothing here knows of rsctl.
"""

import sys
import time

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset

LAYER = 512 * 1024 // 4


class Layer(torch.autograd.Function):
    """Passes its input on; the gradient of its weight is there at its moment of the step."""

    @staticmethod
    def forward(ctx, x, weight, model, number):
        ctx.model, ctx.number = model, number
        return x.clone()

    @staticmethod
    def backward(ctx, grad):
        layers = len(ctx.model.weights)
        ctx.model.sleep_until(1 / 3 + 2 / 3 * (layers - ctx.number) / layers)
        return grad, ctx.model.gradient, None, None


class Model(torch.nn.Module):
    """Layers that sleep, `seconds` for forward and backward pass."""

    def __init__(self, layers: int, seconds: float) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.zeros(LAYER) for _ in range(layers))
        self.gradient = torch.ones(LAYER)
        self.seconds = seconds
        self.begun = 0.0

    def forward(self, x):
        self.begun = time.perf_counter()
        self.sleep_until(1 / 3)
        for number, weight in enumerate(self.weights):
            x = Layer.apply(x, weight, self, number)
        return x

    def sleep_until(self, part: float) -> None:
        """Sleep until this part of the step's computation is done."""
        time.sleep(max(0.0, self.begun + part * self.seconds - time.perf_counter()))


class Samples(Dataset):
    """Samples that take `seconds` to read."""

    def __init__(self, count: int, seconds: float) -> None:
        self.count, self.seconds = count, seconds

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index):
        time.sleep(self.seconds)
        return torch.ones(1)


def main() -> None:
    """Train for so many steps."""
    size, compute, steps = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    reading = float(sys.argv[4]) if len(sys.argv) > 4 else 0.0
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    model = DistributedDataParallel(Model(max(1, round(size / 4 / LAYER)), compute))
    for batch in DataLoader(Samples(steps, reading), batch_size=1):
        model.zero_grad(set_to_none=True)
        model(batch.requires_grad_()).sum().backward()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
