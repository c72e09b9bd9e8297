"""The rate of a matrix product and of copies within memory for each GPU, by PyTorch.

Without PyTorch, or where it has no GPU, there are no such readings.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Any

_SECONDS = 0.15
_SIZE = 4096
_COPY_BYTES = 256 << 20


def gpu_rates() -> dict[str, float]:
    """`cuda0.matmul_tflops` and `cuda0.copy_gbs` of each GPU that this process sees."""
    try:
        import torch
    except Exception:  # noqa: BLE001 - the script will say it better
        return {}
    readings: dict[str, float] = {}
    try:
        for index in range(torch.cuda.device_count()):
            device = torch.device("cuda", index)
            half = torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
            wait = partial(torch.cuda.synchronize, device)
            for name, value in rates(torch, device, half, wait).items():
                readings[f"cuda{index}.{name}"] = value
            torch.cuda.empty_cache()
    except RuntimeError:  # no memory is free, or a GPU is broken: NVML says which
        pass
    return readings


def rates(
    torch: Any,
    device: Any,
    kind: Any,
    wait: Callable[[], object],
    size: int = _SIZE,
    copied: int = _COPY_BYTES,
) -> dict[str, float]:
    """The rates of a device; `wait` returns when it has done all that it was given."""
    one = torch.ones(size, size, device=device, dtype=kind)
    product = torch.empty_like(one)
    source = torch.zeros(copied, device=device, dtype=torch.uint8)
    target = torch.empty_like(source)
    products = _rate(lambda: torch.mm(one, one, out=product), wait)
    copies = _rate(lambda: target.copy_(source), wait)
    return {"matmul_tflops": products * 2 * size**3 / 1e12, "copy_gbs": copies * copied / 1e9}


def _rate(work: Callable[[], object], wait: Callable[[], object]) -> float:
    """How often a second this can be done, after one that is not counted."""
    work()
    wait()
    done, began = 0, time.monotonic()
    while (passed := time.monotonic() - began) < _SECONDS or not done:
        for _ in range(4):
            work()
        wait()
        done += 4
    return done / passed
