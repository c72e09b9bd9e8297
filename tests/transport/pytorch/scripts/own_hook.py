"""A script that names backend rsctl and brings a hook of its own, or is compiled.

own_hook.py powersgd|compiled|none
"""

import hashlib
import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook
from torch.nn.parallel import DistributedDataParallel

(kind,) = sys.argv[1:]
dist.init_process_group("rsctl")
torch.manual_seed(0)
layers = [torch.nn.Linear(100, 100) for _ in range(4)]
model = DistributedDataParallel(
    torch.nn.Sequential(*layers), bucket_cap_mb=0.05 if kind == "powersgd" else 1
)
forward = model
if kind == "powersgd":
    state = powerSGD_hook.PowerSGDState(None, matrix_approximation_rank=2, start_powerSGD_iter=2)
    model.register_comm_hook(state, powerSGD_hook.powerSGD_hook)
elif kind == "compiled":
    forward = torch.compile(model, backend="eager")
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for step in range(5):
    torch.manual_seed(2 * step + dist.get_rank())
    forward(torch.randn(4, 100)).square().mean().backward()
    optimizer.step()
    optimizer.zero_grad()
parameters = b"".join(p.detach().numpy().tobytes() for p in model.parameters())
digest = hashlib.sha256(parameters).hexdigest()
sys.stdout.write(json.dumps({"rank": dist.get_rank(), "digest": digest}) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
