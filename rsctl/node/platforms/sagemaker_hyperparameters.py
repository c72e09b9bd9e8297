"""A job's hyperparameters as scripts for SageMaker find them.

The file has texts only. AWS's sagemaker-training toolkit, and version 3 of the SageMaker SDK, take
each text for JSON where it is JSON (`"3"` becomes 3), and leave it as it is where it is not. They
hide from the script what is meant for themselves; so do we.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

_NAME = re.compile(r"[A-Za-z0-9._-]+")
_LOG_LEVEL = "sagemaker_container_log_level"
_NOT_THE_SCRIPTS = re.compile(
    r"sagemaker_.*|default_user_module_name|_tuning_objective_metric|rsctl_arguments_\d+"
)
"""The hyperparameters of the toolkit, and those that pass arguments to `rsctl-launch`."""

_INFO = 20
_MAX_DEPTH = 200  # brackets: what is nested deeper than Python's recursion goes cannot be written


def decode_all(given: Mapping[str, object]) -> dict[str, Any]:
    """The job's own hyperparameters, each as the JSON that its text is, or as that text."""
    return {
        name: decode(text) for name, text in given.items() if not _NOT_THE_SCRIPTS.fullmatch(name)
    }


def log_level(given: Mapping[str, object]) -> int:
    """The level of Python's logging that the SDK may ask for; INFO unless it does."""
    level = decode(given.get(_LOG_LEVEL))
    return level if type(level) is int else _INFO


def variables(hyperparameters: Mapping[str, Any]) -> dict[str, str]:
    """SM_HPS, SM_USER_ARGS and one SM_HP_NAME each.

    A name with a hyphen has the toolkit's form, SM_HP_BATCH-SIZE, and that of the SDK, which shells
    can read too: SM_HP_BATCH_SIZE.
    """
    found = {
        "SM_HPS": to_json(dict(hyperparameters)),
        "SM_USER_ARGS": to_json(arguments_of(hyperparameters)),
    }
    for name, value in hyperparameters.items():
        if not _NAME.fullmatch(name):
            continue
        text = "" if value is None else value if isinstance(value, str) else to_json(value)
        found[f"SM_HP_{name.upper()}"] = text
        found.setdefault(f"SM_HP_{name.upper().replace('-', '_')}", text)
    return found


def to_json(value: Any) -> str:
    """JSON in the form of the toolkit's variables."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"))


def decode(text: object) -> Any:
    """A hyperparameter as the JSON that its text is, or as that text."""
    if not isinstance(text, str) or text.count("[") + text.count("{") > _MAX_DEPTH:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def arguments_of(hyperparameters: Mapping[str, Any]) -> list[str]:
    """`--epochs 3`, as the toolkit calls a script; `-e 3` where the name has one letter."""
    arguments = []
    for name, value in sorted(hyperparameters.items()):
        arguments += [
            f"--{name}" if len(name) > 1 else f"-{name}" if name else "",
            _argument(value),
        ]
    return arguments


def _argument(value: Any) -> str:
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in sorted(value.items()))
    return "" if value is None else str(value)
