"""A script that ends right after its last collective and leaves all cleaning up to the end."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(64, 64))
for _ in range(3):
    model(torch.ones(1, 64)).sum().backward()
