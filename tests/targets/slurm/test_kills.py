"""The processes of a connection are killed at random: one job a run, and each line once."""

from __future__ import annotations

import os
import random
import time
from collections.abc import Callable
from typing import Any

import pytest

from tests.kit.slurm_cluster import SlurmCluster, needs_slurm
from tests.targets.conftest import Rsctl
from tests.targets.slurm.test_connections import connection, job_keys

__all__ = ["connection", "job_keys"]

pytestmark = needs_slurm()

LINES = 60
SCRIPT = f"for i in $(seq {LINES}); do echo line $i; sleep 0.1; done"


@pytest.mark.parametrize("connection", ["ssh", "http"], indirect=True)
def test_kills(
    rsctl: Rsctl, cluster: SlurmCluster, job_keys: Callable[..., dict[str, Any]]
) -> None:
    """rsctl as it submits and as it follows, ssh and slurmrestd."""
    rsctl.env |= {**os.environ, "RSCTL_HOME": str(rsctl.home)}
    seed = random.randrange(1 << 32)
    chance = random.Random(seed)
    file = rsctl.write_job(bash=SCRIPT, workers={"count": 2}, **job_keys())

    submitting = rsctl.start("submit", "--detach", file)
    time.sleep(chance.uniform(0.2, 4.0))
    submitting.kill()
    submitting.communicate()
    runs = rsctl.runs()
    if not runs:  # it was killed before it had recorded the run
        runs = [{"run": rsctl.detach(file)}]
    [run] = [each["run"] for each in runs]

    for action in ("end-ssh", "restart-rest"):
        following = rsctl.start("logs", "--follow", run)
        time.sleep(chance.uniform(0.1, 2.0))
        cluster.control(action)
        time.sleep(chance.uniform(0.0, 1.0))
        following.kill()
        following.communicate()

    done = rsctl("logs", "--follow", run)
    jobs = [job for job in cluster.jobs() if job.endswith(f" {run}")]
    if not jobs:  # it was killed before it had sent the job, which is recorded
        assert rsctl.status(run)["state"] == "failed", seed
        return
    assert len(jobs) == 1, (seed, jobs)
    for worker in ("worker-0", "worker-1"):
        texts = [line for line in done.stdout.splitlines() if line.startswith(f"{worker} |")]
        wanted = [f"{worker} | line {number}" for number in range(1, LINES + 1)]
        assert texts == wanted, (seed, done.stderr)
    assert rsctl.status(run)["state"] == "succeeded", seed
