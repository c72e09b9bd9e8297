"""Steps of DistributedDataParallel, whose last timed one is printed when the script ends.

timed.py SECONDS     of each batch in the DataLoader; without it the script has no DataLoader
"""

import os
import sys
import time

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, Dataset

from rsctl.transport.pytorch import inspection

STEPS = 220  # DDP times each hundredth, and a length needs two of them


class Slow(Dataset[torch.Tensor]):
    """Batches that take their time."""

    def __len__(self) -> int:
        return STEPS

    def __getitem__(self, index: int) -> torch.Tensor:
        time.sleep(float(sys.argv[1]))
        return torch.ones(64)


inspection.LOOK_SECONDS = 0.02
inspection.arm(os.environ)
dist.init_process_group("gloo")
layers = [torch.nn.Linear(64, 64) for _ in range(4)]
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), bucket_cap_mb=0.02)
for batch in DataLoader(Slow(), batch_size=1) if sys.argv[1:] else [torch.ones(1, 64)] * STEPS:
    model(batch).sum().backward()
    time.sleep(0.002)
dist.destroy_process_group()
