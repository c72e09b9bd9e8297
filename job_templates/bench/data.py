"""Measure reading: the same samples as many small files, or as shards in WebDataset's layout.

`--read files` opens each sample by itself, `shards` reads tar files from end to end, and `copied`
copies the shards to the node's own disk first. The data is made once, for each worker a part of its
own, below the input `data` of the job if it has one, else below its outputs.

Reports each epoch: `samples_per_second` and `mb_per_second` of this worker, and `copy_seconds`.
"""

import argparse
import io
import os
import shutil
import tarfile
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rsctl.node import log_metrics


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--read", choices=("files", "shards", "copied"), default="files")
    parser.add_argument("--samples", type=int, default=4000, help="of each worker")
    parser.add_argument("--sample-bytes", type=int, default=20_000)
    parser.add_argument("--shard-samples", type=int, default=1000)
    parser.add_argument("--epochs", type=int, default=10)
    return parser.parse_args()


def make_files(folder: Path, args: argparse.Namespace) -> None:
    folder.mkdir(parents=True)
    for number in range(args.samples):
        (folder / f"{number:08}.bin").write_bytes(os.urandom(args.sample_bytes))


def make_shards(folder: Path, args: argparse.Namespace) -> None:
    """`shard-000000.tar` and so on: a sample is the files of one name, in their order."""
    folder.mkdir(parents=True)
    for first in range(0, args.samples, args.shard_samples):
        path = folder / f"shard-{first // args.shard_samples:06}.tar"
        with tarfile.open(path, "w", format=tarfile.USTAR_FORMAT) as tar:
            for number in range(first, min(first + args.shard_samples, args.samples)):
                info = tarfile.TarInfo(f"{number:08}.bin")
                info.size = args.sample_bytes
                tar.addfile(info, io.BytesIO(os.urandom(args.sample_bytes)))


def made(folder: Path, args: argparse.Namespace) -> Path:
    """The folder, with all its files: one that was left unfinished is made again."""
    partial = folder.with_name(folder.name + ".partial")
    if not folder.is_dir():
        shutil.rmtree(partial, ignore_errors=True)
        (make_files if args.read == "files" else make_shards)(partial, args)
        partial.rename(folder)
    return folder


def samples(folder: Path) -> Iterator[bytes]:
    for path in sorted(folder.iterdir()):
        if path.suffix != ".tar":
            yield path.read_bytes()
            continue
        with tarfile.open(path, "r|") as tar:
            for member in tar:
                content = tar.extractfile(member)
                if content is not None:
                    yield content.read()


def forget(folder: Path) -> None:
    """Have the next read come from the disk, where this system can drop pages of a file."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fdatasync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def main() -> None:
    args = parse_args()
    place = Path(os.environ.get("RSCTL_INPUT_DATA") or os.environ["RSCTL_OUTPUT_DIR"])
    layout = "files" if args.read == "files" else "shards"
    size = f"{args.samples}x{args.sample_bytes}"
    folder = made(place / f"{layout}-{size}" / os.environ["RSCTL_REPLICA"], args)
    with tempfile.TemporaryDirectory() as local:
        if args.read == "copied":
            forget(folder)
            started = time.perf_counter()
            folder = Path(shutil.copytree(folder, Path(local) / "data"))
            log_metrics(copy_seconds=time.perf_counter() - started)
        for epoch in range(1, args.epochs + 1):
            forget(folder)
            started = time.perf_counter()
            sizes = [len(sample) for sample in samples(folder)]
            seconds = time.perf_counter() - started
            log_metrics(
                step=epoch,
                samples_per_second=len(sizes) / seconds,
                mb_per_second=sum(sizes) / seconds / 1e6,
            )


if __name__ == "__main__":
    main()
