"""`rsctl diff`: two recorded runs."""

from __future__ import annotations

import json

import pytest

from rsctl.cli.app import run
from rsctl.runs.store import Store
from rsctl.runs.stream.events import MetricEvent
from tests.api.recorded import add, at

SPEC = "name: job\nworkers: {count: 2}\n"


def test_what_differs_between_two_targets(capsys: pytest.CaptureFixture[str]) -> None:
    """One has not ended, the other's job file is not stored."""
    add("job-1", spec=SPEC)
    plan = {"request": {"region": "eu-west-1"}, "env": {"LR": "1", "WANDB_API_KEY": None}}
    add("job-2", "failed", "sagemaker", plan=plan)
    assert run(["diff", "job-1", "job-2"]) == 0
    out, told = capsys.readouterr()
    assert out.splitlines()[:8] == [
        "job-1 (failed) -> job-2 (failed)",
        "differs:",
        "  target: process -> sagemaker",
        "  workers: 2 -> unknown",
        "  ps: 1 -> unknown",
        "  env.LR: not set -> 1",
        "  env.WANDB_API_KEY: not set -> (secret)",
        "  region: unknown -> eu-west-1",
    ]
    assert "job-2 failed: its values are from before that" in told
    assert "the job file of job-2 is not stored: keys are not compared" in told
    assert "job-1 and job-2: the parts of a step are not recorded" in told


def test_regions(capsys: pytest.CaptureFixture[str]) -> None:
    """As the clouds' requests name them; a target that is not installed has none."""
    for number, region in enumerate(("us-east1", "us-west1"), start=1):
        url = f"https://{region}-aiplatform.googleapis.com/v1/projects/p/locations/{region}/x"
        add(f"job-{number}", "succeeded", "vertex", plan={"request": {"url": url}})
    add("job-3", "succeeded", "elsewhere", plan={"request": {"region": "moon"}})
    assert run(["diff", "job-1", "job-2"]) == 0
    assert "  region: us-east1 -> us-west1" in capsys.readouterr().out.splitlines()
    assert run(["diff", "job-1", "job-3"]) == 0
    assert "  region: us-east1 -> unknown" in capsys.readouterr().out.splitlines()


def test_keys_with_their_overrides(capsys: pytest.CaptureFixture[str]) -> None:
    add("job-1", "succeeded", spec=SPEC)
    add("job-2", "succeeded", spec=SPEC, settings=["workers.processes=4"])
    assert run(["diff", "job-1", "job-2", "-o", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["differences"] == [
        {"name": "workers.processes", "baseline": "not set", "candidate": 4}
    ]
    assert [side["run"] for side in found["sides"]] == ["job-1", "job-2"]


def test_rates_of_the_slowest_nodes(capsys: pytest.CaptureFixture[str]) -> None:
    """Those that are further apart than nodes of one kind are."""
    for run_id, product, copied in (("job-1", 12.0, 9.0), ("job-2", 7.5, 8.0)):
        add(run_id, "succeeded", spec=SPEC)
        rates = [("matmul_gflops", product), ("copy_gbs", copied), ("disk.tmp_free_bytes", product)]
        values = [
            MetricEvent(time=at(2), replica=replica, name=f"node.check.{name}", value=value * more)
            for replica, more in (("worker-0", 1.5), ("worker-1", 1.0))
            for name, value in rates
        ]
        Store().add_metrics(run_id, values)
    assert run(["diff", "job-1", "job-2", "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out)["differences"] == [
        {"name": "checks.matmul_gflops", "baseline": "12", "candidate": "7.5"}
    ]


def test_nothing_differs(capsys: pytest.CaptureFixture[str]) -> None:
    add("job-1", "succeeded", spec=SPEC)
    add("job-2", "succeeded", spec=SPEC)
    assert run(["diff", "job-1", "job-2"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "job-1 (succeeded) -> job-2 (succeeded)",
        "nothing differs: job file, arguments, code, versions and machines are equal",
        "metrics:",
        "  run.total: 1 s -> 1 s",
    ]


def test_metrics(capsys: pytest.CaptureFixture[str]) -> None:
    for run_id, loss in (("job-1", 0.5), ("job-2", 0.25)):
        add(run_id, "succeeded", spec=SPEC)
        Store().add_metrics(
            run_id, [MetricEvent(time=at(2), replica="worker-0", name="loss", value=loss)]
        )
    assert run(["diff", "job-1", "job-2"]) == 0
    assert capsys.readouterr().out.splitlines()[2:] == [
        "metrics:",
        "  loss (median): 0.5 -> 0.25 (-0.25, -50%)",
        "  run.total: 1 s -> 1 s",
    ]


@pytest.mark.parametrize(
    ("other", "told"), [("job-1", "both sides are job-1"), ("job-9", "there is no run 'job-9'")]
)
def test_wrong_runs(other: str, told: str, capsys: pytest.CaptureFixture[str]) -> None:
    add("job-1")
    assert run(["diff", "job-1", other]) == 2
    assert told in capsys.readouterr().err
