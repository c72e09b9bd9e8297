"""FSDP2 inside the node, and the reducers between the nodes, against plain DDP."""

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.nn.parallel import DistributedDataParallel

from rsctl.transport.pytorch.sharded import all_reduce_hook

try:
    from torch.distributed.fsdp import fully_shard
except ImportError:  # before PyTorch 2.6
    from torch.distributed._composable.fsdp import fully_shard

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("nodes", "node"))


def model():
    torch.manual_seed(0)
    return torch.nn.Sequential(torch.nn.Linear(8, 12), torch.nn.Tanh(), torch.nn.Linear(12, 6))


torch.manual_seed(1 + rank)
batch = torch.randn(4, 8)
whole = DistributedDataParallel(model())
whole(batch).square().sum().backward()

shards = model()
fully_shard(shards, mesh=mesh["node"])
shards.set_all_reduce_hook(all_reduce_hook())
shards(batch).square().sum().backward()
pairs = zip(whole.parameters(), shards.parameters(), strict=True)
worst = max((a.grad - b.grad.full_tensor()).abs().max().item() for a, b in pairs)
sys.stdout.write(json.dumps({"rank": rank, "same": worst < 1e-5}) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
