"""Summaries of stacks with their numbers of samples, as py-spy and flame graph tools write them."""

from __future__ import annotations

import re
from collections import Counter
from typing import NamedTuple

TOP = 10
"""Functions of a summary at most."""

_COMMUNICATION = re.compile(
    r"/torch/distributed/|/rsctl/transport/(?!pytorch/)|/rsctl/transport/pytorch/[^;]*$"
)
"""Frames of communication. rsctl's wrappers of PyTorch's functions, such as the one that watches
`backward`, count only where they are the innermost function.
"""


class StackSummary(NamedTuple):
    """The summary of stacks.

    `top` are the innermost functions, each with its part of the samples; `communication` is the
    part of the samples within calls of torch.distributed.
    """

    samples: int
    communication: float
    top: list[tuple[str, float]]


def summarize_stacks(path: str) -> StackSummary:
    """The summary of a file of stacks: `frame;frame;frame COUNT`, the outermost first.

    Raises OSError.
    """
    inner: Counter[str] = Counter()
    total = communicating = 0
    with open(path, encoding="utf-8", errors="replace") as lines:
        for line in lines:
            stack, _, number = line.rstrip("\n").rpartition(" ")
            if not (stack and number.isascii() and number.isdigit()):
                continue  # a thread that has just begun has no stack
            count = int(number)
            total += count
            inner[stack.rpartition(";")[2]] += count
            if _COMMUNICATION.search(stack):
                communicating += count
    top = [(name, count / total) for name, count in inner.most_common(TOP)]
    return StackSummary(total, communicating / total if total else 0.0, top)
