"""Checks of nodes that are processes, from the job file to the end of the run."""

from __future__ import annotations

from pathlib import Path

from tests.kit.disks import small_disk as small_disk

from ..conftest import Rsctl


def test_readings_are_kept_with_the_run(rsctl: Rsctl) -> None:
    job = rsctl.write_job(
        bash="echo started", workers={"count": 2}, checks={"network": True, "cpu": True}
    )
    run = rsctl("submit", job, "-o", "json").result
    assert run["state"] == "succeeded"
    done = rsctl("metrics", run["run"], "--name", "node.check.matmul_gflops", "-o", "json")
    assert {line.split('"replica":"')[1][:8] for line in done.stdout.splitlines()} == {
        "worker-0",
        "worker-1",
    }


def test_a_full_disk_ends_the_run_before_its_script(rsctl: Rsctl, small_disk: Path) -> None:
    job = rsctl.write_job(bash="echo started", outputs=str(small_disk), checks={"cpu": True})
    done = rsctl("submit", job)
    assert done.exit_code == 1
    assert "cause: worker-0 on " in done.stderr
    assert "the disk for outputs has space for" in done.stderr
    assert "-> Free space there, or set checks.cpu: false." in done.stderr
    assert "started" not in done.stdout
