"""The quickstart on four nodes of real daemons: two workers train by two reducers."""

from __future__ import annotations

import os
import shutil

from tests.kit.slurm_cluster import ROOT, SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl


@needs_slurm()
def test_quickstart(rsctl: Rsctl, cluster: SlurmCluster) -> None:
    """It runs from its own file; only the target's options are given."""
    shutil.copytree(ROOT / "examples" / "quickstart", rsctl.folder, dirs_exist_ok=True)
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    settings = [
        *("reducers.count=2", "run.args.epochs=1", "limits.timeout=10m"),
        *(f"targets.slurm.shared={cluster.shared}", f"targets.slurm.setup={cluster.setup}"),
    ]
    options = [word for setting in settings for word in ("--set", setting)]
    done = rsctl("submit", "job.yaml", "--target", "slurm", *options, "-o", "json")
    assert done.exit_code == 0, done.stderr + done.stdout
    texts = [event["text"] for event in done.events if event["type"] == "log"]
    assert any("2 workers, 2 reducers sum all of it" in text for text in texts)
    status = rsctl.status(done.result["run"])
    nodes = status["facts"]["replica_nodes"]
    assert sorted(nodes) == ["reducer-0", "reducer-1", "worker-0", "worker-1"]
    assert len(set(nodes.values())) == 4
    shown = next(line for line in rsctl("status", "@last").stdout.splitlines() if "on n0" in line)
    assert sorted(shown.split("replica nodes")[1].strip().split(", ")) == [
        f"{replica} on {node}" for replica, node in sorted(nodes.items())
    ]
