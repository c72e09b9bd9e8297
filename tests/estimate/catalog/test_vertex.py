"""The catalogue of Vertex AI: what is taken by itself, and that the data agrees with itself."""

from __future__ import annotations

import datetime

import pytest

from rsctl.estimate.catalog import load, smallest
from rsctl.job.units import Accelerator
from rsctl.targets.vertex.catalog import rules

CATALOG = load("vertex")


@pytest.mark.parametrize(
    ("accelerator", "machine"),
    [
        (None, "n1-standard-4"),
        ("t4", "n1-standard-4"),
        ("t4:4", "n1-standard-16"),
        ("v100:8", "n1-standard-32"),
        ("l4:1", "g2-standard-4"),
        ("l4:2", "g2-standard-24"),
        ("a100-40gb:8", "a2-highgpu-8g"),
        ("a100-40gb:16", "a2-megagpu-16g"),
        ("a100-80gb:1", "a2-ultragpu-1g"),
        ("h100:8", "a3-highgpu-8g"),
        ("h200:8", "a3-ultragpu-8g"),
        ("v5e:4", "ct5lp-hightpu-4t"),
        ("v6e", "ct6e-standard-1t"),
        ("tpu7x:4", "tpu7x-standard-4t"),
        ("l4:3", None),
        ("unknown", None),
    ],
)
def test_the_smallest_machine_that_fits(accelerator: str | None, machine: str | None) -> None:
    wanted = Accelerator(accelerator) if accelerator else None
    found = smallest(CATALOG, wanted)
    assert (found.name if found else None) == machine


@pytest.mark.parametrize(
    ("machine", "needs"),
    [
        ("a3-highgpu-8g", "Google's plugin for NCCL in the image"),
        ("a3-megagpu-8g", "Google's plugin for NCCL in the image"),
        ("a4-highgpu-8g", "the variables of /usr/local/gib/scripts/set_nccl_env.sh"),
        ("a2-highgpu-8g", None),
    ],
)
def test_what_nccl_needs_to_use_a_machines_own_transport(machine: str, needs: str | None) -> None:
    assert CATALOG.machines[machine].nccl_needs == needs


def test_every_accelerator_that_is_sold_can_be_had() -> None:
    sold = {name for name, gpu in CATALOG.gpus.items() if not gpu.retired}
    had = {
        name
        for machine in CATALOG.machines.values()
        for name in [machine.accelerator, *machine.attach]
        if name
    }
    assert sold <= had <= CATALOG.gpus.keys()


def test_a_machine_has_gpus_or_takes_them_and_says_what_the_api_calls_them() -> None:
    for machine in CATALOG.machines.values():
        assert (machine.accelerator is None) == (not machine.accelerators)
        assert (machine.accelerator is None) == (not machine.enum and not machine.topologies)
        assert machine.tpu == bool(machine.topologies)
        assert not (machine.accelerator and machine.attach)
        for written in machine.attached_gbps:
            assert Accelerator(written).per_node in machine.counts(Accelerator(written).type)


@pytest.mark.parametrize(
    ("enum", "name"),
    [
        ("NVIDIA_TESLA_A100", "a100-40gb"),
        ("NVIDIA_H100_80GB", "h100"),
        ("NVIDIA_H100_MEGA_80GB", "h100"),  # of one machine alone
        ("NVIDIA_TESLA", None),
        ("", None),
    ],
)
def test_accelerators_by_their_names_in_the_api(enum: str, name: str | None) -> None:
    assert CATALOG.accelerator_named(enum) == name


def test_the_data_says_when_and_from_where() -> None:
    assert datetime.date.fromisoformat(CATALOG.as_of)
    assert len(CATALOG.sources) >= 3


def test_bandwidth_of_a_node_with_gpus() -> None:
    machine = CATALOG.machines["n1-highmem-96"]
    assert (machine.bandwidth(None), machine.bandwidth(Accelerator("v100:8"))) == (32, 100)


@pytest.mark.parametrize(
    ("region", "nearest"),
    [
        ("us-central1", "us"),
        ("northamerica-northeast1", "us"),
        ("southamerica-east1", "us"),
        ("europe-west15", "europe"),
        ("me-central2", "europe"),
        ("africa-south1", "europe"),
        ("asia-southeast2", "asia"),
        ("australia-southeast1", "asia"),
        ("us-central1-a", None),
        ("us", None),
        ("evil.com/us-central1", None),
        ("us-central1\n", None),
    ],
)
def test_the_multi_region_of_reduction_servers_image(region: str, nearest: str | None) -> None:
    assert rules().multi_region(region) == nearest
    if nearest:
        assert rules().reducer_image(region) == (
            f"{nearest}-docker.pkg.dev/vertex-ai-restricted/training/reductionserver:latest"
        )


def test_default_quotas_are_known_for_some_regions() -> None:
    quota = "custom_model_training_cpus"
    regions = ("us-central1", "us-east5", "us-east4", "mars-west1")
    assert [rules().default_quota(quota, region) for region in regions] == [2200, 450, 20, None]
    assert rules().default_quota("other", "us-central1") is None
