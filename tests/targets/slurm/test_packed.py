"""A packed bench on a cluster of real daemons: all slots in one allocation."""

from __future__ import annotations

import json
import os
from typing import Any

import pytest

from tests.kit.polling import DEADLINE_SECONDS
from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl

pytestmark = needs_slurm()

BASH = "echo $SLURMD_NODENAME slot=$RSCTL_SLOT speed=$((100 + CELL)); [ $RSCTL_SLOT != 1 ]"


@pytest.mark.timeout(200)
def test_slots_of_two_nodes_are_one_job(rsctl: Rsctl, cluster: SlurmCluster) -> None:
    """Both cells run twice on the same two nodes; the slot that fails ends alone."""
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    options: dict[str, Any] = {"shared": str(cluster.shared), "setup": cluster.setup}
    file = rsctl.write_job(
        name="slots",
        run={"command": ["bash", "-c", BASH], "launcher": "once", "env": {"CELL": 0}},
        workers={"count": 2},
        target="slurm",
        limits={"timeout": "1m"},
        metrics={"speed": {"regex": r"speed=(?P<value>\d+)", "goal": "max"}},
        matrix={"run.env.CELL": [1, 2]},
        bench={"pack": True},
        targets={"slurm": {**options, "partition": "gpu"}},
    )
    bench = rsctl.start("bench", "run", file, "--repeat", "2", "-o", "json")
    output, errors = bench.communicate(timeout=DEADLINE_SECONDS)
    events = [json.loads(line) for line in output.splitlines()]
    assert bench.returncode == 1, errors + output
    counts = [cell["metrics"]["speed"]["values"] for cell in events[-1]["cells"]]
    assert sorted(value for values in counts for value in values if value) == [101, 101, 102]
    assert len([job for job in cluster.jobs() if " slots-" in job]) == 1
