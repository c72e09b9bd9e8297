"""The variable by which a node learns which checks it runs, and what its machine should have.

    RSCTL_CHECKS=network=16,gpu=8,cpu

A check may have the catalogue's figure of the machine: Gbit/s of the network, number of GPUs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

from rsctl.node.errors import USAGE, LaunchError

CHECKS = "RSCTL_CHECKS"
NAMES = ("network", "gpu", "cpu")


class Checks(NamedTuple):
    """The checks of a node. `gbps` and `gpus` are the catalogue's figures, None if not known.

    Nodes that share one machine also share its processors and network, so their rates say nothing.
    """

    network: bool = False
    gpu: bool = False
    cpu: bool = False
    gbps: float | None = None
    gpus: float | None = None
    is_one_machine: bool = False


def write_checks(checks: Checks) -> str:
    """The value of the variable; empty without checks."""
    figures = {"network": checks.gbps, "gpu": checks.gpus}
    chosen = [name for name in NAMES if getattr(checks, name)]
    return ",".join(f"{n}={figures[n]:g}" if figures.get(n) else n for n in chosen)


def read_checks(environ: Mapping[str, str]) -> Checks:
    """The checks that the variable asks for. Raises LaunchError if it makes no sense."""
    text = environ.get(CHECKS, "")
    found: dict[str, float | None] = {}
    for part in filter(None, text.split(",")):
        name, _, figure = part.partition("=")
        try:
            found[name] = float(figure) if figure else None
        except ValueError:
            found[name] = math.nan
    if any(n not in NAMES or (v is not None and not 0 < v < math.inf) for n, v in found.items()):
        message = f"{CHECKS} is {text[:80]!r}, which does not name checks"
        raise LaunchError(
            USAGE, "environment-invalid", message, "rsctl sets it; do not set it in run.env."
        )
    chosen = {name: name in found for name in NAMES}
    return Checks(**chosen, gbps=found.get("network"), gpus=found.get("gpu"))
