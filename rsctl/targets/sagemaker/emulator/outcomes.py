"""Outcomes of a training job, with the service's status and failure reason.

The kinds of failures and their texts come from real answers; the documentation only states that the
text of /opt/ml/output/failure becomes the reason. The text for a lost machine is invented.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

from rsctl.findings import RsctlError

_KILLED = 137

Kind = Literal[
    "completed", "failed", "stopped", "max-runtime", "max-wait", "interrupted", "internal"
]


class Outcome(NamedTuple):
    """How an attempt ended, with a reason if it failed."""

    kind: Kind
    reason: str = ""


COMPLETED = Outcome("completed")
STOPPED = Outcome("stopped")
MAX_RUNTIME = Outcome("max-runtime")
MAX_WAIT = Outcome("max-wait")
INTERRUPTED = Outcome("interrupted")
LOST = Outcome(
    "internal", "InternalServerError: We encountered an internal error. Please try again."
)
NO_CAPACITY = Outcome(
    "failed",
    "CapacityError: Unable to provision requested ML compute capacity. Please retry using a "
    "different ML instance type.",
)
INTERRUPTIONS = ("interrupted", "internal")
"""Kinds after which a job may start again."""

FINAL_STATUS: dict[Kind, tuple[str, str, str]] = {
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


def exited(code: int, failure: str) -> Outcome:
    """A container has failed; `failure` is the text of /opt/ml/output/failure."""
    if code == _KILLED and not failure:
        reason = (
            "ClientError: Please use an instance type with more memory, or reduce the size of "
            f"training data processed on an instance., exit code: {code}"
        )
    else:
        reason = f"AlgorithmError: {failure}, exit code: {code}"
    return Outcome("failed", reason)


def not_started(problem: RsctlError | OSError) -> Outcome:
    """A container could not be started."""
    why = problem.summary if isinstance(problem, RsctlError) else problem
    return Outcome("failed", f"ClientError: Cannot start the container: {why}")


def not_stored(problem: str) -> Outcome:
    """The results or the checkpoints could not be stored."""
    return Outcome("failed", f"ClientError: Artifact upload failed:{problem}")


def not_downloaded(problem: str) -> Outcome:
    """The data could not be had."""
    return Outcome("failed", f"ClientError: Data download failed:{problem}")
