"""A training script for measurements of ranks that compute: DDP of a multilayer perceptron.

`python computing.py BYTES ROWS STEPS`. The layers have 512 KiB of parameters, as those of
training.py have, and a step computes the forward and the backward pass of so many rows on one
thread. Nothing here knows of rsctl.
"""

import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

WIDTH = 362


def main() -> None:
    """Train for so many steps."""
    size, rows, steps = map(int, sys.argv[1:4])
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    layers = []
    for _ in range(max(1, round(size / 4 / WIDTH**2))):
        layers += [torch.nn.Linear(WIDTH, WIDTH, bias=False), torch.nn.ReLU()]
    model = DistributedDataParallel(torch.nn.Sequential(*layers))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    batch = torch.randn(rows, WIDTH)
    for _ in range(steps):
        optimizer.zero_grad(set_to_none=True)
        model(batch).square().mean().backward()
        optimizer.step()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
