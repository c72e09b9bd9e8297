"""SageMaker's catalogue: every machine that there is, and what is picked of them."""

from __future__ import annotations

import pytest

from rsctl.estimate.catalog import load, smallest
from rsctl.job.units import Accelerator
from rsctl.targets.sagemaker.api_model import model
from rsctl.targets.sagemaker.catalog import has_own_disks, reducer_machine


def test_it_has_exactly_the_machines_that_training_has() -> None:
    assert sorted(load("sagemaker").machines) == sorted(
        model().shapes["TrainingInstanceType"].enum or []
    )


@pytest.mark.parametrize(
    ("accelerator", "machine"),
    [
        (None, "ml.m5.xlarge"),
        ("t4", "ml.g4dn.xlarge"),
        ("t4:4", "ml.g4dn.12xlarge"),
        ("v100:8", "ml.p3.16xlarge"),
        ("v100-32gb:8", "ml.p3dn.24xlarge"),
        ("a10g:4", "ml.g5.12xlarge"),
        ("l4:8", "ml.g6.48xlarge"),
        ("l40s", "ml.g6e.xlarge"),
        ("a100-40gb:8", "ml.p4d.24xlarge"),
        ("a100-80gb:8", "ml.p4de.24xlarge"),
        ("h100", "ml.p5.4xlarge"),
        ("h100:8", "ml.p5.48xlarge"),
        ("h200:8", "ml.p5e.48xlarge"),
        ("b200:8", "ml.p6-b200.48xlarge"),
        ("rtx-pro-6000:8", "ml.g7e.48xlarge"),
        ("a100-40gb:4", None),
        ("trainium:16", None),
    ],
)
def test_the_smallest_machine(accelerator: str | None, machine: str | None) -> None:
    wanted = Accelerator(accelerator) if accelerator else None
    found = smallest(load("sagemaker"), wanted)
    assert (found.name if found else None) == machine


@pytest.mark.parametrize(
    ("gbps", "machine"),
    [
        (1.25, "ml.c5n.xlarge"),
        (10.0, "ml.c5n.2xlarge"),
        (40.0, "ml.c5n.9xlarge"),
        (50.0, "ml.c5n.9xlarge"),
        (100.0, "ml.c5n.18xlarge"),
        (400.0, "ml.c5n.18xlarge"),
        (None, "ml.c5n.18xlarge"),
    ],
)
def test_reducers_are_as_fast_as_workers(gbps: float | None, machine: str) -> None:
    assert reducer_machine(load("sagemaker"), gbps).name == machine


def test_only_what_has_400_gbit_of_efa_brings_its_own_transport() -> None:
    machines = load("sagemaker").machines.values()
    fast = {m.name for m in machines if m.efa and (m.gbps or 0) >= 400}
    assert {m.name for m in machines if m.own_transport} == fast


@pytest.mark.parametrize(
    ("machine", "has"),
    [
        ("ml.p3.16xlarge", False),
        ("ml.p3dn.24xlarge", True),
        ("ml.g5.xlarge", True),
        ("ml.p6-b300.48xlarge", True),
        ("ml.c5n.18xlarge", False),
        ("ml.r5.large", False),
        ("ml.r5d.large", True),
    ],
)
def test_machines_with_disks_of_their_own(machine: str, has: bool) -> None:
    assert has_own_disks(machine) is has
