"""Copies of inputs on the disks of nodes, which outlive their jobs and have other users."""

from __future__ import annotations

import os

from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl

pytestmark = needs_slurm()

SHOW = """
cat $RSCTL_INPUT_ONE $(cat $RSCTL_INPUT_TWO_SHARDS)
echo; stat -c %a $(dirname $(dirname $RSCTL_INPUT_ONE))
"""


def test_nodes_on_one_machine_have_copies_that_end_with_them(
    cluster: SlurmCluster, rsctl: Rsctl
) -> None:
    """The nodes of this cluster are in one container."""
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    data = cluster.shared / "data"
    data.mkdir()
    for name in ("one", "two-0", "two-1"):
        (data / name).write_text(f"<{name}>")
    inputs = {"one": "one", "two": "two-{0..1}"}
    job = rsctl.write_job(
        bash=SHOW,
        target="slurm",
        limits={"timeout": "10m"},
        workers={"count": 2},
        inputs={n: {"uri": str(data / uri), "mode": "copy"} for n, uri in inputs.items()},
        targets={"slurm": {"shared": str(cluster.shared), "setup": cluster.setup}},
    )
    done = rsctl("submit", job)
    assert done.exit_code == 0, done.stderr
    lines = set(done.stdout.splitlines())
    assert {f"worker-{index} | <one><two-{index}>" for index in range(2)} <= lines
    assert {f"worker-{index} | 700" for index in range(2)} <= lines
    assert "rsctl-t-" not in cluster.run("ls", "/var/tmp")
