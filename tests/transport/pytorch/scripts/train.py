"""A training script as its author wrote it: nothing in it knows of rsctl."""

import argparse
import hashlib
import json
import os
import pathlib
import sys
import time

import torch
import torch.distributed as dist
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import fp16_compress_hook
from torch.nn.parallel import DistributedDataParallel

options = argparse.ArgumentParser()
options.add_argument("--backend")
options.add_argument("--steps", type=int, default=4)
options.add_argument("--bucket", type=float)
options.add_argument("--width", type=int, default=64)
options.add_argument("--dtype", default="float32")
options.add_argument("--own-hook", action="store_true")
options.add_argument("--empty", action="store_true", help="one more parameter, of no numbers")
options.add_argument("--scalar", action="store_true", help="one more parameter, of no dimension")
options.add_argument("--zero", type=int, help="a step in which all gradients are zero")
options.add_argument("--double", action="store_true", help="the last bucket is of float64")
options.add_argument("--complex", action="store_true", help="one more, of complex numbers")
options.add_argument("--again", help="a file by which ranks form another group after 2 steps")
options.add_argument("--wait-for", help="a file that must be there before the fourth step")
args = options.parse_args()

dist.init_process_group(args.backend) if args.backend else dist.init_process_group()
rank = dist.get_rank()
torch.manual_seed(rank)
torch.set_num_threads(1)
dtype = getattr(torch, args.dtype)
layers = []
for i in range(4):
    layers += [torch.nn.Linear(args.width + i, args.width + i + 1), torch.nn.Tanh()]
plain = torch.nn.Sequential(*layers).to(dtype)
if args.empty:
    nothing = torch.zeros(0, dtype=torch.bfloat16)  # which has a bucket of its own
    plain.register_parameter("empty", torch.nn.Parameter(nothing))
if args.scalar:
    plain.register_parameter("scale", torch.nn.Parameter(torch.ones(())))
    plain.register_forward_pre_hook(lambda _, inputs: inputs[0] * plain.scale)
if args.double:
    shift = torch.zeros(args.width, dtype=torch.float64)
    plain.register_parameter("shift", torch.nn.Parameter(shift))
    plain.register_forward_pre_hook(lambda _, inputs: inputs[0] + plain.shift.to(dtype))
if args.complex:
    turn = torch.complex(torch.ones(args.width), torch.zeros(args.width))
    plain.register_parameter("turn", torch.nn.Parameter(turn))
    plain.register_forward_pre_hook(lambda _, x: x[0] * plain.turn.real + plain.turn.imag)
buckets = {} if args.bucket is None else {"bucket_cap_mb": args.bucket}
model = DistributedDataParallel(plain, **buckets)
if args.own_hook:
    model.register_comm_hook(None, fp16_compress_hook)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
for step in range(args.steps):
    if step == 3 and args.wait_for:
        (pathlib.Path(args.wait_for).parent / f"ready-{rank}").touch()
        while not os.path.exists(args.wait_for):
            time.sleep(0.005)
    if step == 2 and args.again:
        del model
        dist.destroy_process_group()
        store = dist.FileStore(args.again, 2)  # torchrun's store has the first group's addresses
        dist.init_process_group(args.backend, store=store, rank=rank, world_size=2)
        model = DistributedDataParallel(plain, **buckets)
    optimizer.zero_grad()
    loss = model(torch.randn(8, args.width, dtype=dtype)).square().sum()
    if step == args.zero:
        loss = loss * 0
    (loss + plain.empty.sum() if args.empty else loss).backward()
    optimizer.step()

values = [p.detach() for p in plain.parameters()]
values = [torch.view_as_real(each) if each.is_complex() else each for each in values]
weights = torch.cat([each.flatten() for each in values]).float()
digest = hashlib.sha256(weights.numpy().tobytes()).hexdigest()
some = weights[: 2 * args.width] if args.complex else weights[::997]
line = {"rank": rank, "digest": digest, "some": some.tolist()}
sys.stdout.write(json.dumps(line) + "\n")
sys.stdout.flush()
if not any(name.startswith("RSCTL_") for name in os.environ):
    os._exit(0)  # without the binding, gloo's threads may abort an interpreter that ends
