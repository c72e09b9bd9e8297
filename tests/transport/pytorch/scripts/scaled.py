"""Training with a gradient scaler: the gradients of one rank overflow in the third step."""

import hashlib
import json
import resource
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

STEPS = int(sys.argv[1])

dist.init_process_group("gloo")
rank = dist.get_rank()
torch.set_num_threads(1)
torch.manual_seed(0)
plain = torch.nn.Sequential(torch.nn.Linear(64, 128), torch.nn.Tanh(), torch.nn.Linear(128, 8))
model = DistributedDataParallel(plain)
optimizer = torch.optim.SGD(model.parameters(), lr=0.02)
scaler = torch.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=50)
torch.manual_seed(rank)
inputs = torch.randn(16, 64)
targets = inputs[:, :8].sin()
scales, peak = [], 0
for step in range(STEPS):
    optimizer.zero_grad()
    loss = (model(inputs) - targets).square().mean()
    scaler.scale(loss * (torch.inf if step == 2 and rank == 1 else 1)).backward()
    scaler.step(optimizer)
    scaler.update()
    scales.append(scaler.get_scale())
    if step == STEPS // 10:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak
weights = torch.cat([p.detach().flatten() for p in plain.parameters()])
digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
line = {"rank": rank, "digest": digest, "scales": scales, "loss": loss.item(), "grown_kb": grown}
sys.stdout.write(json.dumps(line) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
