"""A job file, its plan, and an environment without credentials."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from rsctl.job.document import read
from rsctl.job.job import Job
from rsctl.targets.base import ImagePlan, Plan, Pool
from rsctl.targets.doctor import Check
from tests.kit.loopback import keep_google_auth_here

JobOf = Callable[[str], Job]


@pytest.fixture(autouse=True)
def bare_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in os.environ if n.startswith(("AWS_", "GOOGLE_", "CLOUDSDK_"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("RSCTL_HOME", str(tmp_path / "runs"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    keep_google_auth_here(monkeypatch)


@pytest.fixture
def job_of(tmp_path: Path) -> JobOf:
    """A job from its YAML below the name and the command."""

    def make(text: str) -> Job:
        file = tmp_path / "job.yaml"
        file.write_text("name: t\nrun: {command: [ls]}\n" + text)
        return read(str(file), ()).require_job()

    return make


def plan_of(target: str, *pools: Pool) -> Plan:
    """A plan of these pools."""
    return Plan(
        run="t-xxxxxx",
        target=target,
        image=ImagePlan(tag=None, transport="none"),
        pools=list(pools),
        world_size=1,
        env={},
        request={},
    )


def short(checks: list[Check]) -> list[tuple[str, str, str]]:
    """Checks in short."""
    return [(check.name, check.verdict, check.message) for check in checks]
