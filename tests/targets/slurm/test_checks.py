"""Checks of nodes on real daemons, one of which has a broken GPU by a stand-in for the driver."""

from __future__ import annotations

import json
import os
import subprocess

from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl

pytestmark = needs_slurm()

DRIVER = """
#include <stdlib.h>
#include <string.h>
static int device;
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 1; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **out) { *out = &device; return 0; }
int nvmlDeviceGetTotalEccErrors(void *gpu, int kind, int counter, unsigned long long *count) {
    const char *node = getenv("SLURMD_NODENAME");
    *count = node && strcmp(node, "n2") == 0 ? 5 : 0; return 0;
}
"""


def test_a_broken_node_is_named(rsctl: Rsctl, cluster: SlurmCluster) -> None:
    library = cluster.shared / "driver" / "libnvidia-ml.so.1"
    library.parent.mkdir()
    (library.parent / "nvml.c").write_text(DRIVER)
    source = str(library.parent / "nvml.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), source], check=True)
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    file = rsctl.write_job(
        name="checked",
        run={
            "command": ["bash", "-c", "echo on $SLURMD_NODENAME speed=1"],
            "launcher": "once",
            "env": {"LD_LIBRARY_PATH": str(library.parent)},
        },
        workers={"count": 2},
        target="slurm",
        limits={"timeout": "10m"},
        checks={"gpu": True, "cpu": True},
        metrics={"speed": {"regex": "speed=([0-9]+)"}},
        targets={
            "slurm": {
                "shared": str(cluster.shared),
                "setup": cluster.setup,
                "partition": "gpu",
                "exclude": "n0,n3",
            }
        },
    )
    done = rsctl("submit", file, "-o", "json")
    assert done.exit_code == 1, done.stderr
    events = [json.loads(line) for line in done.stdout.splitlines()]
    found = next((e for e in events if e.get("code") == "node-unhealthy"), None)
    assert found is not None, done.stdout
    assert "on n2: GPU 0 has 5 uncorrected memory errors" in found["message"]
    assert not any("speed=1" in event.get("text", "") for event in events)
    status = rsctl.status(events[-1]["run"])
    assert status["facts"]["failed_node"] == "n2"
    [failed] = [event for event in events if event.get("code") == "node-failed"]
    assert failed["remedy"] == "submit it again with targets.slurm.exclude: n2"
