"""`rsctl drill` on rehearsed clouds, with processes as nodes."""

from __future__ import annotations

from typing import Any

import pytest

from tests.targets.conftest import Rsctl, rehearsed
from tests.targets.drill.drills import HELD, drill, write_held_job, write_job


@pytest.mark.parametrize(
    ("target", "bucket", "faults"),
    [
        ("vertex", "gs://bucket/c", "preemption,stock-out,killed-worker"),
        ("sagemaker", "s3://bucket/c", "preemption,stock-out,notice-30s"),
    ],
)
def test_rehearsed_clouds(rsctl: Rsctl, target: str, bucket: str, faults: str) -> None:
    limits = {"spot": True, "timeout": "1h"}
    job = write_held_job(rsctl, image={"base": "b"}, checkpoints=bucket, limits=limits)
    quick = ["--behaviour", "pace=0.02", "--behaviour", "grace=5"]
    if target == "vertex":  # no step comes again there, and a restart in no time is not seen
        quick += ["--behaviour", "provision=60"]
    done, found = drill(rsctl, job, *rehearsed(target), *quick, *HELD, "--faults", faults)
    assert done.exit_code == 0, found
    for name in ("preemption", "stock-out"):
        assert (found[name]["verdict"], found[name]["course"]) == ("survived", "restarted")
        assert found[name]["exit_code"] == 0
        assert found[name]["resumed_at"] > 2
        assert found[name]["dollars_lost"] is not None
    if target == "sagemaker":
        assert found["notice-30s"]["remarks"] == []
    else:
        assert found["killed-worker"]["course"] == "resumed"
    buckets = rsctl.home / "rehearsal" / bucket[:2] / "bucket" / "c"
    assert sorted(path.name for path in buckets.iterdir()) == sorted(
        {run["run"] for run in rsctl.runs() if (buckets / run["run"]).exists()}
    )


@pytest.mark.parametrize(
    ("target", "bucket"), [("vertex", "gs://bucket/c"), ("sagemaker", "s3://bucket/c")]
)
def test_a_reducer_of_a_rehearsed_cloud(rsctl: Rsctl, target: str, bucket: str) -> None:
    """The workers continue without its program."""
    fallback: dict[str, Any] = {"reducers": {"count": 1}, "comm": {"on_reducer_loss": "fallback"}}
    image, limits = {"base": "b", "transport": "rsctl"}, {"timeout": "1h"}
    job = write_job(rsctl, steps=20, image=image, checkpoints=bucket, limits=limits, **fallback)
    options = ("--behaviour", "pace=0.02", *HELD, "--faults", "killed-reducer")
    done, found = drill(rsctl, job, *rehearsed(target), *options)
    assert done.exit_code == 0, found
    killed = found["killed-reducer"]
    assert killed["strike"] == "SIGKILL to the program of reducer-0"
    assert (killed["verdict"], killed["course"], len(killed["runs"])) == (
        "survived",
        "continued",
        1,
    ), killed
