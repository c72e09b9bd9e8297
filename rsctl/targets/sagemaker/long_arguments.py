"""Encodes arguments that are too long for ContainerArguments as hyperparameters. Pure.

SageMaker takes 100 arguments of 256 characters, without line breaks. Hyperparameters reach the
container as one file, /opt/ml/input/config/hyperparameters.json. So all arguments of `rsctl-launch`
are written as one JSON list, cut into pieces of `PIECE` characters: the entries
`rsctl_arguments_0`, `rsctl_arguments_1`, …; joined in the order of their numbers they are the list.
`rsctl-launch --arguments-from hyperparameters` reads them there. All machines have the same
ContainerArguments; where a chief or a role has its own, the JSON is an object, in which the key of
each list is the name of an instance group, or `ALL_OTHERS` for the rest.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

NAME = "rsctl_arguments_"
"""The prefix of these hyperparameters."""

REFERENCE = ["--arguments-from", "hyperparameters"]
"""The replacement command line of `rsctl-launch`."""

ALL_OTHERS = "*"
"""The key for all groups without their own key."""

PIECE = 256
"""Characters in each. The model allows 2500, the documentation's text 256: this is both."""

_MOST_ARGUMENTS = 100
_LONGEST_ARGUMENT = 256
_LINE_BREAKS = frozenset("\n\r\u0085\u2028\u2029")


class ContainerArguments(NamedTuple):
    """The container's arguments, and the hyperparameters that they need."""

    arguments: list[str]
    hyperparameters: dict[str, str]


def encode_arguments(
    arguments: list[str], of_groups: Mapping[str, list[str]] | None = None
) -> ContainerArguments:
    """The arguments themselves if SageMaker accepts them unchanged, otherwise as hyperparameters.

    `of_groups` are the arguments of instance groups with different ones.
    """
    own = {name: given for name, given in (of_groups or {}).items() if given != arguments}
    if own:
        whole = as_hyperparameters({**own, ALL_OTHERS: arguments})
        return ContainerArguments(list(REFERENCE), whole)
    if fits(arguments):
        return ContainerArguments(arguments, {})
    return ContainerArguments(list(REFERENCE), as_hyperparameters(arguments))


def as_hyperparameters(arguments: list[str] | dict[str, list[str]]) -> dict[str, str]:
    """The hyperparameters that carry arguments, whether or not SageMaker would take them."""
    text = json.dumps(arguments)  # ASCII, in one line
    pieces = [text[start : start + PIECE] for start in range(0, len(text), PIECE)]
    return {f"{NAME}{number}": piece for number, piece in enumerate(pieces)}


def decode_arguments(body: Mapping[str, Any], group: str = ALL_OTHERS) -> list[str]:
    """The arguments of a group's containers, from either place; damaged ones are unchanged."""
    arguments = (body.get("AlgorithmSpecification") or {}).get("ContainerArguments") or []
    if arguments != REFERENCE:
        return list(arguments)
    pieces: Mapping[str, Any] = body.get("HyperParameters") or {}
    numbers = itertools.takewhile(lambda number: f"{NAME}{number}" in pieces, itertools.count())
    try:
        decoded = json.loads("".join(str(pieces[f"{NAME}{number}"]) for number in numbers))
    except ValueError:
        return list(arguments)
    if isinstance(decoded, dict):
        decoded = decoded.get(group, decoded.get(ALL_OTHERS))
    return [str(each) for each in decoded] if isinstance(decoded, list) else list(arguments)


def fits(arguments: list[str]) -> bool:
    """Whether SageMaker takes arguments as they are."""
    return len(arguments) <= _MOST_ARGUMENTS and all(
        len(argument) <= _LONGEST_ARGUMENT and not _LINE_BREAKS.intersection(argument)
        for argument in arguments
    )
