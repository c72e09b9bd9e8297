"""Types of the job spec: the checks of nodes before the ranks start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import msgspec
from msgspec import Meta

from rsctl.findings import Finding, error, note

if TYPE_CHECKING:
    from rsctl.job.job import Job


class NodeChecks(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Checks of each worker's node before its ranks start, of 20 seconds at most. A node that fails
    one is named and ends the run."""

    network: Annotated[
        bool,
        Meta(description="Measure the bandwidth between neighbouring nodes."),
    ] = False
    gpu: Annotated[
        bool,
        Meta(
            description="Read errors of memory, error numbers (Xid) and throttling of NVIDIA GPUs, "
            "and measure a matrix product and memory copies on each if the image has PyTorch."
        ),
    ] = False
    cpu: Annotated[
        bool,
        Meta(
            description="Measure a matrix product on the processors and memory copies, and read "
            "the free disk space."
        ),
    ] = False

    @property
    def chosen(self) -> list[str]:
        """The names of the checks that are on."""
        return [name for name in ("network", "gpu", "cpu") if getattr(self, name)]


def check_node_checks(job: Job) -> Iterator[Finding]:
    """Findings on checks that nothing would run, or that have nothing to measure."""
    chosen = job.checks.chosen
    if chosen and not job.run.is_launched:
        what = "a package" if job.run.package is not None else "launcher none"
        message = f"rsctl-launch runs this check, and {what} does not use rsctl-launch"
        remedy = "remove it, or use launcher torchrun, mpi or once"
        for name in chosen:
            yield error("unsupported", message, remedy, f"checks.{name}")
    elif "network" in chosen and job.workers.count == 1 and "workers.count" not in job.matrix:
        message = "the job has one worker, which has no neighbours"
        yield note("unused", message, "remove it, or set workers.count", "checks.network")
