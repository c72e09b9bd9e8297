"""`rsctl profile`: the stacks of a running job, from outside."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

from rsctl.api.profiling import SampledRank
from rsctl.cli import profile
from rsctl.findings import error
from tests.cli.conftest import Cli
from tests.kit.docker import BASE, needs_docker
from tests.kit.polling import wait_until
from tests.results.report.conftest import Make

TRAIN = """
import time

def busy_step():
    total = 0
    for number in range(100000):
        total += number
    time.sleep(0.02)  # the machine has other work
    return total

print("started", flush=True)
while True:
    busy_step()
"""
JOB = """
name: busy
run: {command: [python3, train.py], launcher: once}
workers: {count: 2}
image: {source: src}
"""


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_running_job_is_profiled(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "train.py").write_text(TRAIN)
    assert rsctl("submit", rsctl.write(JOB), "--detach", "-q").code == 0
    wait_until(lambda: rsctl("logs", "@last").out.count("started") == 2)
    done = rsctl("profile", "@last", "--seconds", "1", "--rank", "1", "-o", "json")
    assert (done.code, done.err) == (0, "")
    (profile,) = done.json["profiles"]
    assert (profile["rank"], profile["replica"]) == (1, "worker-1")
    assert profile["communication"] == 0
    assert "busy_step" in profile["top"][0][0]
    assert "busy_step" in Path(profile["file"]).read_text()
    done = rsctl("profile", "@last", "--seconds", "1", "--replica", "worker-0", "-o", "json")
    assert [profile["rank"] for profile in done.json["profiles"]] == [0]
    done = rsctl("profile", "@last", "--replica", "worker-0", "--rank", "1")
    assert done.code == 2
    assert "has no running rank 1 on worker-0" in done.err
    done = rsctl("profile", "@last", "--replica", "worker-9")
    assert done.code == 2
    assert "its replicas are worker-0, worker-1" in done.err
    done = rsctl("profile", "@last", "--rank", "7")
    assert done.code == 2
    assert "has no running rank 7" in done.err
    assert "its running ranks: 0, 1" in done.err


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_the_ranks_of_torchrun_are_profiled(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "train.py").write_text(TRAIN)
    job = JOB.replace("command: [python3, train.py], launcher: once", "script: train.py")
    job = job.replace("{count: 2}", "{count: 1, processes: 2}")
    assert rsctl("submit", rsctl.write(job), "--detach", "-q").code == 0
    wait_until(lambda: rsctl("logs", "@last").out.count("started") == 2)
    done = rsctl("profile", "@last", "--seconds", "1", "-o", "json")
    assert (done.code, done.err) == (0, "")
    assert ["busy_step" in profile["top"][0][0] for profile in done.json["profiles"]] == [True] * 2


@pytest.mark.usefixtures("runs_end_with_the_test")
def test_a_rank_that_sleeps_has_no_samples(rsctl: Cli) -> None:
    sleep = "import time\nprint('started', flush=True)\ntime.sleep(600)\n"
    (rsctl.folder / "src" / "train.py").write_text(sleep)
    assert rsctl("submit", rsctl.write(JOB), "--detach", "-q").code == 0
    wait_until(lambda: rsctl("logs", "@last").out.count("started") == 2)
    done = rsctl("profile", "@last", "--seconds", "1", "--rank", "0")
    run = rsctl("list", "-o", "json").json["runs"][0]["run"]
    assert done.out == f"rank 0: no samples, because it slept; see where: rsctl debug {run}\n"


def test_an_ended_job_has_no_ranks(rsctl: Cli, make_run: Make) -> None:
    make_run().succeed(2)
    done = rsctl("profile", "@last")
    assert done.code == 2
    assert "job-aaaaaa has already ended: succeeded" in done.err


@pytest.mark.parametrize("has_failed", [False, True])
def test_the_profiles_of_ranks(
    rsctl: Cli, make_run: Make, monkeypatch: pytest.MonkeyPatch, has_failed: bool
) -> None:
    make_run().succeed(2)
    asked: list[Any] = []
    ranks = [
        SampledRank(0, "worker-0", "a", 1200, 0.254, [("step", 0.5), ("load", 0.031)]),
        SampledRank(3, "worker-1", "b", 0, 0.0, []),
    ]
    findings = [error("profile", "no rank 4")] * has_failed

    def profiled(_run: object, *of: Any) -> Any:
        asked.append(of)
        return ranks, findings

    monkeypatch.setattr(profile, "profile_run", profiled)
    done = rsctl("profile", "@last")
    assert (done.code, done.err) == ((3, "error: no rank 4\n") if has_failed else (0, ""))
    assert done.out.splitlines() == [
        "rank 0: 1,200 samples, 25% in torch.distributed; a",
        "   50.0%  step",
        "    3.1%  load",
        "rank 3: no samples, because it slept; see where: rsctl debug job-aaaaaa",
    ]
    words = "--seconds 7 --rank 0 --rank 3 --replica worker-1 --folder here -o json"
    shown = rsctl("profile", "@last", *words.split()).json
    assert (shown["run"], [one["rank"] for one in shown["profiles"]]) == ("job-aaaaaa", [0, 3])
    assert asked == [
        ([], 10, Path("job-aaaaaa-profile"), []),
        ([0, 3], 7, Path("here"), ["worker-1"]),
    ]


@needs_docker
@pytest.mark.usefixtures("runs_end_with_the_test")
@pytest.mark.skipif(os.geteuid() != 0, reason="tracing the processes of containers needs root")
def test_a_running_container_is_profiled(rsctl: Cli) -> None:
    (rsctl.folder / "src" / "train.py").write_text(TRAIN)
    job = JOB.replace("{source: src}", f"{{source: src, base: {BASE}}}")
    assert rsctl("submit", rsctl.write(job), "-t", "compose", "--detach", "-q").code == 0
    wait_until(lambda: rsctl("logs", "@last").out.count("started") == 2)
    done = rsctl("profile", "@last", "--seconds", "1", "--replica", "worker-1", "-o", "json")
    assert (done.code, done.err) == (0, "")
    (profile,) = done.json["profiles"]
    assert (profile["rank"], profile["replica"]) == (1, "worker-1")
    assert "busy_step" in profile["top"][0][0]
