"""Checks of `limits:` that need more than one key."""

from __future__ import annotations

from collections.abc import Iterator

from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job

_OF_MPIRUN = ("TERM", "USR1", "USR2")


def check_limits(job: Job) -> Iterator[Finding]:
    """Findings about limits that contradict each other, or that the launcher does not apply."""
    yield from _check_times(job)
    yield from _check_restarts(job)
    yield from _check_signal(job)
    yield from _check_keep(job)


def _check_times(job: Job) -> Iterator[Finding]:
    timeout, grace = job.limits.timeout, job.limits.grace
    if timeout and grace and float(grace) >= float(timeout):
        message = f"grace {grace} leaves no time to train: the job ends after {timeout}"
        yield error("limits", message, "set a shorter grace, or a longer timeout", "limits.grace")


def _check_restarts(job: Job) -> Iterator[Finding]:
    limits = job.limits
    if limits.retries and limits.restarts is not None:
        message = f"retries {limits.retries} and restarts {limits.restarts} set the same limit"
        yield error("limits", message, "keep one of the two", "limits.restarts")
    if limits.restarts_in_place and not (job.run.is_launched and job.run.launcher == "torchrun"):
        what = "a package" if job.run.package is not None else f"launcher {job.run.launcher}"
        message = f"only rsctl's torchrun restarts ranks in place, and {what} does not use it"
        remedy = "set run.launcher: torchrun, or use limits.retries"
        yield error("limits", message, remedy, "limits.restarts_in_place")


def _check_signal(job: Job) -> Iterator[Finding]:
    name, path = job.limits.stop_signal, "limits.stop_signal"
    if name != "TERM" and not job.run.is_launched:
        what = "a package" if job.run.package is not None else "launcher none"
        message = f"rsctl-launch sends this signal, and {what} does not use rsctl-launch"
        yield error("limits", message, "remove it, or use launcher torchrun or once", path)
    elif job.run.launcher == "mpi" and name not in _OF_MPIRUN:
        message = f"mpirun does not pass SIG{name} on to the ranks"
        yield error("limits", message, f"use {', '.join(_OF_MPIRUN)}", path)


def _check_keep(job: Job) -> Iterator[Finding]:
    """A restart must not wait for a failed node, and mpirun ends the nodes of a failed job."""
    limits, path = job.limits, "limits.keep"
    if limits.keep is None:
        return
    if not job.run.is_launched:
        what = "a package" if job.run.package is not None else "launcher none"
        message = f"rsctl-launch keeps the node, and {what} does not use rsctl-launch"
        yield error("limits", message, "remove it, or use launcher torchrun or once", path)
    elif limits.most_restarts != 0:
        key = "restarts" if limits.restarts is not None else "retries"
        message = f"limits.{key} restarts a failed job, and a restart would wait for the kept nodes"
        yield error("limits", message, f"remove limits.{key} or limits.keep", path)
    elif job.run.launcher == "mpi" and job.workers.count > 1:
        message = "mpirun ends the other nodes: only the first one, which runs mpirun, is kept"
        yield warning("limits", message, None, path)
