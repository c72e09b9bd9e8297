"""The runtime on a node or in a container, and what training scripts use of it.

    from rsctl.node import log_metrics, should_stop
    log_metrics(step=10, loss=0.41, **{"eval/accuracy": 0.93})
    if should_stop():
        save_checkpoint()

This package needs the standard library only and nothing of the rest of rsctl: it is installed
alone into images.
"""

from __future__ import annotations

import math
import operator
import os
import re
import sys
from typing import TYPE_CHECKING, SupportsFloat

if TYPE_CHECKING:  # Python 3.7 has none of them: see interpreter.py.
    from typing import Protocol, SupportsIndex

    class Scalar(Protocol):
        """A number in a box: a tensor or an array without dimensions."""

        def item(self) -> object:
            """The number as Python's own."""


__all__ = ["log_metrics", "should_stop"]

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_./:=()@%+-]*")
_RESERVED = frozenset({"rsctl", "rank"})


def log_metrics(
    step: SupportsIndex | None = None, **values: SupportsFloat | SupportsIndex | Scalar
) -> None:
    """Report metrics of this rank, in the unit of your choice, at an optional training step.

    A value is a number or anything with `.item()` that gives one, such as a 0-d tensor. Raises
    ValueError for a name that does not match `[A-Za-z_][A-Za-z0-9_./:=()@%+-]*` or is `rsctl` or
    `rank`, and TypeError for a value that is not a number.

    A script that does not import rsctl prints the same line itself, one JSON object on one line
    of stdout, of at most 4096 bytes, `rsctl` first and a space after each colon and comma:

        {"rsctl": "metrics", "step": 10, "loss": 0.41, "rank": 0}

    `step` and `rank` may be left out; every other key is a metric. JSON has no form for numbers
    that are not finite, and a diverged loss must not stop the training that reports it: they are
    the strings "nan", "inf" and "-inf".
    """
    metrics = {_checked(name): _json_number(name, value) for name, value in values.items()}
    head = {} if step is None else {"step": operator.index(step)}
    rank = os.environ.get("RANK") or os.environ.get("NODE_RANK", "")
    tail = {"rank": int(rank)} if rank.isdigit() else {}
    # What the script printed before must come before, though it may still be in a buffer.
    sys.stdout.flush()
    _emit_in_parts(head, metrics, tail)


def should_stop() -> bool:
    """Whether to save the state of the training and to end now, because the job must stop: it was
    cancelled, its time limit is near, or its machine is about to be taken away.

    Call it on every rank, as often on each, such as once after each step: it is True on all ranks
    from the same call on. A call costs less than a microsecond; ranks communicate only once a stop
    is due. After it was True, save a checkpoint and return: `limits.grace` is the time for that.

    Ranks agree through the default process group of torch.distributed. Without one, and with
    several ranks, each rank learns of the stop by itself, and only on nodes that are asked to end.
    Outside of a job of rsctl it is always False.
    """
    from rsctl.node import stop_agreement

    return stop_agreement.should_stop()


def _emit_in_parts(
    head: dict[str, int], metrics: dict[str, int | float | str], tail: dict[str, int]
) -> None:
    """One line, or several with the same step and rank where one would be too long."""
    fields = {**head, **metrics, **tail}
    from rsctl.node.structured_lines import LINE_BYTES, emit, line

    if len(metrics) < 2 or len(line("metrics", fields)) <= LINE_BYTES:
        emit("metrics", fields)
        return
    names = list(metrics)
    for half in (names[: len(names) // 2], names[len(names) // 2 :]):
        _emit_in_parts(head, {name: metrics[name] for name in half}, tail)


def _checked(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise ValueError(f"metric name {name!r} does not match {_NAME.pattern}")
    if name in _RESERVED:
        raise ValueError(f"metric name {name!r} is taken: the line itself has that key")
    return name


def _json_number(name: str, value: object) -> int | float | str:
    number = value.item() if hasattr(value, "item") else value
    if isinstance(number, int):
        return int(number)
    if not isinstance(number, SupportsFloat):
        raise TypeError(f"metric {name!r} is {type(number).__name__}, not a number")
    number = float(number)
    return number if math.isfinite(number) else str(number)
