"""What a submission to a real Slurm costs, up to the accepted job, beside `sbatch` itself.

The cluster is that of the tests: four nodes in a container. Commands of Slurm on this machine are
`docker exec` in it, so a row of `sbatch` shows what of connection `local` is theirs.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from pathlib import Path

from benchmarks.measure import Command, measure_in_turn, rsctl
from benchmarks.report import Report
from tests.kit.slurm_cluster import SlurmCluster, slurm_cluster

RUNS = 7


def run(runs: int) -> Report:
    """CPU and wall seconds of `rsctl submit --detach` by each connection, and of `sbatch`."""
    report = Report("slurm", f"rsctl submit --detach to a real Slurm, median of {runs} runs")
    with (
        slurm_cluster() as cluster,
        cluster.rest() as url,
        tempfile.TemporaryDirectory() as sockets,
        tempfile.TemporaryDirectory() as keys,
    ):
        host = cluster.allow_ssh(Path(keys))
        os.environ |= {
            **cluster.environ,
            "XDG_RUNTIME_DIR": sockets,
            "SLURM_JWT": cluster.token(),
        }
        connections = {"local": "local", "ssh": f"ssh://{host}", "slurmrestd": url}
        commands = {
            name: _submit(cluster, name, connection) for name, connection in connections.items()
        }
        commands["sbatch"] = Command(["sbatch", "--nodes=1", "--time=1", "--wrap=true"])
        # OpenSSH's connection stays open for later commands, and the meter waits for what a
        # command leaves running.
        subprocess.run(commands["ssh"].argv, check=True, stdout=subprocess.DEVNULL)
        used = measure_in_turn(commands, runs)
        _end_connections(Path(sockets))
    for name, usages in used.items():
        budget = None if name == "sbatch" else "0.9"
        report.add(name, "CPU s", [usage.cpu + usage.left_cpu for usage in usages], budget)
        report.add(name, "wall s", [usage.wall for usage in usages])
    return report


def _submit(cluster: SlurmCluster, name: str, connection: str) -> Command:
    path = Path(os.environ["RSCTL_HOME"]) / name / "job.json"
    path.parent.mkdir()
    slurm = {"shared": str(cluster.shared), "connection": connection, "setup": cluster.setup}
    job = {
        "name": "true",
        "run": {"command": ["true"], "launcher": "once"},
        "limits": {"timeout": "1m"},
        "targets": {"slurm": slurm},
    }
    path.write_text(json.dumps(job))
    return rsctl("submit", "--detach", "--quiet", str(path), "--target", "slurm")


def _end_connections(folder: Path) -> None:
    """End the connections that OpenSSH keeps open for the next command."""
    for path in folder.rglob("*"):
        if path.is_socket():
            subprocess.run(["ssh", "-O", "exit", "-S", str(path), "any"], capture_output=True)
