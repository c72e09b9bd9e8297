"""The command line of `rsctl-launch` where it is too long for the platform's request.

SageMaker takes 100 arguments of 256 characters in one line each. What is longer travels as
hyperparameters, which reach the container as a file: `rsctl_arguments_0`, `rsctl_arguments_1`, …
joined in the order of their numbers are a JSON list of the arguments. The request then calls
`rsctl-launch --arguments-from hyperparameters`, or leaves it to SageMaker, which calls every
container with the word `train` unless it is told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from rsctl.runtime.cluster import sagemaker_path
from rsctl.runtime.refusal import USAGE, Refusal

NAME = "rsctl_arguments_"
"""What the names of these hyperparameters begin with."""

_REFERENCES = (["--arguments-from", "hyperparameters"], ["train"])
"""What is called instead; the latter is what SageMaker itself calls a container with."""

_FILE = "/opt/ml/input/config/hyperparameters.json"
_MOST_BYTES = 1 << 20


def arguments(given: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """The arguments that are meant. Raises Refusal if the file does not have them."""
    if list(given) not in _REFERENCES:
        return list(given)
    path = sagemaker_path(environ, _FILE)
    try:
        with open(path, encoding="utf-8") as file:
            words = _joined(json.loads(file.read(_MOST_BYTES)))
    except (OSError, ValueError) as error:
        raise _invalid(f"cannot be read: {error}") from error
    if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
        raise _invalid(f"has no list of arguments in {NAME}0 and so on")
    return words


def _joined(parameters: object) -> object:
    """The pieces as one. Raises ValueError."""
    if not isinstance(parameters, dict):
        raise ValueError("it is not a JSON object")
    count = sum(1 for name in parameters if str(name).startswith(NAME))
    pieces = [str(parameters.get(f"{NAME}{number}", "")) for number in range(count)]
    if not all(pieces):
        raise ValueError(f"of {NAME}0 to {NAME}{count - 1} some are missing")
    return json.loads("".join(pieces))


def _invalid(problem: str) -> Refusal:
    return Refusal(
        USAGE,
        "arguments-missing",
        f"{_FILE} {problem}",
        "Start the job with `rsctl submit`, which writes the arguments there.",
    )
