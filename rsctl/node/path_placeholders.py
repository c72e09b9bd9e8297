"""Placeholders in `run.args` for the run's own folders, whose paths only a replica knows.

`{outputs}`, `{checkpoints}` and `{inputs.NAME}` become the values of RSCTL_OUTPUT_DIR,
RSCTL_CHECKPOINT_DIR and RSCTL_INPUT_NAME. Other braces stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_PLACEHOLDER = re.compile(r"\{(outputs|checkpoints|inputs\.([^{}]+))\}")
_VARIABLES = {"outputs": "RSCTL_OUTPUT_DIR", "checkpoints": "RSCTL_CHECKPOINT_DIR"}


def placeholder_names(arguments: Iterable[str]) -> list[str]:
    """The placeholders in these arguments, in order: `outputs`, `checkpoints`, `inputs.NAME`."""
    return [found[1] for argument in arguments for found in _PLACEHOLDER.finditer(argument)]


def replace_placeholders(arguments: list[str], last: int, environ: Mapping[str, str]) -> list[str]:
    """The arguments, with folders in place of the placeholders in the `last` ones of them."""
    split = len(arguments) - last

    def value(found: re.Match[str]) -> str:
        name = _VARIABLES.get(found[1]) or f"RSCTL_INPUT_{found[2].upper()}"
        return environ.get(name, found[0])

    return arguments[:split] + [_PLACEHOLDER.sub(value, argument) for argument in arguments[split:]]
