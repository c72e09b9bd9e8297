"""What advice takes from a job file and the catalogue: prices, links between GPUs."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.estimate.advice.inputs import dollars_of, interconnect_of, settings_of
from rsctl.estimate.advice.interconnect import INTERCONNECTS, OTHER, Interconnect
from rsctl.job.document import read
from rsctl.job.job import Job

PRICES = """
vertex:
  source: ours
  as_of: 2026-11-01
  elsewhere: us-central1
  machines:
    n1-standard-4:
      us-central1: {on_demand: 1.0, spot: 0.25}
      europe-west4: {on_demand: 2.0, spot: 0.5}
  accelerators:
    t4: {us-central1: {on_demand: 10.0}}
"""


def job_of(folder: Path, *settings: str) -> Job:
    path = folder / "job.yaml"
    path.write_text("name: j\nrun: {command: [a]}\ntargets: {vertex: {}}\n")
    return read(str(path), list(settings)).require_job()


def test_spot_machines_of_sagemaker_have_the_price_on_demand(tmp_path: Path) -> None:
    """As in a plan: without any price, the option of the shortest step would be recommended."""
    job = job_of(tmp_path, "targets={sagemaker: {region: us-east-1}}")
    spot = job_of(tmp_path, "targets={sagemaker: {region: us-east-1}}", "limits.spot=true")
    dollars = dollars_of(job, "sagemaker", "ml.c5n.2xlarge")
    assert dollars_of(spot, "sagemaker", "ml.c5n.2xlarge") == dollars == pytest.approx(0.5184)


@pytest.mark.parametrize(
    ("settings", "machine", "accelerator", "dollars"),
    [
        ([], "n1-standard-4", None, 1.0),
        (["targets.vertex.region=europe-west4"], "n1-standard-4", None, 2.0),
        # Of several the run's own is not known yet.
        (["targets.vertex.region=[europe-west4, us-east1]"], "n1-standard-4", None, 1.0),
        (["limits.spot=true"], "n1-standard-4", None, 0.25),
        (["targets.vertex.capacity=spot"], "n1-standard-4", None, 0.25),
        (["targets.vertex.capacity=flex-start"], "n1-standard-4", None, 1.0),
        ([], "n1-standard-4", "t4:2", 21.0),
        ([], "no-such-machine", None, None),
        ([], None, None, None),
    ],
)
def test_the_price_of_a_node_is_that_of_the_jobs_region(
    tmp_path: Path,
    settings: list[str],
    machine: str | None,
    accelerator: str | None,
    dollars: float | None,
) -> None:
    own = tmp_path / "rsctl-config" / "prices.yaml"
    own.parent.mkdir()
    own.write_text(PRICES)
    job = job_of(tmp_path, *settings)
    assert dollars_of(job, "vertex", machine, accelerator) == dollars
    assert dollars_of(job, None, machine, accelerator) is None


@pytest.mark.parametrize(
    ("settings", "sent", "may_compress"),
    [
        ([], 1.0, True),
        (["comm.compression=bf16"], 0.5, False),
        (["comm.compression=powersgd"], 1.0, False),
        (["model.dtype=bf16"], 1.0, False),
        (["model.dtype=bf16", "comm.compression=int8"], 260 / 512, False),
        (["model.dtype=bf16", "comm.local_steps=8"], 2.0, True),  # parameters travel as fp32
    ],
)
def test_how_much_of_the_gradients_is_sent(
    tmp_path: Path, settings: list[str], sent: float, may_compress: bool
) -> None:
    found = settings_of(job_of(tmp_path, "model={parameters: 1M, step_seconds: 1}", *settings))
    assert (found.sent_part, found.may_compress) == (sent, may_compress)


@pytest.mark.parametrize(
    ("accelerator", "settings", "link"),
    [
        ("h100:8", [], INTERCONNECTS["h100"]),
        ("h100:8", ["comm.backend=gloo"], None),
        ("gaudi2:8", [], OTHER),
        (None, [], None),
    ],
)
def test_gradients_travel_over_the_gpus_links_unless_by_gloo(
    tmp_path: Path, accelerator: str | None, settings: list[str], link: Interconnect | None
) -> None:
    assert interconnect_of(job_of(tmp_path, *settings), accelerator) is link
