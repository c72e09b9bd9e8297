"""`limits.grace` in clouds: what their nodes are told, and what rsctl says about it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.targets.sagemaker import rendering as sagemaker
from tests.targets.vertex import rendering as vertex


def told(cloud: Any, folder: Path, limits: dict[str, str]) -> dict[str, str]:
    """The variables of a soft stop in every container."""
    variables: dict[str, str] = cloud.render(folder, {"limits": limits})["env"]
    return {name: value for name, value in variables.items() if name.endswith("_SECONDS")}


def test_vertex_ai_announces_nothing_so_the_nodes_do(tmp_path: Path) -> None:
    assert told(vertex, tmp_path, {"timeout": "1h"}) == {}
    assert told(vertex, tmp_path, {"grace": "2m"}) == {"RSCTL_GRACE_SECONDS": "120"}
    assert told(vertex, tmp_path, {"timeout": "1h", "grace": "2m"}) == {
        "RSCTL_GRACE_SECONDS": "120",
        "RSCTL_STOP_AFTER_SECONDS": "3480",
    }


def test_sagemaker_signals_two_minutes_before_it_kills(tmp_path: Path) -> None:
    assert told(sagemaker, tmp_path, {"timeout": "1h"}) == {}
    assert told(sagemaker, tmp_path, {"timeout": "1h", "grace": "2m"}) == {
        "RSCTL_GRACE_SECONDS": "120"
    }
    assert told(sagemaker, tmp_path, {"timeout": "1h", "grace": "5m"}) == {
        "RSCTL_GRACE_SECONDS": "300",
        "RSCTL_STOP_AFTER_SECONDS": "3420",
    }
    assert told(sagemaker, tmp_path, {"timeout": "28d", "grace": "137s"}) == {
        "RSCTL_GRACE_SECONDS": "137",
        "RSCTL_STOP_AFTER_SECONDS": "2419183",
    }


@pytest.mark.parametrize(
    ("cloud", "limits", "expected"),
    [
        (
            vertex,
            {"grace": "2m"},
            "warning: Vertex AI does not announce the end of a job, which has no time limit of its "
            "own",
        ),
        (
            vertex,
            {"grace": "2m", "timeout": "1h"},
            "note: rsctl-launch asks the ranks to end this long before limits.timeout, counted "
            "from the start of the container; Google does not document how much time a cancelled "
            "or preempted job has",
        ),
        (
            sagemaker,
            {"grace": "5m", "timeout": "1h"},
            "note: SageMaker gives a job that is cancelled or interrupted 120 s; "
            "limits.grace applies before limits.timeout only",
        ),
        (sagemaker, {"grace": "2m", "timeout": "1h"}, None),
    ],
)
def test_what_is_said(
    tmp_path: Path, cloud: Any, limits: dict[str, str], expected: str | None
) -> None:
    findings = [f for f in cloud.findings_of(tmp_path, {"limits": limits}) if f.code == "grace"]
    assert [f"{f.severity}: {f.message}" for f in findings] == ([expected] if expected else [])
