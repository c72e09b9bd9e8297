"""Rank 1 leaves at once, and rank 0 catches the error of what it does then with it."""

import contextlib
import os
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
model = DistributedDataParallel(torch.nn.Linear(4, 4))
dist.barrier()
if dist.get_rank() == 1:
    os._exit(0)
ones = torch.ones(4)
with contextlib.suppress(RuntimeError):
    while True:
        if sys.argv[1] == "all_reduce":
            dist.all_reduce(ones)
        elif sys.argv[1] == "work":
            dist.all_reduce(ones, async_op=True).wait()
        elif sys.argv[1] == "backward":
            model(torch.ones(1, 4)).sum().backward()
        elif sys.argv[1] == "barrier":
            dist.barrier()
        else:
            dist.send(ones, 1)
