"""How a job ends, and what the service says of it.

The kinds of failures and their words are those of real answers; documented is only that the text of
/opt/ml/output/failure becomes the reason. What is said of a lost machine is made up.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rsctl.findings import RsctlError

_KILLED = 137

Kind = Literal[
    "completed", "failed", "stopped", "max-runtime", "max-wait", "interrupted", "internal"
]


class Ending(NamedTuple):
    """How an attempt ended, and why if it failed."""

    kind: Kind
    reason: str = ""


COMPLETED = Ending("completed")
STOPPED = Ending("stopped")
MAX_RUNTIME = Ending("max-runtime")
MAX_WAIT = Ending("max-wait")
INTERRUPTED = Ending("interrupted")
LOST = Ending(
    "internal", "InternalServerError: We encountered an internal error. Please try again."
)
NO_CAPACITY = Ending(
    "failed",
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type.",
)
UNWILLING = ("interrupted", "internal")
"""Kinds after which a job may start again."""

LAST: dict[Kind, tuple[str, str, str]] = {
    "completed": ("Completed", "Completed", "Training job completed"),
    "failed": ("Failed", "Failed", "Training job failed"),
    "internal": ("Failed", "Failed", "Training job failed"),
    "stopped": ("Stopped", "Stopped", "Training job stopped"),
    "max-runtime": (
        "Stopped",
        "MaxRuntimeExceeded",
        "Training job runtime exceeded MaxRuntimeInSeconds provided",
    ),
    "max-wait": (
        "Stopped",
        "MaxWaitTimeExceeded",
        "Training job wait time exceeded MaxWaitTimeInSeconds provided",
    ),
}
"""By kind: primary status, secondary status, and its message."""


def exited(code: int, said: str) -> Ending:
    """A container has failed; `said` is what it left in /opt/ml/output/failure."""
    if code == _KILLED and not said:
        reason = (
            "ClientError: Please use an instance type with more memory, or reduce the size of "
            f"training data processed on an instance., exit code: {code}"
        )
    else:
        reason = f"AlgorithmError: {said}, exit code: {code}"
    return Ending("failed", reason)


def not_started(problem: RsctlError | OSError) -> Ending:
    """A container could not be started."""
    return Ending("failed", f"ClientError: Cannot start the container: {problem}")


def not_stored(problem: str) -> Ending:
    """The results or the checkpoints could not be stored."""
    return Ending("failed", f"ClientError: Artifact upload failed:{problem}")


def not_downloaded(problem: str) -> Ending:
    """The data could not be had."""
    return Ending("failed", f"ClientError: Data download failed:{problem}")
