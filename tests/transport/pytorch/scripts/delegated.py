"""Two ranks, many rounds of the collectives that backend `rsctl` leaves to gloo."""

import json
import sys
from datetime import timedelta

import torch
import torch.distributed as dist

ROUNDS = 40

dist.init_process_group("rsctl", timeout=timedelta(seconds=60))
rank, world = dist.get_rank(), dist.get_world_size()


def mine():
    return torch.tensor([rank])


def empty(size=1):
    return torch.full((size,), -1)


def values(tensors):
    return [tensor.item() for tensor in tensors]


def collectives():
    """What one round of all collectives gives this rank."""
    found = {}
    parts = [empty() for _ in range(world)]
    dist.all_gather(parts, mine())
    found["all_gather"] = values(parts)
    flat = empty(world)
    dist.all_gather_into_tensor(flat, mine())
    found["all_gather_flat"] = flat.tolist()
    output = empty(world)
    dist.all_to_all_single(output, torch.arange(world) * 1 + 2 * rank)
    found["all_to_all"] = output.tolist()
    sent = mine()
    dist.broadcast(sent, src=1)
    found["broadcast"] = sent.item()
    parts = [empty() for _ in range(world)] if rank == 0 else None
    dist.gather(mine(), parts, dst=0)
    found["gather"] = values(parts) if parts else None
    total = mine()
    dist.reduce(total, dst=1)
    found["reduce"] = total.item() if rank == 1 else None
    part = empty()
    try:
        dist.reduce_scatter(part, list(torch.arange(world).split(1)))
        found["reduce_scatter"] = part.item()
    except RuntimeError as error:  # PyTorch 2.4 passes it to gloo, which has none there
        if "ProcessGroupGloo does not support reduce_scatter" not in str(error):
            raise
        found["reduce_scatter"] = world * rank
    part = empty()
    dist.scatter(part, [torch.tensor([5 + r]) for r in range(world)] if rank == 0 else None)
    found["scatter"] = part.item()
    received = empty()
    works = [dist.isend(mine(), 1 - rank), dist.irecv(received, 1 - rank)]
    for work in works:
        work.wait()
    found["sent"] = received.item()
    if rank == 0:
        dist.recv(received)
    else:
        dist.send(mine(), 0)
    found["from_any"] = received.item() if rank == 0 else None
    texts = [None] * world
    dist.all_gather_object(texts, f"rank {rank}")
    found["objects"] = texts
    dist.barrier()
    return found


rounds = [collectives() for _ in range(ROUNDS)]
assert all(found == rounds[0] for found in rounds)
sys.stdout.write(json.dumps({"rank": rank, "found": rounds[0]}) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
