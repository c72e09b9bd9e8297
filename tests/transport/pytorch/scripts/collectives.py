"""A script that names the backend and calls collectives by hand."""

import json
import sys

import torch
import torch.distributed as dist

dist.init_process_group("rsctl")
rank, world = dist.get_rank(), dist.get_world_size()


def reduced(tensor, op=dist.ReduceOp.SUM, group=None):
    dist.all_reduce(tensor, op, group=group)
    return tensor.tolist()


matrix = torch.full((2, 3), float(rank + 1))
work = dist.all_reduce(matrix, async_op=True)
work.wait()
everyone = [torch.zeros(1) for _ in range(world)]
dist.all_gather(everyone, torch.tensor([float(rank)]))
word = [f"from {rank}"]
dist.broadcast_object_list(word, src=1)
part = torch.empty(1)
dist.reduce_scatter_tensor(part, torch.arange(float(world)))
found = {
    "rank": rank,
    "matrix": matrix.tolist(),
    "average": reduced(torch.tensor([rank, 1.0], dtype=torch.bfloat16), dist.ReduceOp.AVG),
    "largest": reduced(torch.tensor([rank]), dist.ReduceOp.MAX),
    "integers": reduced(torch.tensor([rank])),
    "alone": reduced(torch.ones(1), group=dist.new_group([rank], use_local_synchronization=True)),
    "gathered": [entry.item() for entry in everyone],
    "word": word[0],
    "part": part.item(),
    "backend": dist.get_backend(),
}
dist.barrier()
sys.stdout.write(json.dumps(found) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
