"""The limits of `comm.on_reducer_loss: fallback` on a cloud. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, note
from rsctl.job.job import Job


def reducer_loss_findings(job: Job, service: str) -> Iterator[Finding]:
    """Say when the service ends a job whose workers could continue without reducers.

    A service reacts to a container that fails and to a machine that it loses as it does for a
    worker's. rsctl-launch can only keep the container when the reducer's program ends in it.
    """
    if job.comm.on_reducer_loss != "fallback":
        return
    message = (
        "the workers continue when the program of a reducer ends or does not answer; if the "
        f"container of a reducer fails or its machine is lost, {service} ends or restarts the job"
    )
    missing = [
        name
        for name, is_set in (
            ("checkpoints", job.checkpoints is not None),
            ("limits.retries", job.limits.most_restarts != 0),
        )
        if not is_set
    ]
    remedy = f"set {' and '.join(missing)}" if missing else None
    yield note("comm", message, remedy, "comm.on_reducer_loss")
