"""mpirun's command line and environment, and whether this image has one. Open MPI 4 and 5."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence

import rsctl_start
from rsctl.node import rank
from rsctl.node.cluster import Cluster
from rsctl.node.errors import ENVIRONMENT, USAGE, LaunchError

HOSTFILE = "RSCTL_HOSTFILE"
"""The variable with the path of the file that has the nodes and how many ranks each gets."""

_VERSION_SECONDS = 20.0
_REMEDY = (
    "Add openmpi-bin to image.apt, use an image.base that has Open MPI, or set run.launcher: "
    "torchrun."
)


def require_mpirun(environ: Mapping[str, str]) -> str:
    """The first line of what Open MPI's mpirun says of its version. Raises LaunchError."""
    mpirun = shutil.which("mpirun", path=environ.get("PATH"))
    if mpirun is None:
        message = "the launcher mpi needs Open MPI's mpirun, and PATH has none"
        raise LaunchError(ENVIRONMENT, "mpirun-missing", message, _REMEDY)
    try:
        output = subprocess.run(
            [mpirun, "--version"],
            env=dict(environ),
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_VERSION_SECONDS,
            check=False,
        ).stdout
    except (OSError, subprocess.SubprocessError) as error:
        output = str(error)
    version = output.strip().partition("\n")[0]
    if "Open MPI" not in version and "OpenRTE" not in version:
        message = (
            f"the launcher mpi needs Open MPI's mpirun, but {mpirun} is a different program: "
            f"{version[:200]}"
        )
        raise LaunchError(ENVIRONMENT, "mpirun-unknown", message, _REMEDY)
    return version


def require_token(environ: Mapping[str, str]) -> bytes:
    """The run's token, by which nodes know each other. Raises LaunchError if there is none."""
    if not environ.get("RSCTL_TOKEN"):
        raise LaunchError(
            USAGE,
            "token-missing",
            "RSCTL_TOKEN is not set, which the nodes of a job with launcher mpi need to "
            "authenticate each other",
            "Start the job with `rsctl submit`; if you start containers by hand, set the "
            "same long secret in all of them.",
        )
    return environ["RSCTL_TOKEN"].encode()


def write_hostfile(cluster: Cluster, slots: int) -> str:
    """Write the nodes with so many ranks each to a new file; returns its path.

    The chief is `localhost`, since mpirun would take a name that is a service's for another node.
    """
    lines = [f"{host} slots={slots}\n" for host in ("localhost", *cluster.workers[1:])]
    file, path = tempfile.mkstemp(prefix="rsctl-hostfile-")
    with open(file, "w", encoding="ascii", errors="replace") as hostfile:
        hostfile.writelines(lines)
    return path


def command_line(cluster: Cluster, slots: int, hostfile: str, command: Sequence[str]) -> list[str]:
    """The chief's mpirun, which starts the command by rank.py once for each rank of the job."""
    ranks = ["-np", str(slots * len(cluster.workers)), "--hostfile", hostfile]
    wrapper = [sys.executable, "-I", "-S", os.path.abspath(rank.__file__), "--mpi", "--"]
    return ["mpirun", *ranks, *wrapper, *command]


def with_settings(cluster: Cluster, environ: Mapping[str, str]) -> dict[str, str]:
    """The environment, with what mpirun needs here and the user has not set.

    Open MPI reads OMPI_MCA_*; in version 5, whose launcher is PRRTE, also PRTE_MCA_*. Ranks are in
    the order of the nodes, as torchrun's are, and are not bound to cores.
    """
    agent = " ".join(rsctl_start.command("rsctl.node.mpi.agent"))
    agents = {"OMPI_MCA_plm_rsh_agent": agent, "PRTE_MCA_plm_ssh_agent": agent}
    defaults = {
        # The chief starts all daemons: others do not ask each other.
        "OMPI_MCA_plm_rsh_no_tree_spawn": "1",
        "PRTE_MCA_plm_ssh_no_tree_spawn": "1",
        "OMPI_MCA_orte_keep_fqdn_hostnames": "1",
        "PRTE_MCA_prte_keep_fqdn_hostnames": "1",
        "OMPI_MCA_rmaps_base_mapping_policy": "slot",
        "PRTE_MCA_rmaps_default_mapping_policy": "slot",
        "OMPI_MCA_hwloc_base_binding_policy": "none",
        "PRTE_MCA_hwloc_default_binding_policy": "none",
        # Containers run as root.
        "OMPI_ALLOW_RUN_AS_ROOT": "1",
        "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
        "PRTE_ALLOW_RUN_AS_ROOT": "1",
        "PRTE_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    }
    if cluster.interface is not None and len(cluster.workers) > 1:
        for name in ("OMPI_MCA_oob_tcp_if_include", "OMPI_MCA_btl_tcp_if_include"):
            defaults[name] = cluster.interface
        defaults["PRTE_MCA_prte_if_include"] = cluster.interface
    return {**defaults, **environ, **agents}
