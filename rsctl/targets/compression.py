"""Gradients of 8 bits in a plan: they need rsctl's reducers, and they change the results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rsctl.findings import Finding, error, note
from rsctl.job.job import Job
from rsctl.targets.base import Pool, count_of_role

KEY = "comm.compression"


def compression_findings(job: Job, pools: Sequence[Pool], transport: str) -> Iterator[Finding]:
    """Findings on gradients of 8 bits. `transport` is the planned image's."""
    kind = job.comm.compression
    if not job.comm.has_8_bits:
        return
    remedy = "set reducers.count, or comm.compression: bf16, which needs no reducers"
    if not count_of_role(pools, "reducer"):
        yield error("comm", f"compression {kind} needs reducers, and there are none", remedy, KEY)
        return
    if transport == "reduction-server":
        message = f"Google's Reduction Server cannot add gradients of {kind}"
        yield error("comm", message, "set image.transport: rsctl, or another compression", KEY)
        return
    yield note(
        "lossy",
        f"{kind} changes the results: 256 gradients travel as 8-bit numbers with one scale; a "
        "worker's rounding errors are added in its next step, and reducers round up or "
        "down without a mean error. Expect a loss near uncompressed training, not the same numbers",
        "compare the loss with compression none, and hold it with a gate",
        KEY,
    )
