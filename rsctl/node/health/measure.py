"""Measures a node in a process of its own, which its launcher can kill.

    python .../rsctl_start.py rsctl.node.health.measure PARENT

For each line on stdin it writes one JSON object with readings to stdout: numbers by name.
`cuda0.` is the first GPU as PyTorch numbers them, `gpu0.` as the driver does.
"""

from __future__ import annotations

import json
import os
import signal
import struct
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from operator import mul

from rsctl.node import rank
from rsctl.node.health.gpu_rates import gpu_rates
from rsctl.node.health.settings import Checks, read_checks
from rsctl.node.nvml import Nvml, XidEvents

_CPU_SECONDS = 0.8
_RATES_SECONDS = 15.0
_COPY_SECONDS = 0.4
_COPY_BYTES = 16 << 20
_MOST_COPIERS = 4
_MOST_PROCESSES = 64
_SIZE = 32
_DISKS = (("outputs", "RSCTL_OUTPUT_DIR"), ("checkpoints", "RSCTL_CHECKPOINT_DIR"))
_DOUBLE = struct.Struct("d")

Readings = dict[str, float]


def main(parent: int) -> None:
    """Answer each line until stdin ends."""
    rank.die_with_parent(signal.SIGKILL, parent)
    checks = read_checks(os.environ)
    answers = os.dup(1)
    os.dup2(2, 1)  # nothing that a library prints gets between the answers
    nvml = Nvml.load() if checks.gpu else None
    xids = nvml.watch_xids() if nvml else None
    for _ in sys.stdin:
        readings = measure(checks, nvml, xids)
        os.write(answers, json.dumps(readings).encode() + b"\n")


def measure(checks: Checks, nvml: Nvml | None, xids: XidEvents | None) -> Readings:
    """All readings of this node but those of its network."""
    readings: Readings = {}
    began = time.monotonic()
    if checks.gpu:
        readings["gpus"] = float(len(nvml.health())) if nvml else 0.0
        visible = _visible(os.environ.get("CUDA_VISIBLE_DEVICES"))
        for gpu in nvml.health() if nvml else ():
            if visible is None or gpu["index"] in visible:
                name = f"gpu{gpu['index']}"
                readings |= {f"{name}.{key}": float(n) for key, n in gpu.items() if key != "index"}
        for index, xid in xids.read() if xids else ():
            readings[f"gpu{index}.xid"] = float(xid)
    if checks.cpu:
        cores = min(_cores(), _MOST_PROCESSES)
        readings |= free_space(os.environ.get)
        copied = _total(_copy_rate, min(cores, _MOST_COPIERS))
        products = _total(_product_rate, cores)
        readings |= {"copy_gbs": copied / 1e9, "matmul_gflops": products / 1e9}
    if readings.get("gpus"):
        readings |= _gpu_rates(began)
    return {name: round(value, 4) for name, value in readings.items()}


def _gpu_rates(began: float) -> Readings:
    """The rates of the GPUs; `rates_late` if PyTorch or a GPU takes so long to answer
    that all other readings would come too late.
    """
    found: list[Readings] = []
    thread = threading.Thread(target=lambda: found.append(gpu_rates()), daemon=True)
    thread.start()
    thread.join(began + _RATES_SECONDS - time.monotonic())
    return found[0] if found else {"rates_late": 1.0}


def free_space(variable: Callable[[str], str | None]) -> Readings:
    """Free bytes and files of the folder for temporary files, and of those that scripts write to.

    Some file systems of networks report no sizes; they are left out.
    """
    folders = {"tmp": tempfile.gettempdir()}
    folders |= {name: path for name, key in _DISKS if (path := variable(key))}
    readings: Readings = {}
    for name, path in folders.items():
        with suppress(OSError):
            disk = os.statvfs(path)
            if disk.f_blocks:
                readings[f"disk.{name}_free_bytes"] = float(disk.f_bavail * disk.f_frsize)
            if disk.f_files:
                readings[f"disk.{name}_free_files"] = float(disk.f_favail)
    return readings


def _visible(devices: str | None) -> list[int] | None:
    """The GPUs that this node may use, by number; None for all, or if they have other names."""
    numbers = (devices or "").split(",")
    return [int(n) for n in numbers] if all(n.isascii() and n.isdigit() for n in numbers) else None


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _total(rate: Callable[[], float], processes: int) -> float:
    """The sum of a rate over so many processes at a time."""
    pipes = []
    for _ in range(processes):
        reader, writer = os.pipe()
        try:
            child = os.fork()
        except OSError:  # a limit of processes: the others count
            os.close(reader)
            os.close(writer)
            break
        if child == 0:
            with suppress(BaseException):
                os.write(writer, _DOUBLE.pack(rate()))
            os._exit(0)
        os.close(writer)
        pipes.append((child, reader))
    return sum(_answers(pipes))


def _answers(pipes: Iterable[tuple[int, int]]) -> Iterable[float]:
    for child, reader in pipes:
        data = os.read(reader, _DOUBLE.size)
        os.close(reader)
        os.waitpid(child, 0)
        if len(data) == _DOUBLE.size:
            yield _DOUBLE.unpack(data)[0]


def _product_rate() -> float:
    """Floating point operations a second in products of two matrices, by Python itself.

    Slower than a library by orders of magnitude, but in every image, and alike on all nodes.
    """
    rows = [[1.0 + row + column for column in range(_SIZE)] for row in range(_SIZE)]
    columns = list(zip(*rows, strict=True))

    def work() -> float:
        for row in rows:
            for column in columns:
                sum(map(mul, row, column))
        return 2.0 * _SIZE**3

    return _rate(work, _CPU_SECONDS)


def _copy_rate() -> float:
    """Bytes a second that are copied within memory."""
    source, target = bytes(_COPY_BYTES), bytearray(_COPY_BYTES)

    def work() -> float:
        target[:] = source
        return float(_COPY_BYTES)

    work()  # the first one gets the pages
    return _rate(work, _COPY_SECONDS)


def _rate(work: Callable[[], float], seconds: float) -> float:
    began, done = time.monotonic(), 0.0
    while (passed := time.monotonic() - began) < seconds:
        done += work()
    return done / passed


if __name__ == "__main__":
    main(int(sys.argv[1]))
