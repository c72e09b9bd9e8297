"""Obstacles to reaching a cluster from this environment; changes nothing and makes no call."""

from __future__ import annotations

import os
import shutil

from rsctl.findings import Finding, error

_PATH = "targets.slurm.connection"


def preflight_findings(connection: str) -> list[Finding]:
    """Errors for a connection that cannot work from here."""
    scheme = connection.partition("://")[0]
    if scheme == "local" and shutil.which("sbatch") is None:
        remedy = "run rsctl on a login node, or set targets.slurm.connection: ssh://LOGIN-NODE"
        return [error("slurm-missing", "this machine has no command sbatch", remedy, _PATH)]
    if scheme == "ssh" and shutil.which("ssh") is None:
        return [error("ssh", "ssh is not installed", "install OpenSSH's client", _PATH)]
    if scheme in ("http", "https") and not os.environ.get("SLURM_JWT"):
        message = "slurmrestd needs a token, and SLURM_JWT is not set"
        remedy = "on a login node: scontrol token lifespan=3600; then export its output here"
        return [error("token", message, remedy, _PATH)]
    if scheme == "vertex":
        from rsctl.clients.endpoints import Endpoints
        from rsctl.clients.google import google_credentials
        from rsctl.findings import RsctlError

        try:
            google_credentials(Endpoints.of_environment())
        except RsctlError as problem:
            return list(problem.findings)
    return []
