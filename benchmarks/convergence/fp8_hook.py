"""A communication hook of DDP that averages gradients in FP8 and needs no reducers.

An all-to-all gives each rank one part of all gradients, the rank averages that part in fp32, and an
all-gather gives all parts to all ranks. Both exchanges send each value as one byte, and one fp32
scale for each block of 256 values. The hook has no error feedback.
"""

import torch
import torch.distributed as dist

_BLOCK = 256
_LARGEST = 448.0  # of float8_e4m3fn


def hook(_state: object, bucket: dist.GradBucket) -> torch.futures.Future[torch.Tensor]:
    """The mean of a bucket's gradient over all ranks."""
    flat, ranks = bucket.buffer(), dist.get_world_size()
    padded = -(-flat.numel() // (ranks * _BLOCK)) * ranks * _BLOCK
    values = torch.zeros(padded)
    values[: flat.numel()] = flat
    sent = _encode(values).view(ranks, -1)
    received = torch.empty_like(sent)
    dist.all_to_all_single(received, sent)
    mine = _encode(torch.stack([_decode(part) for part in received]).mean(0))
    whole = torch.empty(ranks * mine.numel(), dtype=torch.uint8)
    dist.all_gather_into_tensor(whole, mine)
    flat.copy_(torch.cat([_decode(part) for part in whole.view(ranks, -1)])[: flat.numel()])
    done: torch.futures.Future[torch.Tensor] = torch.futures.Future()
    done.set_result(flat)
    return done


def _encode(values: torch.Tensor) -> torch.Tensor:
    """Values as bytes: for each block its scale (4 bytes), then its 256 values."""
    blocks = values.view(-1, _BLOCK)
    scales = blocks.abs().amax(1, keepdim=True).clamp(min=1e-30) / _LARGEST
    eighths = (blocks / scales).to(torch.float8_e4m3fn).view(torch.uint8)
    return torch.cat([scales.view(torch.uint8), eighths], 1).flatten()


def _decode(row: torch.Tensor) -> torch.Tensor:
    """The values of what `_encode` has made."""
    blocks = row.view(-1, _BLOCK + 4)
    scales = blocks[:, :4].contiguous().view(torch.float32)
    return (blocks[:, 4:].contiguous().view(torch.float8_e4m3fn).float() * scales).flatten()
