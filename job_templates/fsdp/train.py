"""Train a transformer whose parameters are sharded over all ranks (FSDP2, `fully_shard`).

Put your own data and model into `batch` and `Transformer`; the rest can stay as it is.
"""

import argparse
import os
import time
from pathlib import Path

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch import Tensor, nn
from torch.distributed.checkpoint.state_dict import (
    StateDictOptions,
    get_model_state_dict,
    get_state_dict,
    set_state_dict,
)
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

VOCABULARY, LENGTH = 64, 32


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--batch-size", type=int, default=32, help="of each rank")
    parser.add_argument("--lr", type=float, default=3e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint-every", type=int, default=50, metavar="STEPS")
    return parser.parse_args()


class Transformer(nn.Module):
    def __init__(self, width: int = 64, heads: int = 4, depth: int = 2) -> None:
        super().__init__()
        self.tokens = nn.Embedding(VOCABULARY, width)
        self.positions = nn.Parameter(torch.randn(LENGTH, width) / width**0.5)
        self.blocks = nn.ModuleList(
            nn.TransformerEncoderLayer(
                width, heads, 4 * width, dropout=0.0, batch_first=True, norm_first=True
            )
            for _ in range(depth)
        )
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, VOCABULARY))

    def forward(self, tokens: Tensor) -> Tensor:
        length = tokens.shape[1]
        mask = nn.Transformer.generate_square_subsequent_mask(length, device=tokens.device)
        x = self.tokens(tokens) + self.positions[:length]
        for block in self.blocks:
            x = block(x, src_mask=mask, is_causal=True)
        return self.head(x.flatten(0, 1))  # one row of logits for each token


def batch(seed: int, size: int, device: torch.device) -> Tensor:
    """Sequences such as 5 8 11 14 …: from its first two tokens the rest of each follows."""
    generator = torch.Generator().manual_seed(seed)
    start = torch.randint(VOCABULARY, (size, 1), generator=generator)
    stride = torch.randint(1, 5, (size, 1), generator=generator)
    return ((start + stride * torch.arange(LENGTH)) % VOCABULARY).to(device)


def resume(directory: Path, model: nn.Module, optimizer: torch.optim.Optimizer) -> int:
    """Load the newest whole checkpoint, if any. Returns its step, 0 for none."""
    # .metadata is written last: a checkpoint without it was cut short.
    found = max(directory.glob("step-*/.metadata"), default=None)
    if found is None:
        return 0
    model_state, optimizer_state = get_state_dict(model, optimizer)
    try:
        dcp.load({"model": model_state, "optimizer": optimizer_state}, checkpoint_id=found.parent)
    except (Exception, dcp.CheckpointException) as error:  # the second is a BaseException
        raise RuntimeError(f"cannot resume from {found.parent}; delete it") from error
    set_state_dict(model, optimizer, model_state_dict=model_state, optim_state_dict=optimizer_state)
    return int(found.parent.name.removeprefix("step-"))


def run(args: argparse.Namespace, device: torch.device) -> None:
    """What each rank does."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    mesh = init_device_mesh(device.type, (ranks,))
    precision = MixedPrecisionPolicy(
        param_dtype=torch.bfloat16 if device.type == "cuda" else None, reduce_dtype=torch.float32
    )

    torch.manual_seed(args.seed)  # fully_shard takes each rank's part of one and the same model
    model = Transformer().to(device)
    for block in model.blocks:  # gathered just before use, freed just after
        fully_shard(block, mesh=mesh, mp_policy=precision)
    fully_shard(model, mesh=mesh, mp_policy=precision)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)

    checkpoints = Path(os.environ.get("RSCTL_CHECKPOINT_DIR", "checkpoints"))
    done = resume(checkpoints, model, optimizer)
    if done and rank == 0:
        print(f"resumed from {checkpoints} after step {done}", flush=True)
    started = time.perf_counter()
    for step in range(done + 1, args.steps + 1):
        tokens = batch(args.seed + step * ranks + rank, args.batch_size, device)
        logits = model(tokens[:, :-1])
        loss = nn.functional.cross_entropy(logits, tokens[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if step % 10 == 0:
            mean = loss.detach()
            dist.all_reduce(mean)
            speed = args.batch_size * ranks * 10 / (time.perf_counter() - started)
            started = time.perf_counter()
            if rank == 0:
                print(f"step={step} loss={mean / ranks:.4f} samples/s={speed:.0f}", flush=True)
        if step % args.checkpoint_every == 0 or step == args.steps:
            model_state, optimizer_state = get_state_dict(model, optimizer)
            state = {"model": model_state, "optimizer": optimizer_state}
            dcp.save(state, checkpoint_id=checkpoints / f"step-{step:08}")

    whole = StateDictOptions(full_state_dict=True, cpu_offload=True)
    weights = get_model_state_dict(model, options=whole)  # all ranks take part, rank 0 gets it
    if rank == 0:
        outputs = Path(os.environ.get("RSCTL_OUTPUT_DIR", "outputs"))
        outputs.mkdir(parents=True, exist_ok=True)
        torch.save(weights, outputs / "model.pt")


def main() -> None:
    args = parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("cpu:gloo,cuda:nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    run(args, device)
    if device.type == "cpu":
        time.sleep(0.2)  # gloo's threads let go of the last tensors; at exit it would be too late
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
