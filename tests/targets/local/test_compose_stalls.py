"""A node of containers that loses its network, on a real Docker engine."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

from rsctl.targets.local.composefile import container_name
from tests.kit.docker import BASE, needs_docker
from tests.kit.polling import wait_until

from ..conftest import Rsctl

SCRIPT = Path(__file__).parents[2] / "kit" / "scripts" / "faults.py"

pytestmark = needs_docker


def docker(*arguments: str) -> str:
    return subprocess.run(["docker", *arguments], check=True, capture_output=True, text=True).stdout


def test_the_node_that_has_lost_its_network_is_named(rsctl: Rsctl) -> None:
    (rsctl.folder / "source").mkdir()
    shutil.copy(SCRIPT, rsctl.folder / "source" / "train.py")
    job = rsctl.write_job(
        run={"script": "train.py", "args": ["none"]},
        workers={"count": 3},
        limits={"stall": "5s"},
        image={"base": BASE},
    )
    run = rsctl.detach(job, "-t", "compose")
    rsctl.wait_for_log(run, "step 5")
    container = container_name(run, "worker-2")
    networks = "{{range $name, $_ := .NetworkSettings.Networks}}{{$name}} {{end}}"
    for network in docker("inspect", "-f", networks, container).split():
        docker("network", "disconnect", "-f", network, container)

    def stalls() -> list[tuple[str | None, str]]:
        rows = (rsctl.home / "runs" / run / "states.log").read_text().splitlines()
        events = [json.loads(row) for row in rows]
        found = [e for e in events if e["type"] == "finding" and e["finding"]["code"] == "stall"]
        return [(e["replica"], e["finding"]["message"]) for e in found if e["replica"]]

    [(replica, message)] = wait_until(stalls, "the stall")
    assert replica == "worker-2"
    assert message == (
        "the job has made no progress for 5 s: worker-2 (rank 2) has lost its network: it reaches "
        "no other node, and no other node reaches it; ranks 0-2 wait"
    )
    asked = json.loads(rsctl("debug", run, "-o", "json").stdout)
    assert (asked["verdict"]["guilty"], asked["silent"]) == ([2], [])
    outputs = rsctl.home / "runs" / run / "outputs" / "rsctl-evidence"
    assert "established" in (outputs / "worker-2" / "sockets.txt").read_text()
    assert "in main" in (outputs / "worker-0" / "rank-0.stacks.txt").read_text()
    assert rsctl("cancel", run).exit_code == 0
