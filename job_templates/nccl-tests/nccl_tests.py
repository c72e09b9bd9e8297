"""Run one of NVIDIA's nccl-tests on the GPUs of this node and report its results as metrics.

    python nccl_tests.py all_reduce_perf -b 1K -e 1G -f 2

With launcher mpi it runs on all nodes, each rank with a GPU of its own; the program must be one
that is built with MPI, such as all_reduce_perf_mpi. The first rank reports.

For each size `busbw.SIZE`, `algbw.SIZE` (GB/s) and `time_us.SIZE`, out of place, and `busbw.avg` of
them all. They come from its JSON report (-J), which has more digits, where the program can write
one, else from its table. Ends with 1 if a result was wrong.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import NamedTuple

from rsctl.node import log_metrics

FOLDERS = ("/usr/local/bin", "/opt/nccl-tests/build", "/opt/amazon/nccl-tests/build")
_ROW = re.compile(
    r"(?:\s*(?:\d+|\[\d+,\d+\]<stdout>):)?"  # what a launcher of several ranks puts before it
    r"\s*(?P<size>\d+)\s+\d+\s+\w+\s+\w+(?:\s+-?\d+)?"  # older ones lack redop or root
    r"\s+(?P<time>[\d.e+]+)\s+(?P<algbw>[\d.e+]+)\s+(?P<busbw>[\d.e+]+)\s+(?P<wrong>\S+)"
)
_WRONG = re.compile(r"#\s*Out of bounds values\s*:\s*(\d+)")


class Result(NamedTuple):
    """One size out of place: bytes, microseconds, GB/s."""

    size: int
    time: float
    algbw: float
    busbw: float


def read_table(lines: Iterable[str]) -> tuple[list[Result], int]:
    """The rows of the table that it prints, and how many values were out of bounds."""
    results, wrong = [], 0
    for line in lines:
        if row := _ROW.match(line):
            numbers = (float(row[name]) for name in ("time", "algbw", "busbw"))
            results.append(Result(int(row["size"]), *numbers))
        elif found := _WRONG.search(line):
            wrong = int(found[1])
    return results, wrong


def read_report(report: dict) -> tuple[list[Result], int]:
    """The same from its JSON report, version 1 and 2."""
    results = [
        Result(row["size"], numbers["time"], numbers["alg_bw"], numbers["bus_bw"])
        for row in report["results"]
        if (numbers := row.get("out_of_place")) and "time" in numbers
    ]
    return results, report["out_of_bounds"]["count"]


def label(size: int) -> str:
    """`1KiB`, `96MiB`, `1000B`."""
    for unit, power in (("GiB", 30), ("MiB", 20), ("KiB", 10)):
        if size and size % (1 << power) == 0:
            return f"{size >> power}{unit}"
    return f"{size}B"


def metrics(results: list[Result]) -> Iterator[tuple[str, float]]:
    for result in results:
        yield f"busbw.{label(result.size)}", result.busbw
        yield f"algbw.{label(result.size)}", result.algbw
        yield f"time_us.{label(result.size)}", result.time
    yield "busbw.avg", sum(result.busbw for result in results) / len(results)


def command(program: str, arguments: list[str], report: Path) -> list[str]:
    """Its command line: all GPUs of the node unless -g says how many."""
    path = shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), *FOLDERS]))
    if path is None:
        sys.exit(f"no program {program}: take an image that has nccl-tests, or give its path")
    if not any(word.startswith("-g") for word in arguments):
        arguments = [*arguments, "-g", str(1 if is_mpi() else gpus())]
    if not is_first():
        return [path, *arguments]
    options = subprocess.run([path, "-h"], capture_output=True, text=True, check=False)
    can_report = "-J" in options.stdout + options.stderr
    return [path, *arguments, *(["-J", str(report)] if can_report else [])]


def is_mpi() -> bool:
    """Whether mpirun has started this process as one of several."""
    return "OMPI_COMM_WORLD_RANK" in os.environ


def is_first() -> bool:
    """Whether this process is the one that prints the table."""
    return os.environ.get("OMPI_COMM_WORLD_RANK", "0") == "0"


def gpus() -> int:
    """How many GPUs this process sees."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return max(1, len([device for device in visible.split(",") if device]))
    return max(1, len([path for path in Path("/dev").glob("nvidia*") if path.name[6:].isdigit()]))


def main() -> None:
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    # In a folder that is thrown away: the report holds the whole environment, secrets too.
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, "report.json")
        words = command(sys.argv[1], sys.argv[2:], report)
        lines = []
        with subprocess.Popen(
            words, stdout=subprocess.PIPE, text=True, errors="replace"
        ) as process:
            for line in process.stdout or ():
                print(line, end="", flush=True)
                lines.append(line)
        written = report.read_text() if report.exists() else ""
    if process.returncode:
        sys.exit(f"{words[0]} ended with {process.returncode}")
    if not is_first():
        return
    results, wrong = read_report(json.loads(written)) if written else read_table(lines)
    if not results:
        sys.exit("it printed no results")
    log_metrics(**dict(metrics(results)))
    if wrong:
        sys.exit(f"{wrong} values are wrong")


if __name__ == "__main__":
    main()
