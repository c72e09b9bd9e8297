"""The template of asynchronous training: its servers hold parts of the model, in containers too."""

from __future__ import annotations

from typing import Any

from tests.kit.docker import BASE, needs_docker

from ..conftest import Done, Rsctl

SMALL = (*("--set", "run.args.epochs=1", "--set", "run.args.batch-size=500"),)


def logged(done: Done, replica: str) -> str:
    """What a replica printed."""
    events: list[dict[str, Any]] = [event for event in done.events if event["type"] == "log"]
    return "\n".join(event["text"] for event in events if event["replica"] == replica)


@needs_docker
def test_each_server_has_its_part(rsctl: Rsctl) -> None:
    assert rsctl("init", "parameter-server", "mine").exit_code == 0
    counts = ("--set", "workers.count=1", "--set", "roles.ps.count=2")
    options = ("-t", "compose", "-o", "json", *counts, *SMALL)
    done = rsctl("submit", "mine/job.yaml", *options, RSCTL_BASE=BASE)
    assert done.exit_code == 0, done.stderr
    # A rank with 20,000 samples; each server gets a part of every gradient.
    for server in ("ps-0", "ps-1"):
        assert '"step": 40' in logged(done, server)
    assert done.result["metrics"]["loss"]["count"] == 1
    replicas = rsctl.status("@last")["replicas"]
    assert [(r["replica"], r["state"]) for r in replicas] == [
        (name, "succeeded") for name in ("worker-0", "ps-0", "ps-1")
    ]


def test_a_killed_server_is_the_jobs_first_failure(
    rsctl: Rsctl, torch_forks: dict[str, str]
) -> None:
    rsctl.env.update(torch_forks)
    assert rsctl("init", "parameter-server", "mine").exit_code == 0
    server = rsctl.folder / "mine" / "server.py"
    text = server.read_text()
    dies = "        os._exit(9) if updates == 3 else None\n        part.grad ="
    server.write_text(text.replace("        part.grad =", dies))
    done = rsctl("submit", "mine/job.yaml", "-o", "json", "--set", "workers.count=1", *SMALL)
    assert done.exit_code == 1
    first = done.result["first_failure"]
    assert (first["replica"], first["exit_code"]) == ("ps-0", 9)
