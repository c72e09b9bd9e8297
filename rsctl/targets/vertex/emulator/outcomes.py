"""Outcomes of a job and their error messages, documented ones where there are any."""

from __future__ import annotations

from typing import Literal, NamedTuple
from urllib.parse import quote

from rsctl.findings import RsctlError

_MOST_TAIL = 1500
_KILLED = 137
_START_ERROR = 128

Kind = Literal["succeeded", "failed", "restart", "lost", "stockout", "cancelled", "timeout"]


class Outcome(NamedTuple):
    """How an attempt ended: code and message of the job's `error`, a google.rpc.Status."""

    kind: Kind
    code: int = 0
    message: str = ""


SUCCEEDED = Outcome("succeeded")
CANCELLED = Outcome("cancelled", 1, "The job was cancelled.")
LOST = Outcome("lost", 13, "Internal error occurred for the current attempt.")


def exited(task: str, code: int, tail: list[str], logs: str) -> Outcome:
    """A replica that failed for good; `tail` are the last lines of its stderr."""
    if code == _KILLED:
        message = (
            f"The replica {task} ran out of memory and exited with a non-zero status of {code}."
        )
    else:
        message = f"The replica {task} exited with a non-zero status of {code}."
        message += f" Termination reason: Error. {_shortened(tail)}"
    hint = f"To find out more about why your job exited please check the logs: {logs}"
    return Outcome("failed", 3, f"{message.rstrip()}\n{hint}")


def start_error(task: str, message: str, logs: str) -> Outcome:
    """A replica whose command could not be started; there is no log of it.

    The form is from https://github.com/GoogleCloudPlatform/vertex-ai-samples/issues/1898.
    """
    why = message.removeprefix("failed to create task for container: ")
    return Outcome(
        "failed",
        3,
        f"The replica {task} exited with a non-zero status of {_START_ERROR}. Termination reason: "
        f"StartError. \n Termination log message: failed to create containerd task: {why}\n"
        f"To find out more about why your job exited please check the logs: {logs}",
    )


def not_started(task: str, problem: RsctlError | OSError) -> Outcome:
    """A replica that could not be started at all."""
    why = problem.summary if isinstance(problem, RsctlError) else problem
    return Outcome("failed", 13, f"The replica {task} could not be started: {why}")


def stocked_out(region: str) -> Outcome:
    """No machines were available."""
    message = f"Resources are insufficient in region: {region}."
    return Outcome(
        "stockout", 8, f"{message} Try a different region or use a different accelerator."
    )


def timed_out(timeout: str) -> Outcome:
    """The job ran longer than it may."""
    return Outcome("timeout", 4, f"The job exceeded its timeout of {timeout}.")


def logs_url(number: str, job_id: str) -> str:
    """Where the console shows a job's log; `number` is the project's."""
    wanted = quote(f'resource.type="ml_job"\nresource.labels.job_id="{job_id}"', safe="")
    console = "https://console.cloud.google.com/logs/viewer"
    return f"{console}?project={number}&resource=ml_job%2Fjob_id%2F{job_id}&advancedFilter={wanted}"


def _shortened(tail: list[str]) -> str:
    """From the last traceback on, cut in its middle."""
    starts = [n for n, line in enumerate(tail) if line.startswith("Traceback (most recent")]
    text = "\n".join(tail[starts[-1] :] if starts else tail)
    if len(text) > _MOST_TAIL:
        text = f"{text[: _MOST_TAIL // 2]}\n[...]\n{text[-_MOST_TAIL // 2 :]}"
    return f"\n{text}" if text else ""
