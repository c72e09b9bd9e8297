"""The outer optimizer of local steps: its settings, and its update of one tensor.

Between two exchanges each worker trains its own copy. An outer optimizer then takes the average
change of all copies for a gradient (DiLoCo, arXiv 2311.08105; fragments: Streaming DiLoCo,
arXiv 2501.18512). All workers hold the same outer state and calculate the same update from
the same average, so the bits of the result are equal on all of them.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch

from rsctl.transport.pytorch.settings import BindingError, read_number

LOCAL_STEPS = "RSCTL_COMM_LOCAL_STEPS"
OPTIMIZERS = ("nesterov", "sgd")
_MOST_STEPS = 1_000_000


@dataclass(frozen=True)
class LocalSteps:
    """The settings of `comm.local_steps`, `comm.outer`, `comm.fragments` and `comm.quorum`.

    `steps` is how many steps of the script's optimizer one round has. `fragments` is into how many
    parts the parameters are divided, which travel at different steps of the round. `quorum` is how
    many workers an exchange waits for; None for all.
    """

    steps: int
    optimizer: str = "nesterov"
    lr: float = 0.7
    momentum: float = 0.9
    fragments: int = 1
    quorum: int | None = None

    def describe(self) -> str:
        """The settings as text."""
        outer = f"outer {self.optimizer}, lr {self.lr:g}, momentum {self.momentum:g}"
        parts = f", {self.fragments} fragments" if self.fragments > 1 else ""
        quorum = f", quorum {self.quorum}" if self.quorum else ""
        return f"parameters exchanged every {self.steps} steps ({outer}{parts}{quorum})"

    def due_steps(self) -> list[int]:
        """The step of a round, from 1, after which each fragment begins to travel."""
        return [(n + 1) * self.steps // self.fragments for n in range(self.fragments)]


def read_local_steps(environ: Mapping[str, str]) -> LocalSteps | None:
    """The settings of the environment; None for an exchange in each step. Raises BindingError."""
    steps = read_number(environ, LOCAL_STEPS, "comm.local_steps", 1, _MOST_STEPS) or 1
    if steps == 1:
        return None
    fragments = read_number(environ, "RSCTL_COMM_FRAGMENTS", "comm.fragments", 1, steps) or 1
    name = "RSCTL_COMM_OUTER_OPTIMIZER"
    optimizer = environ.get(name) or "nesterov"
    if optimizer not in OPTIMIZERS:
        choices = f"Use one of {', '.join(OPTIMIZERS)}."
        raise BindingError("comm.outer.optimizer", f"{name} is {optimizer!r}", choices)
    return LocalSteps(
        steps=steps,
        optimizer=optimizer,
        lr=_real(environ, "RSCTL_COMM_OUTER_LR", "comm.outer.lr", 0.7, 10.0),
        momentum=_real(environ, "RSCTL_COMM_OUTER_MOMENTUM", "comm.outer.momentum", 0.9, 1.0),
        fragments=fragments,
        quorum=read_number(environ, "RSCTL_COMM_QUORUM", "comm.quorum", 1, _MOST_STEPS),
    )


def outer_step(
    settings: LocalSteps, momentum: torch.Tensor, gradient: torch.Tensor
) -> torch.Tensor:
    """Update the momentum in place, and return what an exchange subtracts from the parameters.

    The formulas follow `torch.optim.SGD`. Products and sums are separate operations, because
    a fused one rounds differently and not every processor has it.
    """
    momentum.mul_(settings.momentum).add_(gradient)
    if settings.optimizer == "sgd":
        return momentum * settings.lr
    return (momentum * settings.momentum).add_(gradient).mul_(settings.lr)


def _real(environ: Mapping[str, str], name: str, key: str, default: float, most: float) -> float:
    """A number of at least 0; at most 10, or less than 1."""
    text = environ.get(name)
    if not text:
        return default
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    below = value < most if most == 1 else 0 < value <= most
    if not (value >= 0 and below):
        bounds = "from 0 to less than 1" if most == 1 else f"above 0, at most {most:g}"
        raise BindingError(key, f"{name} is {text!r}", f"Use a number {bounds}.")
    return value
