"""Tensors as the transport takes them: plain host_memory of the host."""

from __future__ import annotations

import ctypes

import torch

DTYPES = {torch.float32: "fp32", torch.bfloat16: "bf16", torch.float16: "fp16"}
"""The dtypes that reducers can add, by the transport's names."""

COMPRESSED_DTYPES = {"fp16": torch.float16, "bf16": torch.bfloat16}
"""The dtypes in which compressed gradients travel."""

DEVICES = ("cpu", "cuda")


def future_for(device: torch.device) -> torch.futures.Future[torch.Tensor]:
    """A future for a tensor on this device; on a GPU, who waits for it makes its stream wait."""
    return torch.futures.Future(devices=[device] if device.type == "cuda" else None)


def new_stream(device: torch.device) -> torch.cuda.Stream | None:
    """A stream of our own on a GPU; None elsewhere."""
    if device.type != "cuda":
        return None
    return torch.cuda.Stream(device)  # type: ignore[no-untyped-call]


def refusal(tensor: torch.Tensor) -> str | None:
    """Why this tensor cannot travel to a reducer; None if it can."""
    if tensor.layout is not torch.strided:
        return "sparse"
    if tensor.dtype not in DTYPES:
        return str(tensor.dtype).removeprefix("torch.")
    return None if tensor.device.type in DEVICES else f"on {tensor.device.type}"


def host_memory(tensor: torch.Tensor) -> memoryview:
    """The bytes of a contiguous CPU tensor, writable. The tensor must outlive the view."""
    size = tensor.numel() * tensor.element_size()
    if not size:
        return memoryview(bytearray())
    return memoryview((ctypes.c_char * size).from_address(tensor.data_ptr())).cast("B")


def host_copy(source: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A copy in the host's memory, in this dtype.

    From a GPU it is a copy on the current stream into pinned memory, finished on return. PyTorch
    keeps pinned memory for the next copy of this size.
    """
    if source.device.type == "cpu":
        return source.to(dtype, copy=True).contiguous()
    target = torch.empty(source.shape, dtype=dtype, pin_memory=True)
    target.copy_(source.to(dtype), non_blocking=True)
    torch.cuda.current_stream(source.device).synchronize()
    return target
