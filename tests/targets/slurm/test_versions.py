"""The oldest version of Slurm that rsctl supports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.kit.slurm_cluster import needs_slurm, slurm_cluster
from tests.targets.conftest import Rsctl


@needs_slurm("22.05")
def test_a_job_on_slurm_22_05(
    rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Two workers, and a reducer on each of their nodes; then doctor."""
    with slurm_cluster("22.05") as cluster:
        for name, value in cluster.environ.items():
            monkeypatch.setenv(name, value)
        rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
        options = {"shared": str(cluster.shared), "setup": cluster.setup}
        file = rsctl.write_job(
            bash='echo "hello $RSCTL_REPLICA $MASTER_PORT $RSCTL_REDUCERS"',
            target="slurm",
            workers={"count": 2},
            reducers={"count": 2},
            limits={"timeout": "10m"},
            targets={"slurm": {**options, "reducer_placement": "colocated"}},
        )
        done = rsctl("submit", file, "-o", "json")
        assert done.exit_code == 0, done.stdout
        hello = sorted(e["text"].split() for e in done.events if "hello" in e.get("text", ""))
        assert [words[1] for words in hello] == ["worker-0", "worker-1"]
        ports = {hello[0][2], *(each.partition(":")[2] for each in hello[0][3].split(","))}
        assert len(ports) == 3
        assert "connection: Slurm 22.05.8 by local" in rsctl.look("doctor", file).stdout
