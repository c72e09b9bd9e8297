"""Scripts whose ranks do not train together, or not by the reducers.

apart.py alone|forgotten|manual|messages|ddp|ended|smaller|caught|nothing|failed [MODULE]

MODULE is a framework that the script is to have imported.
"""

import contextlib
import os
import sys
import types

import torch
import torch.distributed as dist

kind, *modules = sys.argv[1:]
for module in modules:
    sys.modules[module] = types.ModuleType(module)
if kind == "nothing":
    sys.exit()
model = torch.nn.Linear(4, 1)
if kind in ("smaller", "caught"):
    os.environ["WORLD_SIZE"], os.environ["RANK"] = "1", "0"
    os.environ.pop("GROUP_WORLD_SIZE", None)
    with contextlib.suppress(RuntimeError if kind == "caught" else ()):
        dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
elif kind != "alone":
    dist.init_process_group("gloo")
if kind in ("ddp", "ended"):
    model = torch.nn.parallel.DistributedDataParallel(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
model(torch.ones(2, 4)).sum().backward()
if kind == "manual":
    for parameter in model.parameters():
        dist.all_reduce(parameter.grad)
if kind == "messages":
    if dist.get_rank():
        dist.send(model.weight.grad, 0)
    else:
        dist.recv(model.weight.grad, 1)
optimizer.step()
if kind in ("forgotten", "messages"):
    dist.barrier()
if kind in ("forgotten", "messages", "ended"):
    dist.destroy_process_group()
if kind == "failed":
    raise ValueError("it failed by itself")
