"""The checks of a machine without anything, of a job's registry, and of several placements."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import PackageNotFoundError
from pathlib import Path

import pytest

from rsctl.api.job_file import make_submission
from rsctl.installation import install_command
from rsctl.job.job import Job
from rsctl.targets.base import Plan
from rsctl.targets.doctor import Check, machine
from rsctl.targets.doctor.checks import job_checks
from rsctl.targets.doctor.machine import machine_checks
from rsctl.targets.doctor.registry import registry_checks
from rsctl.targets.vertex.options import vertex_options
from tests.targets.doctor.conftest import JobOf, plan_of, short

PROGRAMS = ("docker", "compose", "builder")


@pytest.fixture(autouse=True)
def bare_machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """No program and no package beside rsctl."""

    def version(package: str) -> str:
        raise PackageNotFoundError(package)

    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr("rsctl.targets.local.docker.sys.executable", str(tmp_path / "python"))
    monkeypatch.setattr(machine, "version", version)


def found(target: str | None) -> dict[str, Check]:
    """The checks of the machine by their names."""
    return {check.name: check for check in machine_checks(target)}


def test_packages_are_optional_without_a_target() -> None:
    checks = found(None)
    packages = {
        "torch": ("launcher torchrun on target process", "local"),
        "matplotlib": ("charts as PNG files", "report"),
        "google-cloud-aiplatform": ("rsctl.targets.vertex.sdk", "sdk"),
        "sagemaker": ("rsctl.targets.sagemaker.sdk", "sdk"),
    }
    assert list(checks) == ["rsctl", "store", *packages, *PROGRAMS]
    for name, (use, extra) in packages.items():
        message, remedy = f"not installed; only for {use}", install_command(extra)
        assert checks[name] == Check(
            name=name, verdict="skipped", message=message, remedy=remedy
        ), name
    assert {checks[name].verdict for name in PROGRAMS} == {"warning"}
    assert (checks["compose"].message, checks["compose"].remedy) == (
        *("docker compose is not installed", "install the Docker compose plugin"),
    )


DOCKER = """#!/bin/sh
case "$*" in
    "version --format {{.Client.Version}} {{.Server.Version}}") echo 27.1.1 27.0.3 ;;
    "compose version --short") echo 2.29.1 ;;
esac
"""


def test_the_versions_of_docker(tmp_path: Path) -> None:
    (tmp_path / "docker").write_text(DOCKER)
    (tmp_path / "docker").chmod(0o755)
    checks = found("compose")
    assert short([checks["docker"], checks["compose"]]) == [
        ("docker", "ok", "client 27.1.1, engine 27.0.3"),
        ("compose", "ok", "2.29.1"),
    ]


@pytest.mark.parametrize(
    ("target", "required"),
    [("process", {"torch"}), ("compose", set(PROGRAMS)), ("vertex", set()), ("slurm", set())],
)
def test_what_a_target_needs_is_an_error(target: str, required: set[str]) -> None:
    assert {name for name, check in found(target).items() if check.verdict == "error"} == required


@pytest.mark.parametrize(
    ("image", "message"),
    [
        ("image: {uri: 'python:3.12'}\n", "python:3.12 is used without changes"),
        ("image: {base: 'python:3.12'}\n", "the image is not pushed"),
    ],
)
def test_a_job_that_pushes_no_image(job_of: JobOf, image: str, message: str) -> None:
    checks = list(registry_checks(job_of(image), plan_of("compose")))
    assert short(checks) == [("registry", "skipped", message)]


def test_a_check_of_another_placement_is_shown_if_it_differs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the name of the placement; equal ones are shown once."""
    (tmp_path / "job.yaml").write_text(
        "name: t\ntarget: vertex\nrun: {command: [ls]}\noutputs: gs://bucket/o\n"
        "image: {uri: 'us-docker.pkg.dev/project/r/i:1'}\n"
        "targets: {vertex: {project: project, region: [us-central1, us-east1]}}\n"
    )

    def in_region(job: Job, plan: Plan) -> Iterator[Check]:
        yield Check(name="login", verdict="ok", message=plan.target)
        yield Check(name="quota", verdict="ok", message=str(vertex_options(job).region))

    checks = {"rsctl.targets.vertex.doctor:google_checks": in_region}
    monkeypatch.setattr(
        "rsctl.targets.doctor.checks.import_object", lambda name: checks.get(name, lambda *_: ())
    )
    shown = [(c.name, c.message) for c in job_checks(make_submission(str(tmp_path / "job.yaml")))]
    ours = shown[[name for name, _ in shown].index("builder") + 1 :]
    assert ours == [
        ("login", "vertex"),
        ("quota", "us-central1"),
        ("quota (us-east1)", "us-east1"),
    ]
