"""Read this rank's part of the input `train` again and again, and report how fast that is.

Shards are read by webdataset from the list that RSCTL_INPUT_TRAIN_SHARDS names, which has this
rank's part of them; of small files each rank takes every so many.
"""

import argparse
import os
import time
from collections.abc import Iterator
from pathlib import Path

from rsctl.node import log_metrics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=3)
    return parser.parse_args()


def shard_samples(shards: list[str]) -> Iterator[tuple[bytes, int]]:
    """Samples of shards; the parts are shared out already, so webdataset is not to do it again."""
    import webdataset

    if not shards:  # fewer shards than ranks
        return
    dataset = webdataset.WebDataset(shards, shardshuffle=False, nodesplitter=lambda urls: urls)
    for sample in dataset:
        yield sample["bin"], int(sample["cls"])


def file_samples(folder: Path, rank: int, ranks: int) -> Iterator[tuple[bytes, int]]:
    for path in sorted(folder.glob("*.bin"))[rank::ranks]:
        yield path.read_bytes(), int(path.with_suffix(".cls").read_text())


def forget(paths: list[Path]) -> None:
    """Have the next read come from the disk, where this system can drop pages of a file."""
    for path in paths:
        with path.open("rb") as file:
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    args = parse_args()
    # torchrun numbers ranks; with launcher once each node has one process.
    rank = int(os.environ.get("RANK") or os.environ["NODE_RANK"])
    ranks = int(os.environ.get("WORLD_SIZE") or os.environ["NNODES"])
    listed = os.environ.get("RSCTL_INPUT_TRAIN_SHARDS")
    shards = Path(listed).read_text().split("\n")[:-1] if listed else []
    folder = Path(os.environ["RSCTL_INPUT_TRAIN"])
    print(f"{len(shards)} shards" if listed else f"files of {folder}", flush=True)
    for epoch in range(1, args.epochs + 1):
        forget([Path(name) for name in shards if "://" not in name] or list(folder.glob("*.bin")))
        started = time.perf_counter()
        samples = shard_samples(shards) if listed else file_samples(folder, rank, ranks)
        sizes = [len(content) for content, _ in samples]
        seconds = time.perf_counter() - started
        log_metrics(
            step=epoch,
            samples=len(sizes),
            samples_per_second=len(sizes) / seconds,
            mb_per_second=sum(sizes) / seconds / 1e6,
        )


if __name__ == "__main__":
    main()
