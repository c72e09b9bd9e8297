"""The arguments of `rsctl-launch`, also where they are too long for the platform's request.

SageMaker takes 100 arguments of 256 characters in one line each. What is longer travels as
hyperparameters, which reach the container as a file: `rsctl_arguments_0`, `rsctl_arguments_1`, …
joined in the order of their numbers are a JSON list of the arguments, or an object that has the
list of each instance group by its name, and under `*` that of all others. The request then calls
`rsctl-launch --arguments-from hyperparameters`, or leaves it to SageMaker, which calls every
container with the argument `train` unless the request has others.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rsctl.node.errors import USAGE, LaunchError
from rsctl.node.platforms.sagemaker_cluster import resources, sagemaker_path

PREFIX = "rsctl_arguments_"
"""The beginning of the names of these hyperparameters."""

_REFERENCES = (["--arguments-from", "hyperparameters"], ["train"])
"""The words with which it is called instead; the latter is SageMaker's own for a container."""

_FILE = "/opt/ml/input/config/hyperparameters.json"
_MAX_BYTES = 1 << 20


def read_arguments(given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The arguments, or those that they refer to. Raises LaunchError if these are missing.

    What an instance group has of its own depends on this node's.
    """
    if list(given) not in _REFERENCES:
        return list(given)
    path = sagemaker_path(environ, _FILE)
    try:
        with open(path, encoding="utf-8") as file:
            arguments = _join(json.loads(file.read(_MAX_BYTES)))
    except (OSError, ValueError) as error:
        raise _invalid(f"cannot be read: {error}") from error
    if isinstance(arguments, dict):
        group = resources(environ).group
        arguments = arguments.get(group, arguments.get("*"))
    if not isinstance(arguments, list) or not all(
        isinstance(argument, str) for argument in arguments
    ):
        raise _invalid(f"has no list of arguments in {PREFIX}0 and so on")
    return arguments


def _join(parameters: object) -> object:
    """The pieces as one. Raises ValueError."""
    if not isinstance(parameters, dict):
        raise ValueError("it is not a JSON object")
    count = sum(1 for name in parameters if str(name).startswith(PREFIX))
    pieces = [str(parameters.get(f"{PREFIX}{number}", "")) for number in range(count)]
    if not all(pieces):
        raise ValueError(f"some of {PREFIX}0 to {PREFIX}{count - 1} are missing")
    return json.loads("".join(pieces))


def _invalid(problem: str) -> LaunchError:
    return LaunchError(
        USAGE,
        "arguments-missing",
        f"{_FILE} {problem}",
        "Start the job with `rsctl submit`, which writes the arguments there.",
    )
