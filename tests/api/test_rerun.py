"""The image of a run that is submitted again to a cloud, and runs that cannot be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.api.job_file import load
from rsctl.api.rerun import _with_image, prepare_rerun
from rsctl.api.submission import PreparedRun
from rsctl.bench.records import Benches, BenchRecord, Trial
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.plan import make_plan
from rsctl.runs.folder import RunFolder
from rsctl.runs.origin import Origin, keep_origin
from rsctl.runs.store import Store
from rsctl.targets import get
from rsctl.targets.managed.rehearsal.rehearsal import Rehearsal
from tests.api.recorded import add, at

JOB = """
name: j
target: vertex
image: {base: "base:1", source: src, repository: us-central1-docker.pkg.dev/p/r/i}
run: {script: train.py, launcher: once}
targets: {vertex: {project: my-project, region: us-central1, staging: gs://bucket/x}}
"""
SENT = "us-central1-docker.pkg.dev/p/r/i@sha256:" + "0" * 64


def test_a_changed_source_gets_the_image_that_was_sent(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("")
    (tmp_path / "job.yaml").write_text(JOB)
    run = add("j-1", "succeeded", "vertex", plan={"image": {"tag": "old:1", "transport": "none"}})
    folder = RunFolder("j-1")
    folder.path.mkdir(parents=True, exist_ok=True)
    folder.note_image(SENT)
    target = get("vertex")
    submission = make_plan(load(tmp_path / "job.yaml").copy_document(), target, "j-2")
    prepared = _with_image(PreparedRun(submission, (), target=target), run)
    assert (prepared.plan.image.tag, prepared.plan.image.reference) == ("old:1", SENT)


def refused(reference: str) -> tuple[str, str | None]:
    with pytest.raises(RsctlError) as caught:
        prepare_rerun(reference)
    [finding] = caught.value.findings
    assert (caught.value.exit_code, finding.code) == (ExitCode.USAGE, "rerun")
    assert finding == error("rerun", finding.message, finding.remedy)
    return finding.message, finding.remedy


@pytest.mark.parametrize(
    ("about", "command"),
    [
        ({}, "rsctl bench run JOB --new"),
        ({"file": "-"}, "rsctl bench run JOB --new"),
        ({"file": "a b.yaml"}, "rsctl bench run 'a b.yaml' --new"),
        (
            {"file": "a.yaml", "target": "vertex", "settings": ["run.args.lr=[1, 2]"], "repeat": 3},
            "rsctl bench run a.yaml -t vertex --set 'run.args.lr=[1, 2]' --repeat 3 --new",
        ),
        ({"file": "a.yaml", "rehearsed": True}, "rsctl bench run a.yaml --rehearse --new"),
        (
            {
                "file": "a.yaml",
                "rehearsed": True,
                "rehearsal": Rehearsal("process", {"stockouts": 2, "state": "A"}).arguments,
            },
            "rsctl bench run a.yaml --rehearse --rehearse-with process --behaviour stockouts=2 "
            "--behaviour state=A --new",
        ),
    ],
)
def test_a_bench_is_run_again_whole(about: dict[str, Any], command: str) -> None:
    """As it ran: never in the cloud what was rehearsed."""
    benches = Benches(Store())
    bench = BenchRecord(
        **{"target": "process", **about},
        **{"bench": "job-bench-1", "name": "j", "definition": "x", "created": at(0), "cells": [{}]},
    )
    benches.claim(bench)
    add("job-1", "succeeded", spec="name: j\n")
    benches.begin("job-bench-1", Trial(cell=0, repetition=0, run="job-1"))
    again = f"run the bench again: {command}"
    assert refused("job-bench-1") == (
        "job-bench-1 is a bench, and rerun takes one run of a job without a matrix",
        again,
    )
    assert refused("job-1") == (
        "job-1 is one run of job-bench-1, which sets the values of its cell",
        again,
    )


@pytest.mark.parametrize(
    ("about", "message", "remedy"),
    [
        (
            {},
            "the job file of job-1 is not stored",
            "rerun takes runs of a job file, sent by rsctl submit: submit the job itself",
        ),
        (
            {"spec": "name: j\n", "settings": ["run.env.A=***"]},
            "a --set of job-1 had a secret, which rsctl does not store",
            "submit the job file with the same --set",
        ),
        (
            {"spec": "run: {env: {TOKEN: '***'}}\n"},
            "the job file of job-1 had a secret, which rsctl does not store",
            "submit the job file; write the secret as ${VAR} in run.env",
        ),
    ],
)
def test_a_job_that_is_not_stored_whole(about: dict[str, Any], message: str, remedy: str) -> None:
    add("job-1", "succeeded", **about)
    assert refused("job-1") == (message, remedy)


def test_the_folder_of_the_job_must_exist() -> None:
    add("job-1", "succeeded", spec="name: j\n")
    keep_origin("job-1", Origin(folder="/nowhere"))
    assert refused("job-1") == (
        "the folder of the job no longer exists: /nowhere",
        "restore it; relative paths of the job file lead from there",
    )


def test_a_run_that_does_not_exist() -> None:
    with pytest.raises(RsctlError, match="there is no run 'job-9'") as caught:
        prepare_rerun("job-9")
    assert caught.value.exit_code is ExitCode.USAGE


def test_variables_that_are_not_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run stores no value of a secret, so another value makes no difference."""
    monkeypatch.setenv("API_KEY", "today")
    (tmp_path / "train.py").touch()
    spec = (
        "name: j\ntarget: process\n"
        "run: {script: train.py, launcher: once, env: {LEVEL: '2', API_KEY: '${API_KEY}'}}\n"
    )
    keep_origin("j-1", Origin(folder=str(tmp_path)))
    for before, found in (
        ({"LEVEL": "1", "API_KEY": None}, ["env.LEVEL: 1 -> 2"]),
        ({"LEVEL": "2"}, ["env.API_KEY: unknown -> (secret)"]),
    ):
        Store().forget("j-1")
        add("j-1", "succeeded", spec=spec, plan={"run": "j-1", "env": before, "pools": []})
        messages = [finding.message for finding in prepare_rerun("j-1").findings]
        own = ("not as it was: env.LEVEL", "not as it was: env.API_KEY")
        assert [m for m in messages if m.startswith(own)] == [f"not as it was: {x}" for x in found]
        assert "secrets have the values of today's environment: API_KEY" in messages
