"""A bench on a cluster with bad nodes, on real daemons."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator

import pytest

from tests.kit.polling import DEADLINE_SECONDS, wait_until
from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl

pytestmark = needs_slurm()

BASH = """
[ "$SLURMD_NODENAME" != n2 ] || { touch MARK; sleep 600; }
until [ -e MARK ]; do sleep 0.1; done  # or no run comes to n2
for step in 1 2 3; do echo step=$step speed=$((100 + CELL)); done
"""


@pytest.fixture
def drained(cluster: SlurmCluster) -> Iterator[str]:
    """A node that gets no jobs."""
    cluster.run("scontrol", "update", "nodename=n3", "state=drain", "reason=test")
    yield "n3"
    cluster.run("scontrol", "update", "nodename=n3", "state=resume")


def test_six_cells_with_bad_nodes(rsctl: Rsctl, cluster: SlurmCluster, drained: str) -> None:
    """One node is drained and another dies with a run: that run has no data, and runs again
    without the node; all cells have their sample.
    """
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    mark = cluster.shared / "a-run-is-on-n2"
    bash = BASH.replace("MARK", str(mark))
    file = rsctl.write_job(
        name="cells",
        run={"command": ["bash", "-c", bash], "launcher": "once", "env": {"CELL": 0}},
        target="slurm",
        limits={"timeout": "10m"},
        checkpoints=str(cluster.shared / "kept"),
        metrics={"speed": {"regex": r"step=(?P<step>\d+) speed=(?P<value>\d+)", "goal": "max"}},
        matrix={"run.env.CELL": [1, 2, 3, 4, 5, 6]},
        targets={
            "slurm": {
                "shared": str(cluster.shared),
                "setup": cluster.setup,
                "partition": "gpu",
                "requeue": "yes",
            }
        },
    )
    bench = rsctl.start("bench", "run", file, "--parallel", "3", "-o", "json")
    wait_until(lambda: _on_n2(cluster) and mark.exists(), "a run on n2")
    lost = _on_n2(cluster)
    assert "Requeue=0" in cluster.run("scontrol", "show", "job", "-o", lost[0])
    cluster.control("stop-node", "n2")
    try:
        cluster.run("scontrol", "update", "nodename=n2", "state=down", "reason=test")
        output, errors = bench.communicate(timeout=DEADLINE_SECONDS)
    finally:
        cluster.control("start-node", "n2")
        idle = "sinfo", "-h", "-N", "-t", "idle", "-o", "%N"
        wait_until(lambda: "n2" in cluster.run(*idle), "the node's return")
    assert bench.returncode == 0, errors + output
    events = [json.loads(line) for line in output.splitlines()]
    values = [cell["metrics"]["speed"]["values"] for cell in events[-1]["cells"]]
    assert values == [[100.0 + number] for number in range(1, 7)]
    [note] = [event["message"] for event in events if event.get("code") == "lost-run"]
    assert note == f"{lost[1]} has no data (a node failed: n2): it runs again without node n2"
    jobs = sorted(int(job.split()[0]) for job in cluster.jobs() if " cells-" in job)
    assert len(jobs) == 7
    shown = [cluster.run("scontrol", "show", "job", "-o", str(job)) for job in jobs]
    avoid_n2 = ["ExcNodeList=n2 " in each for each in shown]
    assert avoid_n2 == sorted(avoid_n2), "once the node has failed, no further job gets it"
    assert avoid_n2[-1]


def test_a_packed_bench(rsctl: Rsctl, cluster: SlurmCluster, drained: str) -> None:
    """All runs of six cells, twice, in one allocation, which does not get the drained node."""
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    bash = "echo node=$SLURMD_NODENAME; for s in 1 2 3; do echo step=$s speed=$((100 + CELL)); done"
    file = rsctl.write_job(
        name="packed",
        run={"command": ["bash", "-c", bash], "launcher": "once", "env": {"CELL": 0}},
        target="slurm",
        workers={"count": 2},
        limits={"timeout": "2m"},
        metrics={"speed": {"regex": r"step=(?P<step>\d+) speed=(?P<value>\d+)", "goal": "max"}},
        matrix={"run.env.CELL": [1, 2, 3, 4, 5, 6]},
        bench={"pack": True},
        targets={"slurm": {"shared": str(cluster.shared), "setup": cluster.setup}},
    )
    done = rsctl("bench", "run", file, "--repeat", "2", "-o", "json")
    assert done.exit_code == 0, done.stderr + done.stdout
    values = [cell["metrics"]["speed"]["values"] for cell in done.result["cells"]]
    assert values == [[100.0 + number] * 2 for number in range(1, 7)]
    [job] = [job for job in cluster.jobs() if " packed-" in job]
    assert "COMPLETED" in job
    nodes = {e["text"] for e in done.events if e["type"] == "log" and "node=" in e["text"]}
    assert len(nodes) == 2
    assert f"node={drained}" not in nodes


def _on_n2(cluster: SlurmCluster) -> list[str]:
    rows = cluster.run("squeue", "-h", "-t", "R", "-o", "%A %j %N").splitlines()
    return next((row.split()[:2] for row in rows if row.endswith(" n2")), [])
