"""Ends while a thread of rsctl reads the timed steps of DistributedDataParallel all the time."""

import os

import torch
import torch.distributed as dist

from rsctl.transport.pytorch import inspection

inspection.LOOK_SECONDS = 0.0
inspection.arm(os.environ)
dist.init_process_group("gloo")
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(4, 4))
model(torch.ones(1, 4)).sum().backward()
dist.destroy_process_group()
