"""What plans can cost, and plans that their limits refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.targets.sagemaker import rendering as sagemaker
from tests.targets.vertex import rendering as vertex

PRICES = """\
vertex:
  source: our contract
  as_of: 2026-11-01
  machines:
    n1-standard-4:
      us-central1: {on_demand: 10, spot: 2}
sagemaker:
  source: our contract
  as_of: 2026-11-01
  machines:
    ml.c5.xlarge: {any: {on_demand: 30}}
"""
TWO = {"workers": {"count": 2, "machine": "n1-standard-4"}}


@pytest.fixture(autouse=True)
def _prices(tmp_path: Path) -> None:
    folder = tmp_path / "rsctl-config"
    folder.mkdir()
    (folder / "prices.yaml").write_text(PRICES)


def cost(folder: Path, limits: dict[str, Any], **changes: Any) -> dict[str, Any]:
    found: dict[str, Any] = vertex.render(folder, {**TWO, "limits": limits, **changes})["cost"]
    return found


def about_cost(findings: list[Any]) -> list[str]:
    return [vertex.reported(finding) for finding in findings if finding.code == "cost"]


def test_a_plan_has_what_its_machines_cost_and_by_which_price(tmp_path: Path) -> None:
    assert cost(tmp_path, {"timeout": "90m"}) == {
        "per_hour": 20.0,
        "most": 30.0,
        "seconds": 5400.0,
        "starts": 1,
        "limit": None,
        "spot": False,
        "prices": [
            {
                "role": "worker",
                "count": 2,
                "machine": "n1-standard-4",
                "dollars": 10.0,
                "region": "us-central1",
                "source": "our contract",
                "as_of": "2026-11-01",
                "estimate": None,
            }
        ],
        "note": None,
        "unknown": None,
    }


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        ({}, (20.0, 3360.0, 604800.0, 1)),  # Vertex AI's own limit is 7 days
        ({"timeout": "1h", "spot": True}, (4.0, 4.0, 3600.0, 1)),
        ({"timeout": "1h", "retries": 2}, (20.0, 60.0, 3600.0, 3)),
    ],
)
def test_the_most_that_a_job_can_cost(tmp_path: Path, limits: Any, expected: Any) -> None:
    found = cost(tmp_path, limits)
    assert (found["per_hour"], found["most"], found["seconds"], found["starts"]) == expected


def test_sagemaker_counts_all_attempts_together_and_the_time_to_stop(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 2, "machine": "ml.c5.xlarge"},
        "limits": {"timeout": "1h", "restarts": 2, "spot": True},
    }
    found = sagemaker.render(tmp_path, changes)["cost"]
    assert (found["per_hour"], found["most"], found["starts"]) == (60.0, 62.0, 1)
    assert found["note"] == (
        "at the on-demand price; for spot machines SageMaker bills fewer seconds"
    )


def test_a_machine_without_a_price(tmp_path: Path) -> None:
    found = cost(tmp_path, {}, workers={"machine": "a3-ultragpu-8g", "accelerator": "h200:8"})
    assert (found["per_hour"], found["most"], found["unknown"]) == (
        None,
        None,
        "the on-demand price of a3-ultragpu-8g in us-central1 is unknown",
    )


def test_without_a_timeout_the_cloud_ends_the_job_when_it_has_cost_its_limit(
    tmp_path: Path,
) -> None:
    plan = vertex.render(tmp_path, {**TWO, "limits": {"cost": "50 USD"}})
    assert plan["request"]["body"]["jobSpec"]["scheduling"]["timeout"] == "9000s"
    assert (plan["cost"]["most"], plan["cost"]["limit"]) == (50.0, 50.0)
    assert "the job is ended after 2h30m, at a cost of at most 50.00 USD" in [
        finding["message"] for finding in plan["findings"]
    ]


def test_each_start_has_its_part_of_the_limit(tmp_path: Path) -> None:
    found = cost(tmp_path, {"cost": "60 USD", "retries": 2})
    assert (found["seconds"], found["most"]) == (3600.0, 60.0)


def test_sagemaker_gets_the_time_less_that_to_stop(tmp_path: Path) -> None:
    changes = {
        "workers": {"count": 1, "machine": "ml.c5.xlarge"},
        "limits": {"cost": "30 USD"},
    }
    body = sagemaker.render(tmp_path, changes)["request"]["body"]
    assert body["StoppingCondition"] == {"MaxRuntimeInSeconds": 3480}


def test_a_limit_beyond_the_clouds_own_time_changes_nothing(tmp_path: Path) -> None:
    plan = vertex.render(tmp_path, {**TWO, "limits": {"cost": "4000 USD"}})
    assert "timeout" not in plan["request"]["body"]["jobSpec"]["scheduling"]
    assert plan["cost"]["most"] == 3360.0


REMEDY = "use fewer or smaller machines, or raise limits.cost"


@pytest.mark.parametrize(
    ("limits", "expected"),
    [
        (
            {"cost": "30 USD", "timeout": "2h"},
            "error limits.cost: the job can cost 40.00 USD, more than 30.00 USD: 2h at 20.00 USD "
            f"per hour -> set limits.timeout: 1h30m or less, {REMEDY}",
        ),
        (
            {"cost": "30 USD", "timeout": "1h", "retries": 1},
            "error limits.cost: the job can cost 40.00 USD, more than 30.00 USD: 2 starts of 1h "
            f"at 20.00 USD per hour -> set limits.timeout: 45m or less, {REMEDY}",
        ),
        (
            {"cost": "0.2 USD"},
            "error limits.cost: 0.20 USD is less than one minute costs: its machines cost 20.00 "
            f"USD per hour -> {REMEDY}",
        ),
    ],
)
def test_a_plan_that_can_cost_more_is_refused(tmp_path: Path, limits: Any, expected: str) -> None:
    assert about_cost(vertex.findings_of(tmp_path, {**TWO, "limits": limits})) == [expected]


def test_a_limit_needs_a_price(tmp_path: Path) -> None:
    changes = {
        "workers": {"machine": "a3-ultragpu-8g", "accelerator": "h200:8"},
        "limits": {"cost": "50 USD"},
    }
    assert about_cost(vertex.findings_of(tmp_path, changes)) == [
        "error limits.cost: the cost is unknown, so rsctl cannot tell whether it stays below "
        "50.00 USD: the on-demand price of a3-ultragpu-8g in us-central1 is unknown -> fetch the "
        "clouds' prices: rsctl catalog --refresh; or add your own, see docs/guides/costs.md; or "
        "remove limits.cost"
    ]


def test_a_patched_time_limit_counts(tmp_path: Path) -> None:
    """What is shown is what is sent: the overlay is laid over the request."""
    longer = {"jobSpec": {"scheduling": {"timeout": "7200s"}}}
    changes = {**TWO, "limits": {"cost": "30 USD"}, "targets": {"vertex": {"overlay": longer}}}
    found = about_cost(vertex.findings_of(tmp_path, changes))
    assert len(found) == 1
    assert found[0].startswith("error limits.cost: the job can cost 40.00 USD")
