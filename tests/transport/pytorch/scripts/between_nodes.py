"""The all-reduce between nodes as FSDP2 calls it, on CPUs with any version of torch.

FSDP2 itself needs GPUs in PyTorch 2.4 and 2.5.
"""

import json
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh

try:
    import torch.distributed.fsdp._fully_shard._fsdp_collectives as fsdp2
except ImportError:  # before PyTorch 2.6
    import torch.distributed._composable.fsdp._fsdp_collectives as fsdp2

dist.init_process_group("gloo")
rank, world = dist.get_rank(), dist.get_world_size()
mesh = init_device_mesh("cpu", (world // 2, 2), mesh_dim_names=("nodes", "node"))
reduce = eval("lambda tensor, group: dist.all_reduce(tensor, group=group)", vars(fsdp2))
shard = torch.full((4,), float(rank))
reduce(shard, mesh["nodes"].get_group())
sys.stdout.write(json.dumps({"rank": rank, "sum": shard.tolist()}) + "\n")
sys.stdout.flush()
dist.barrier()  # a rank that ends may close its connection before its neighbour has made it
dist.destroy_process_group()
