"""Time an all-reduce by several methods, side by side, and check every result.

    ring     the workers alone, by gloo or NCCL
    central  one reducer of the pool
    pool     all reducers
    hybrid   all reducers, and a share on the workers; where the pool alone would be too small

Rank 0 prints a JSON line for each size and method, with the field names of nccl-tests: `time` in
us, `algbw` = size / time and `busbw` = algbw * 2(N-1)/N in GB/s, `wrong` as their #wrong. Further:
`wire_bw`, what each worker sends / time; `efficiency`, the least time that the links need / time,
where their bandwidth is known; `identical`, whether all ranks have the same bits. After them comes
a table, in ms and GB/s too.

An element is wrong if it differs from gloo's result in fp32 by more than N * eps of it; eps is
1.2e-7 for float32, 7.8e-3 for bfloat16, 9.8e-4 for float16.
"""

import argparse
import hashlib
import json
import os
import re
import statistics
import sys
import time
from collections.abc import Iterator
from typing import Any

import methods
import torch
import torch.distributed as dist
from methods import AllReduce, Method, Ranks

from rsctl.node import log_metrics

DTYPES = {"float32": "float", "bfloat16": "bfloat16", "float16": "half"}
"""PyTorch's names, and those of nccl-tests."""
UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30}


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=parse_sizes, default="1M,25M", help="such as 64K,25M,25Mi")
    parser.add_argument("--iters", type=int, default=5)
    parser.add_argument("--warmup", type=int, default=2)
    parser.add_argument("--dtype", choices=DTYPES, default="float32")
    parser.add_argument("--op", choices=("sum", "avg"), default="sum")
    parser.add_argument("--methods", type=parse_methods, default=list(methods.NAMES))
    parser.add_argument("--backend", choices=("gloo", "nccl"), help="of the ring")
    args = parser.parse_args()
    if args.iters < 1 or args.warmup < 0:
        parser.error("--iters must be at least 1, --warmup at least 0")
    return args


def parse_sizes(text: str) -> dict[str, int]:
    """`25M,25Mi` is {"25MB": 25 000 000, "25MiB": 26 214 400}."""
    sizes = {}
    for part in text.split(","):
        match = re.fullmatch(r"([1-9][0-9]{0,11})([KMG]i?)?B?", part)
        if match is None:
            raise argparse.ArgumentTypeError(
                f"{part!r} is not a valid size such as 64K, 25M or 25Mi"
            )
        number, unit = match[1], match[2] or ""
        sizes[f"{number}{unit}B"] = int(number) * UNITS[unit]
    return sizes


def parse_methods(text: str) -> list[str]:
    names = text.split(",")
    unknown = [name for name in names if name not in methods.NAMES]
    if unknown:
        raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(methods.NAMES)}")
    return names


class Bench:
    """Measures one method at a time."""

    def __init__(self, args: argparse.Namespace, device: torch.device) -> None:
        self.args = args
        self.device = device
        self.settings = methods.find_settings()
        self.backend = args.backend or ("nccl" if device.type == "cuda" else "gloo")
        self.ranks = Ranks(self.settings, self.backend, args.op)

    def source(self, nbytes: int) -> torch.Tensor:
        """This rank's numbers, from 0 to 1: none is negative, so that no sum comes near zero."""
        dtype = getattr(torch, self.args.dtype)
        count = max(1, nbytes // dtype.itemsize)
        generator = torch.Generator().manual_seed(self.settings.rank)
        return torch.rand(count, generator=generator).to(self.device, dtype)

    def measure(
        self, method: Method, source: torch.Tensor, expected: torch.Tensor
    ) -> dict[str, Any]:
        """One line of the result."""
        buffer, count = torch.empty_like(source), self.ranks.count
        with self.ranks.opened(method) as (all_reduce, engine):
            seconds = self.seconds(all_reduce, source, buffer)
        wrong, identical = self.check(buffer.cpu(), expected)
        nbytes = source.numel() * source.element_size()
        algbw = nbytes / seconds / 1e9
        return {
            "size": nbytes,
            "count": source.numel(),
            "type": DTYPES[self.args.dtype],
            "redop": self.args.op,
            "root": -1,
            "time": significant(seconds * 1e6),
            "algbw": significant(algbw),
            "busbw": significant(algbw * 2 * (count - 1) / count),
            "wrong": wrong,
            "method": method.name,
            "backend": "rsctl" if method.settings else self.backend,
            "engine": engine,
            "ranks": count,
            "reducers": method.reducers,
            "wire_bw": significant(algbw * method.wire),
            "efficiency": self.efficiency(method, nbytes, seconds),
            "identical": identical,
        }

    def seconds(self, all_reduce: AllReduce, source: torch.Tensor, buffer: torch.Tensor) -> float:
        """The median over the iterations of the slowest rank's time; the result is in `buffer`."""
        took = []
        for _ in range(self.args.warmup + self.args.iters):
            buffer.copy_(source)
            self.synchronize()
            self.ranks.barrier()
            begin = time.perf_counter()
            all_reduce(buffer)
            self.synchronize()
            took.append(time.perf_counter() - begin)
        everyone = self.ranks.gather(took[self.args.warmup :])
        return statistics.median(map(max, zip(*everyone, strict=True)))

    def synchronize(self) -> None:
        if self.device.type == "cuda":
            torch.cuda.synchronize(self.device)

    def check(self, result: torch.Tensor, expected: torch.Tensor) -> tuple[int, bool]:
        """How many elements are wrong on all ranks together, and whether all have the same bits."""
        allowed = self.ranks.count * torch.finfo(result.dtype).eps * expected
        right = (result.float() - expected).abs() <= allowed  # false for what is no number
        digest = hashlib.blake2b(methods.memory(result)).digest()
        everyone = self.ranks.gather((int((~right).sum()), digest))
        return sum(wrong for wrong, _ in everyone), len({digest for _, digest in everyone}) == 1

    def efficiency(self, method: Method, nbytes: int, seconds: float) -> float | None:
        """None where the links are unknown, or shared by several ranks of a node."""
        alone = os.environ.get("LOCAL_WORLD_SIZE", "1") == "1"
        known = self.settings.bandwidth and alone and method.limit
        return significant(method.limit * nbytes / seconds) if known else None


def significant(number: float) -> float:
    return float(f"{number:.5g}")


def table(label: str, rows: list[dict[str, Any]]) -> Iterator[str]:
    """For people; `limit` is the efficiency, `faster` by how much than the ring."""
    heads = ("ms", "algbw", "busbw", "wire_bw", "limit", "faster", "wrong")
    yield f"{label} (time in ms, bandwidths in GB/s)"
    yield " " * 10 + "".join(f"{head:>9}" for head in heads)
    ring = next((row["time"] for row in rows if row["method"] == "ring"), None)
    for row in rows:
        speeds = (f"{row[name]:9.4f}" for name in ("algbw", "busbw", "wire_bw"))
        limit = f"{row['efficiency']:.0%}" if row["efficiency"] else "-"
        faster = f"{ring / row['time']:.2f}x" if ring else "-"
        numbers = f"{row['time'] / 1000:9.2f}{''.join(speeds)}{limit:>9}{faster:>9}"
        yield f"  {row['method']:8}{numbers}{row['wrong']:9}"


def run(args: argparse.Namespace, device: torch.device) -> bool:
    """What each rank does; returns whether all results were right."""
    bench = Bench(args, device)
    chief = bench.settings.rank == 0
    found = methods.find(bench.settings)
    if chief:
        for reason in methods.left_out(args.methods, found, len(bench.settings.reducers)):
            print(reason, file=sys.stderr, flush=True)
    lines, right = [], True
    for label, nbytes in args.sizes.items():
        source = bench.source(nbytes)
        expected = bench.ranks.expected(source)
        rows = []
        for method in [method for method in found if method.name in args.methods]:
            row = bench.measure(method, source, expected)
            right = right and row["wrong"] == 0 and row["identical"]
            rows.append(row)
            if chief:
                print(json.dumps(row), flush=True)
                names = {name: f"{name}.{method.name}.{label}" for name in ("algbw", "busbw")}
                log_metrics(**{full: row[name] for name, full in names.items()})
        lines += table(label, rows)
    if chief:
        print("\n".join(lines), flush=True)
    return right


def main() -> None:
    args = parse_args()
    if torch.cuda.is_available():
        device = torch.device("cuda", int(os.environ["LOCAL_RANK"]))
        torch.cuda.set_device(device)
        dist.init_process_group("nccl", device_id=device)
    else:
        device = torch.device("cpu")
        dist.init_process_group("gloo")
    right = run(args, device)
    dist.destroy_process_group()
    if not right:
        sys.exit("some results are wrong: see `wrong` and `identical` above")


if __name__ == "__main__":
    main()
