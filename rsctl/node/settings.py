"""Numbers from the environment, checked where they are read."""

from __future__ import annotations

import math
from collections.abc import Mapping

from rsctl.node.errors import USAGE, LaunchError


def number(environ: Mapping[str, str], name: str, default: float) -> float:
    """The variable as a finite number that is not negative; `default` if it is unset or empty.

    Raises LaunchError for anything else.
    """
    text = environ.get(name) or str(default)
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise LaunchError(
            USAGE,
            "environment-invalid",
            f"{name} is {text!r}, not a number of 0 or more",
            f"Unset {name}, or set it to a number.",
        )
    return value
