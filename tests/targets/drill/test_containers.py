"""`rsctl drill` on containers."""

from __future__ import annotations

from typing import Any

from tests.kit.docker import BASE, needs_docker
from tests.targets.conftest import Rsctl, rehearsed
from tests.targets.drill.drills import HELD, drill, write_held_job, write_job


@needs_docker
def test_a_reducer_in_a_container(rsctl: Rsctl) -> None:
    fallback: dict[str, Any] = {"reducers": {"count": 1}, "comm": {"on_reducer_loss": "fallback"}}
    image = {"base": BASE, "transport": "rsctl"}
    job = write_job(rsctl, image=image, checkpoints="gs://bucket/c", steps=40, **fallback)
    options = ("--at-step", "10", "--faults", "killed-reducer")
    done, found = drill(rsctl, job, *rehearsed("vertex", "docker"), *options)
    killed = found["killed-reducer"]
    assert (done.exit_code, killed["course"]) == (0, "continued"), killed
    assert killed["strike"] == "SIGKILL to the program of reducer-0"


@needs_docker
def test_containers(rsctl: Rsctl) -> None:
    runs = {"runs": str(rsctl.home / "runs")}
    more: dict[str, Any] = {"image": {"base": BASE}, "workers": {"count": 1}}
    job = write_held_job(rsctl, runs="/rsctl/inputs/runs", inputs=runs, **more)
    faults = "preemption,killed-worker,full-disk"
    done, found = drill(rsctl, job, "-t", "compose", *HELD, "--faults", faults)
    assert done.exit_code == 0, found
    for result in found.values():
        assert (result["verdict"], result["course"]) == ("survived", "resumed"), result


@needs_docker
def test_nodes_that_leave_without_an_end(rsctl: Rsctl) -> None:
    job = write_job(rsctl, steps=40, image={"base": BASE})
    # An early strike: the job still runs when a busy machine's engine has struck it.
    options = ("-t", "compose", "--at-step", "6", "--patience", "5s")
    done, found = drill(rsctl, job, *options, "--faults", "dropped-node,stopped-node")
    stopped, dropped = found["stopped-node"], found["dropped-node"]
    assert (done.exit_code, stopped["verdict"]) == (1, "not-survived"), stopped
    assert stopped["strike"] == "docker pause of worker-1"
    assert dropped["strike"] == "docker network disconnect of worker-1", dropped
    assert dropped["reasons"] == ["the job succeeded without the node"]
