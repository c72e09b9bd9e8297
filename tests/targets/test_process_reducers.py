"""Reducers in a local run. No spec leads to one yet, so the plan is made here."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from rsctl.findings import JobState
from rsctl.runs.store import Run, Store
from rsctl.spec.document import read
from rsctl.stream.events import now
from rsctl.targets.base import Pool
from rsctl.targets.local.process import ProcessTarget

from .conftest import Rsctl

Submit = Callable[[str, list[str]], str]


@pytest.fixture
def submit(rsctl: Rsctl, monkeypatch: pytest.MonkeyPatch) -> Submit:
    """Submits a job whose worker runs a bash script and whose one reducer runs a command."""
    monkeypatch.setenv("RSCTL_HOME", str(rsctl.home))

    def submit_with(worker: str, reducer: list[str]) -> str:
        path = rsctl.write_job(bash=worker)
        job = read(os.path.join(rsctl.folder, path)).require_job()
        target = ProcessTarget()
        plan = target.render(job, "t-reduce")
        (command,) = plan.request["commands"]
        env = {**command["env"], "RSCTL_ROLE": "reducer", "RSCTL_REPLICA": "reducer-0"}
        plan.request["commands"].append(
            {**command, "replica": "reducer-0", "role": "reducer", "argv": reducer, "env": env}
        )
        plan.pools.append(Pool(role="reducer", count=1))
        run = Run(
            run=plan.run,
            name=job.name,
            target="process",
            url=f"process://{plan.run}",
            state=JobState.QUEUED,
            created=now(),
        )
        target.submit(plan, job, lambda: Store().add(run), print)
        return plan.run

    return submit_with


def test_reducers_are_ended_when_the_workers_have_ended(rsctl: Rsctl, submit: Submit) -> None:
    run = submit("echo trained", ["sleep", "600"])
    assert rsctl("status", run, "--watch").exit_code == 0
    replicas = rsctl.status(run)["replicas"]
    assert [(r["replica"], r["state"], r["reason"]) for r in replicas] == [
        ("worker-0", "succeeded", None),
        ("reducer-0", "cancelled", "stopped after the workers had ended"),
    ]
    assert rsctl.processes(run) == []


def test_a_reducer_that_fails_ends_the_job(rsctl: Rsctl, submit: Submit) -> None:
    run = submit("sleep 600", ["bash", "-c", "echo no memory; exit 9"])
    assert rsctl("status", run, "--watch").exit_code == 1
    after = rsctl.status(run)
    failure = after["first_failure"]
    assert (failure["replica"], failure["exit_code"]) == ("reducer-0", 9)
    assert failure["lines"] == ["no memory"]
    assert after["replicas"][0]["reason"] == "stopped after reducer-0 had failed"
