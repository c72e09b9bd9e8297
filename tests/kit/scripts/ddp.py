"""The least script with DistributedDataParallel: a rank costs little beyond importing torch."""

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = 8

dist.init_process_group("gloo")
torch.manual_seed(dist.get_rank())
model = DistributedDataParallel(torch.nn.Linear(64, 64))
for step in range(STEPS):
    loss = model(torch.randn(8, 64)).square().mean()
    model.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter -= 0.1 * parameter.grad
    if dist.get_rank() == 0:
        print(f"step {step} loss={loss.item():.4f}", flush=True)
dist.destroy_process_group()
