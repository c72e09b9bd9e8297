"""A training script as its author wrote it, with what scripts have beside a loop."""

import argparse
import contextlib
import copy
import hashlib
import json
import os
import resource
import sys

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

options = argparse.ArgumentParser()
options.add_argument("--steps", type=int, default=8)
options.add_argument("--optimizer", default="sgd")
options.add_argument("--backend", default="gloo")
options.add_argument("--norm", action="store_true", help="a BatchNorm, with its buffers")
options.add_argument("--unused", action="store_true", help="rank 1 does not use a layer")
options.add_argument("--static", action="store_true")
options.add_argument("--accumulate", type=int, default=1)
options.add_argument("--clip", type=float)
options.add_argument("--scaler", action="store_true")
options.add_argument("--overflow", type=int, help="rank 1 has an infinite gradient in this step")
options.add_argument("--dtype", default="float32")
options.add_argument("--hook", action="store_true")
options.add_argument("--join", action="store_true")
options.add_argument("--active", action="store_true", help="join() that divides by active ranks")
options.add_argument("--validate", action="store_true", help="rank 0 reads other data after a step")
options.add_argument("--without-ddp", action="store_true")
options.add_argument("--epoch", type=int, help="steps of an epoch of a DataLoader")
options.add_argument("--flag", action="store_true", help="set DDP's flag in place of no_sync()")
options.add_argument("--compile", action="store_true", help="compile model and optimizer's step")
options.add_argument("--eval", action="store_true", help="train without dropout")
options.add_argument("--replicate", action="store_true", help="PyTorch's composable DDP")
options.add_argument("--copy", action="store_true", help="train a copy of the model")
options.add_argument("--two", action="store_true", help="one optimizer of two models")
options.add_argument("--add", type=int, help="the step before which a layer begins to train")
options.add_argument("--again", type=int, help="the step before which the model is wrapped again")
options.add_argument("--barrier", type=int, help="the step before which there is a barrier")
options.add_argument("--save", help="rank 0 writes its checkpoint here, after --save-at")
options.add_argument("--save-at", type=int)
options.add_argument("--load")
options.add_argument("--die", type=int, help="rank 1 is killed before this step")
options.add_argument("--wait-for", help="a file that must be there before step 6")
options.add_argument("--late", help="a file: rank 1 makes step 7 when rank 0 has made step 8")
options.add_argument("--sam", action="store_true", help="perturb the parameters in each step")
options.add_argument("--copy-at", type=int, help="the step before which a copy takes over")
options.add_argument("--freeze", type=int, help="the step before which a layer is frozen")
options.add_argument("--unfreeze", type=int, help="the step before which a layer is not frozen")
options.add_argument("--staged", type=int, help="the step before which other layers train")
options.add_argument("--beside", action="store_true", help="wrap a model while this is frozen")
options.add_argument("--teacher", action="store_true", help="a frozen model in DDP runs, too")
options.add_argument("--reload", type=int, help="the step before which step 4 is loaded, to stay")
options.add_argument("--uneven", action="store_true", help="rank 1 has two steps less an epoch")
args = options.parse_args()


class Net(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = torch.nn.Linear(32, 48)
        self.norm = torch.nn.BatchNorm1d(48) if args.norm else torch.nn.Identity()
        self.extra = torch.nn.Linear(48, 48) if args.unused else None
        self.last = torch.nn.Linear(48, 4)
        self.register_buffer("mask", torch.full((2, 2), float("-inf")).triu(1))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = torch.tanh(self.norm(self.first(x)))
        if self.extra is not None and dist.get_rank() == 0:
            hidden = self.extra(hidden)
        return self.last(hidden)


def digest(tensors) -> str:
    flat = [torch.zeros(0, dtype=torch.uint8)]
    flat += [tensor.detach().flatten().contiguous().view(torch.uint8) for tensor in tensors]
    return hashlib.sha256(torch.cat(flat).numpy().tobytes()).hexdigest()[:16]


def state_of(optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    states = optimizer.state_dict()["state"]
    return [v for n in sorted(states) for v in states[n].values() if isinstance(v, torch.Tensor)]


dist.init_process_group(args.backend)
rank = dist.get_rank()
torch.manual_seed(rank)
torch.set_num_threads(1)
net = Net().to(getattr(torch, args.dtype))
settings = {
    "find_unused_parameters": args.unused or args.add is not None,
    "static_graph": args.static,
}
wrapped = []
net.first.requires_grad_(args.unfreeze is None)


def wrap() -> torch.nn.Module:
    if args.replicate:
        from torch.distributed._composable.replicate import replicate

        return replicate(net)
    if args.two:
        net.first, net.last = map(DistributedDataParallel, (net.first, net.last))
    if args.two or args.without_ddp:
        return net
    wrapped.append(DistributedDataParallel(net, **settings))
    return copy.deepcopy(wrapped[-1]) if args.copy else wrapped[-1]


model = wrap()
net = model.module if args.copy else net
if args.eval:
    model.eval()
compiled = (lambda f: torch.compile(f, backend="eager")) if args.compile else (lambda f: f)
forward = compiled(model)
if args.hook:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    model.register_comm_hook(None, allreduce_hook)


class Counting(torch.optim.SGD):
    """SGD whose state also contains an int."""

    def step(self, *given):
        super().step(*given)
        for state in self.state.values():
            state["steps"] = state.get("steps", 0) + 1


if args.beside:
    net.requires_grad_(False)
    beside = DistributedDataParallel(torch.nn.Linear(2, 2))
    net.requires_grad_(True)
teacher = None
if args.teacher:
    teacher = DistributedDataParallel(copy.deepcopy(net)).requires_grad_(False)
makers = {
    "counting": lambda p: Counting(p, lr=0.1, momentum=0.9),
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adam": lambda p: torch.optim.AdamW(p, lr=0.01),
}
if args.optimizer == "zero":
    from torch.distributed.optim import ZeroRedundancyOptimizer

    optimizer = ZeroRedundancyOptimizer(net.parameters(), torch.optim.SGD, lr=0.1)
else:
    first = net if args.add is None and args.staged is None else net.last
    optimizer = makers[args.optimizer](first.parameters())
make_step = compiled(lambda: optimizer.step())
begin = 0
if args.load:
    checkpoint = torch.load(args.load, weights_only=True)
    net.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    begin = checkpoint["step"]
scaler = torch.amp.GradScaler("cpu", init_scale=4.0) if args.scaler else None
seen, losses, published = [], [], []


def batch(step: int, part: int) -> torch.Tensor:
    made = torch.Generator().manual_seed(1000 * step + 10 * part + rank)
    return torch.randn(8, 32, generator=made).to(getattr(torch, args.dtype))


def perturb() -> None:
    """Sharpness-aware minimization: gradients of a place nearby, to which each rank goes alone."""
    moves = [0.05 * p.grad / p.grad.norm() for p in net.parameters()]
    with torch.no_grad():
        torch._foreach_add_(list(net.parameters()), moves)
    optimizer.zero_grad()
    forward(batch(0, 0)).square().mean().backward()
    with torch.no_grad():
        torch._foreach_sub_(list(net.parameters()), moves)


def train(step: int) -> None:
    optimizer.zero_grad()
    for _ in range(130 if teacher else 0):
        teacher(batch(step, 0))
    for part in range(args.accumulate):
        is_last = part == args.accumulate - 1
        if args.flag:
            model.require_backward_grad_sync = is_last
        is_plain = is_last or args.without_ddp or args.flag
        context = contextlib.nullcontext() if is_plain else model.no_sync()
        with context:
            data = batch(step, part)
            loss = (forward(data) - data[:, :4].sin()).square().mean()
            if args.overflow == step and rank == 1:
                loss = loss * float("inf")
            (scaler.scale(loss) if scaler else loss).backward()
    losses.append(loss.item())
    if args.sam:
        perturb()
    if args.clip:
        if scaler:
            scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), args.clip)
    if scaler:
        scaler.step(optimizer)
        scaler.update()
    else:
        make_step()


def steps():
    if not args.epoch:
        yield from range(begin, args.steps)
        return
    length = args.epoch - 2 * (args.uneven and rank == 1)
    step = begin
    while step < args.steps:
        for _ in torch.utils.data.DataLoader(range(length), batch_size=1):
            yield step
            step += 1
        look(step - 1)
        seen[-1] += " epoch"


def look(step: int) -> None:
    tensors = [*net.parameters(), *net.buffers()]
    if args.late:
        published.append(digest([v for _, v in sorted(net.state_dict().items())]))
    seen.append(f"{step + 1} {digest(tensors)}")
    if args.save and args.save_at == step + 1 and rank == 0:
        state = {"model": net.state_dict(), "optimizer": optimizer.state_dict(), "step": step + 1}
        torch.save(state, args.save)


is_joined = args.join or args.active
validation = None
if args.validate:
    settings = {"num_workers": 1, "persistent_workers": True}
    validation = torch.utils.data.DataLoader(range(2), **settings)
joined = {"divide_by_initial_world_size": False} if args.active else {}
with model.join(**joined) if is_joined else contextlib.nullcontext():
    for step in steps():
        if args.die == step and rank == 1:
            os._exit(9)
        if step == 6 and args.late and rank == 1:
            import time

            while not os.path.exists(args.late):
                time.sleep(0.005)
        if step == 5 and args.wait_for:
            import pathlib
            import time

            (pathlib.Path(args.wait_for).parent / f"ready-{rank}").touch()
            while not os.path.exists(args.wait_for):
                time.sleep(0.005)
        if args.barrier == step:
            dist.barrier()
            look(step - 1)
            seen[-1] += " barrier"
        if args.add == step:
            optimizer.add_param_group({"params": list(net.first.parameters())})
        if args.unfreeze == step:
            net.first.requires_grad_(True)
        if args.staged == step:
            optimizer = makers[args.optimizer]([*net.first.parameters(), *net.norm.parameters()])
        if args.reload and step == 4:
            kept = copy.deepcopy([net.state_dict(), optimizer.state_dict()])
        if args.reload == step:
            net.load_state_dict(kept[0])
            optimizer.load_state_dict(kept[1])
            optimizer.param_groups[0]["lr"] = 0.0
            loaded = digest(net.parameters())
        if args.again == step:
            model = forward = wrap()
        if args.copy_at == step:
            model = forward = copy.deepcopy(model)
            net = model.module
            optimizer = makers[args.optimizer](net.parameters())
        if args.freeze == step:
            net.first.requires_grad_(False)
            frozen = digest(net.first.parameters())
        if args.norm and step == 3:
            net.norm.num_batches_tracked += rank
        train(step)
        if validation and rank == 0:
            list(validation)
        if step == 7 and args.late and rank == 0:
            open(args.late, "w").close()
        if not args.epoch:
            look(step)

line = {
    "rank": rank,
    "seen": seen,
    "losses": losses,
    "published": published,
    "digest": digest(net.parameters()),
    "saved": digest([v for k, v in sorted(net.state_dict().items())]),
    "state": digest(state_of(optimizer)),
    "some": torch.cat([p.detach().flatten().float() for p in net.parameters()])[::97].tolist(),
    "mask": net.mask.tolist() == [[0.0, float("-inf")], [0.0, 0.0]],
    "peak_mb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    "stays_frozen": args.freeze is None or digest(net.first.parameters()) == frozen,
    "stays_loaded": args.reload is None or digest(net.parameters()) == loaded,
    "counted": int(net.norm.num_batches_tracked) if args.norm else 0,
}
sys.stdout.write(json.dumps(line) + "\n")
sys.stdout.flush()
dist.destroy_process_group()
