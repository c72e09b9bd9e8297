"""Jobs that cannot be packed, and what to know of those that can."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.bench.pack_checks import pack_findings
from rsctl.findings import error, warning
from rsctl.job.document import read
from rsctl.job.job import Job

JOB = """
name: sweep
run: {script: train.py, launcher: torchrun, args: {lr: 1}}
limits: {timeout: 10m}
metrics: {speed: {regex: 'speed=(.*)', goal: max}}
"""


def job(folder: Path, *settings: str) -> Job:
    (folder / "train.py").touch()
    (folder / "job.yaml").write_text(JOB)
    return read(str(folder / "job.yaml"), settings).require_job()


CANNOT = "bench.pack runs slots one after the other inside one job"
SAME = f"{CANNOT}, with the same command and variables on all nodes"


@pytest.mark.parametrize(
    ("settings", "message", "remedy", "path"),
    [
        (
            ["run={command: [echo], launcher: none}"],
            f"{CANNOT}, by rsctl-launch, which this job does not use",
            *("use launcher torchrun or once, or bench.pack: false", "run"),
        ),
        (
            ["roles={ps: {count: 1}}"],
            f"{CANNOT}, and nodes of roles cannot follow them",
            *("remove roles, or set bench.pack: false", "roles"),
        ),
        (
            *(["chief.args={a: 1}"], SAME),
            *("remove chief.args, or set bench.pack: false", "chief.args"),
        ),
        (
            *(["chief.env={A: b}"], SAME),
            *("remove chief.env, or set bench.pack: false", "chief.env"),
        ),
        (
            ["run.launcher=mpi", "workers.count=2"],
            f"{CANNOT}, and mpirun starts only one program on several nodes",
            *("use launcher torchrun, or set bench.pack: false", "run.launcher"),
        ),
        (
            ["limits.keep=10m"],
            f"{CANNOT}, and a failed one must not hold up the next",
            *("remove limits.keep, or set bench.pack: false", "limits.keep"),
        ),
        (
            ["limits.on_stall=fail"],
            f"{CANNOT}, which on_stall: fail would end with all slots",
            *("set on_stall: notify, and limits.timeout for each slot", "limits.on_stall"),
        ),
        (
            ["watch={low: {metric: speed, below: '1', do: fail}}"],
            f"{CANNOT}, which rule low would end with all slots",
            *("set do: notify, or bench.pack: false", "watch.low.do"),
        ),
        (
            ["run.args.api_key=x"],
            f"{CANNOT}, and their commands are in variables of the job that are not secret",
            *("pass the secret in run.env", "run.args"),
        ),
        (
            ["profile={tool: torch}"],
            f"{CANNOT}, and the profiles of all slots would be the same files",
            *("remove profile, or set bench.pack: false", "profile"),
        ),
    ],
)
def test_a_job_that_cannot_be_packed(
    settings: list[str], message: str, remedy: str, path: str, tmp_path: Path
) -> None:
    refused = job(tmp_path, *settings)
    assert pack_findings([refused, refused]) == [error("pack", message, remedy, path)]


@pytest.mark.parametrize(
    "settings",
    [
        [],
        ["run.launcher=once"],
        ["run.launcher=mpi"],
        ["limits.on_stall=notify"],
        ["watch={low: {metric: speed, below: '1', do: notify}}"],
    ],
    ids=" ".join,
)
def test_a_job_that_can_be_packed(settings: list[str], tmp_path: Path) -> None:
    assert pack_findings([job(tmp_path, *settings)]) == []


def test_a_slot_without_a_limit_of_its_time(tmp_path: Path) -> None:
    assert pack_findings([job(tmp_path, "limits.timeout=null")]) == [
        warning(
            "pack",
            "a slot that hangs holds up all slots behind it",
            "set limits.timeout, the limit of each slot",
            "limits",
        )
    ]
