"""Make samples of random bytes with a label: data/files with small files, data/shards with tars.

A sample is the files of one name, as webdataset wants them: 000042.bin and 000042.cls.
"""

import argparse
import io
import random
import tarfile
from pathlib import Path

FOLDER = Path(__file__).parent / "data"


def parse_args() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--samples", type=int, default=4000)
    parser.add_argument("--sample-bytes", type=int, default=20_000)
    parser.add_argument("--shards", type=int, default=8)
    return parser.parse_args()


def make_sample(number: int, size: int) -> dict[str, bytes]:
    generator = random.Random(number)  # noqa: S311 - the same samples each time
    label = str(generator.randrange(10)).encode()
    return {f"{number:06}.bin": generator.randbytes(size), f"{number:06}.cls": label}


def main() -> None:
    args = parse_args()
    files, shards = FOLDER / "files", FOLDER / "shards"
    files.mkdir(parents=True, exist_ok=True)
    shards.mkdir(parents=True, exist_ok=True)
    for shard in range(args.shards):
        with tarfile.open(shards / f"train-{shard:03}.tar", "w") as tar:
            for number in range(shard, args.samples, args.shards):
                for name, content in make_sample(number, args.sample_bytes).items():
                    (files / name).write_bytes(content)
                    info = tarfile.TarInfo(name)
                    info.size = len(content)
                    tar.addfile(info, io.BytesIO(content))
    print(f"{args.samples} samples as files and as {args.shards} shards in {FOLDER}")


if __name__ == "__main__":
    main()
