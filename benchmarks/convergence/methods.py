"""How gradients travel: the rows of the comparison. A further method is one more line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Method:
    """A row: whether each worker has a reducer, the variables that a job file's `comm` sets, and a
    package that it needs beside PyTorch.

    `DDP_HOOK=fp8` and `TORCHFT_STEPS` are not of them: the training uses `fp8_hook`, or torchft.
    """

    has_reducers: bool
    environ: Mapping[str, str] = field(default_factory=dict)
    needs: str | None = None


def _compressed(kind: str) -> dict[str, str]:
    return {"RSCTL_COMM_COMPRESSION": kind}


def _local(steps: int) -> dict[str, str]:
    return {"RSCTL_COMM_LOCAL_STEPS": str(steps)}


_AVERAGE = {
    "RSCTL_COMM_OUTER_OPTIMIZER": "sgd",
    "RSCTL_COMM_OUTER_LR": "1",
    "RSCTL_COMM_OUTER_MOMENTUM": "0",
}

METHODS = {
    "gloo": Method(False),
    "powersgd": Method(False, {**_compressed("powersgd"), "RSCTL_POWERSGD_START": "10"}),
    "all-to-all-fp8": Method(False, {"DDP_HOOK": "fp8"}),
    "fp32": Method(True),
    "bf16": Method(True, _compressed("bf16")),
    "int8": Method(True, _compressed("int8")),
    "fp8": Method(True, _compressed("fp8")),
    "local-10": Method(True, _local(10)),
    "average-10": Method(True, {**_local(10), **_AVERAGE}),
    "torchft-10": Method(False, {"TORCHFT_STEPS": "10"}, needs="torchft"),
    "average-20-bf16": Method(True, {**_local(20), **_AVERAGE, **_compressed("bf16")}),
}
"""Local steps need a number of steps that their rounds divide: ranks are equal between rounds only.
`gloo` is plain DDP over gloo's ring: the loss that it reaches is the one to be reached."""

REFERENCE = "gloo"
