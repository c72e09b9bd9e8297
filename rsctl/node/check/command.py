"""`rsctl-launch --check`: proves at the end of an image's build that a job can run in it."""

from __future__ import annotations

import os

from rsctl.node import process_spec
from rsctl.node.check.finding import Finding
from rsctl.node.check.nccl import find_torch
from rsctl.node.check.proof import import_failure, prove, time_limit
from rsctl.node.check.transports import TRANSPORTS
from rsctl.node.errors import ENVIRONMENT, LaunchError
from rsctl.node.mpi.mpirun import require_mpirun
from rsctl.node.structured_lines import emit

_TORCHRUN = ("torch", "rsctl.node.torchrun")


def main(transport: str, launcher: str) -> int:
    """Print what is wrong as `finding` lines, and what is proven if nothing is; an exit code."""
    try:
        mpi = require_mpirun(os.environ) if launcher == "mpi" else None
        findings = _check_torch(launcher, time_limit(os.environ))
        proof = prove(TRANSPORTS[transport], os.environ)
    except LaunchError as error:
        emit("finding", error.finding())
        return error.exit_code
    findings += proof.findings
    for finding in findings:
        emit("finding", finding._asdict())
    if any(finding.is_error for finding in findings):
        return ENVIRONMENT
    torch = find_torch() if launcher == "torchrun" else None
    launcher_part = f"; torch {torch.version} is imported" if torch else f"; {mpi}" if mpi else ""
    print(f"rsctl: transport {transport}: {proof.proven}{launcher_part}", flush=True)
    return 0


def _check_torch(launcher: str, seconds: float) -> list[Finding]:
    """Whether torch loads: one of another ABI, or without a library it needs, is found by name."""
    if launcher != "torchrun":
        return []
    torch = find_torch()
    if torch is None:
        error = process_spec.torch_missing()
        return [Finding("error", error.code, error.message, error.remedy)]
    failure = import_failure(_TORCHRUN, seconds)
    if failure is None:
        return []
    message = f"torch {torch.version} cannot be imported: {failure}"
    remedy = (
        "In image.python, use versions that are compatible with each other and with the base "
        "image, or use another base image."
    )
    return [Finding("error", "torch-broken", message, remedy)]
