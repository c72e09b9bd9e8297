"""Hybrid sharding as its author wrote it: sharded inside the node, replicated between nodes."""

import argparse
import json
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import FullyShardedDataParallel, ShardingStrategy

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before PyTorch 2.6
    from torch.distributed._composable.fsdp import fully_shard

options = argparse.ArgumentParser()
options.add_argument("api", choices=("fsdp1", "fsdp2"))
options.add_argument("--steps", type=int, default=4)
args = options.parse_args()

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
torch.set_num_threads(1)
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 6))
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("nodes", "node"))
if args.api == "fsdp1":
    strategy = ShardingStrategy.HYBRID_SHARD
    model = FullyShardedDataParallel(
        model, device_mesh=mesh, sharding_strategy=strategy, device_id=torch.device("cpu")
    )
else:
    fully_shard(model, mesh=mesh)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
torch.manual_seed(1 + rank)
losses = []
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = model(torch.randn(4, 8)).square().mean()
    loss.backward()
    optimizer.step()
    losses.append(loss.item())
leaders = dist.new_group([0, world // 2])
if rank in (0, world // 2):  # a script's own all-reduce over one lane, of which others know nothing
    dist.all_reduce(torch.ones(1), group=leaders)
sys.stdout.write(json.dumps({"rank": rank, "losses": losses}) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
if not any(name.startswith("RSCTL_") for name in os.environ):
    os._exit(0)  # without the binding, gloo's threads may abort an interpreter that ends
