"""Jobs that can be read and are refused, and those that pass because nothing is known of them."""

from __future__ import annotations

from typing import Any

import pytest

from rsctl.targets.vertex.emulator import Behaviour
from tests.targets.vertex.emulator.conftest import CPU, Project, error, pool


def gpu(machine: str, kind: str, count: int) -> dict[str, Any]:
    return {"machineType": machine, "acceleratorType": kind, "acceleratorCount": count}


def on(machine: dict[str, Any]) -> dict[str, Any]:
    return {**pool(), "machineSpec": machine}


A100 = gpu("a2-highgpu-1g", "NVIDIA_TESLA_A100", 1)
TPU = gpu("ct5lp-hightpu-4t", "TPU_V5_LITEPOD", 4)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({}, "Required field is not set: custom_job.job_spec.worker_pool_specs"),
        ({"workerPoolSpecs": [{}, pool()]}, "the first worker pool is the primary replica"),
        ({"workerPoolSpecs": [pool(2)]}, "the first worker pool must have a replica_count of 1"),
        ({"workerPoolSpecs": [pool()] * 5}, "there are more than 4 worker pools"),
        (
            {"workerPoolSpecs": [{"machineSpec": CPU}]},
            "worker_pool_specs[0]: exactly one of container_spec and python_package_spec",
        ),
        ({"workerPoolSpecs": [pool(), pool(-1)]}, "worker_pool_specs[1]: replica_count must be at"),
        ({"workerPoolSpecs": [pool(image="")]}, "is not set: container_spec.image_uri"),
        ({"workerPoolSpecs": [on({})]}, "is not set: machine_spec.machine_type"),
        (
            {"workerPoolSpecs": [on({"machineType": "n1-standard-5"})]},
            'Machine type "n1-standard-5" is not supported.',
        ),
        (
            {"workerPoolSpecs": [on(gpu("n1-standard-16", "NVIDIA_TESLA_V100", 1))]},
            '1 accelerators "NVIDIA_TESLA_V100" are not supported for machine type',
        ),
        (
            {"workerPoolSpecs": [on({"machineType": "a2-highgpu-1g"})]},
            'Machine type "a2-highgpu-1g" needs its accelerators: [1]',
        ),
        (
            {"workerPoolSpecs": [on({**CPU, "acceleratorType": "NVIDIA_TESLA_T4"})]},
            "accelerator_type and accelerator_count go together",
        ),
        (
            {"workerPoolSpecs": [on(gpu("n1-standard-4", "NVIDIA_TESLA_K80", 1))]},
            'Accelerator "NVIDIA_TESLA_K80" is not supported',
        ),
        (
            {
                "workerPoolSpecs": [
                    on({**CPU, "reservationAffinity": {"reservationAffinityType": 3}})
                ]
            },
            "SPECIFIC_RESERVATION needs key and values",
        ),
        (
            {"workerPoolSpecs": [pool(env=[{"name": f"V{n}"} for n in range(101)])]},
            "container_spec.env has 101 variables, more than 100",
        ),
        ({"workerPoolSpecs": [pool(env=[{"name": "A"}, {"name": "A"}])]}, "has a name twice"),
        ({"workerPoolSpecs": [pool(env=[{"name": "1A"}])]}, "'1A' is not the name of a variable"),
        (
            {"workerPoolSpecs": [pool(env=[{"name": "A", "value": "it's"}])]},
            "container_spec.env[0].value: Env vars cannot contain any unescaped apostrophe "
            "character '",
        ),
        (
            {"workerPoolSpecs": [pool(args=["x" * 60_000, "x" * 40_000])]},
            "container_spec.args: Container args should contain less than 100k characters",
        ),
        (
            {"workerPoolSpecs": [{**pool(), "diskSpec": {"bootDiskSizeGb": 50}}]},
            "boot_disk_size_gb must be from 100 to 64000",
        ),
        (
            {"workerPoolSpecs": [{**pool(), "diskSpec": {"bootDiskType": "floppy"}}]},
            "boot_disk_type is one of",
        ),
        (
            {"workerPoolSpecs": [{**pool(), "nfsMounts": [{"server": "a", "path": "b"}]}]},
            "an nfs mount needs a server and a path that begins with /",
        ),
        (
            {"workerPoolSpecs": [{**pool(), "nfsMounts": [{"server": "a", "path": "/b"}]}]},
            "an nfs mount needs a mount_point",
        ),
        (
            {"workerPoolSpecs": [{**pool(), "lustreMounts": [{"instanceIp": "10.0.0.3"}]}]},
            "a lustre mount needs instance_ip, volume_handle and filesystem; "
            "worker_pool_specs[0]: a lustre mount needs a mount_point",
        ),
        (
            {
                "workerPoolSpecs": [pool()],
                "pscInterfaceConfig": {"dnsPeeringConfigs": [{"domain": "corp"}]},
            },
            "dns_peering_configs.domain must end with a dot",
        ),
        (
            {"workerPoolSpecs": [pool()], "serviceAccount": "a@b", "tensorboard": "7"},
            "tensorboard is not of the form projects/P/locations/L/tensorboards/ID",
        ),
        (
            {"workerPoolSpecs": [pool()], "scheduling": {"strategy": "FLEX_START"}},
            "FLEX_START is for machines with ",
        ),
        (
            {"workerPoolSpecs": [pool()], "scheduling": {"maxWaitDuration": "1s"}},
            "max_wait_duration is for the strategy FLEX_START only",
        ),
        (
            {"workerPoolSpecs": [pool()], "scheduling": {"timeout": "0s"}},
            "scheduling.timeout must be greater than 0",
        ),
        (
            {"workerPoolSpecs": [on(A100), pool()], "scheduling": {"strategy": "FLEX_START"}},
            "with FLEX_START all worker pools must have the same machine_spec",
        ),
        (
            {
                "workerPoolSpecs": [on(A100)],
                "scheduling": {"strategy": "FLEX_START", "timeout": "604801s"},
            },
            "with FLEX_START scheduling.timeout is at most 604800s",
        ),
        ({"workerPoolSpecs": [on(TPU), pool()]}, "a job with TPUs has one worker pool with one"),
        (
            {"workerPoolSpecs": [on(TPU)], "scheduling": {"strategy": "SPOT"}},
            "TPUs cannot be had with the strategy SPOT",
        ),
        (
            {
                "workerPoolSpecs": [pool()],
                "tensorboard": "projects/p/locations/l/tensorboards/1",
            },
            "service_account is required with tensorboard",
        ),
        ({"workerPoolSpecs": [pool()], "network": "vpc"}, "network is not of the form"),
        (
            {
                "workerPoolSpecs": [on(gpu("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8))],
                "network": "projects/1/global/networks/n",
            },
            "VPC peering is not supported with these accelerators",
        ),
        ({"workerPoolSpecs": [pool()], "serviceAccount": "me"}, "is not an email address"),
        (
            {"workerPoolSpecs": [pool()], "baseOutputDirectory": {"outputUriPrefix": "/x"}},
            "output_uri_prefix must begin with gs://BUCKET",
        ),
        (
            {"workerPoolSpecs": [pool()], "persistentResourceId": "mine"},
            "The PersistentResource mine does not exist",
        ),
    ],
)
def test_what_is_refused(project: Project, spec: dict[str, Any], message: str) -> None:
    answer = project.session.post(project.url, json={"displayName": "j", "jobSpec": spec})
    status, kind, said = error(answer)
    assert (status, kind) == (400, "INVALID_ARGUMENT")
    assert message in said
    assert project.emulator.jobs.records == {}


@pytest.mark.parametrize(
    ("job", "message"),
    [
        ({"displayName": ""}, "Required field is not set: custom_job.display_name"),
        ({"displayName": "x" * 129}, "display_name has more than 128 characters"),
        ({"labels": {"Team": "a"}}, "Invalid label key: 'Team'"),
        ({"labels": {"team": "A B"}}, "Invalid label value of team: 'A B'"),
        ({"labels": {"a" * 64: ""}}, "Invalid label key"),
        ({"labels": {"_a": ""}}, "Invalid label key: '_a'"),
        ({"labels": {"a": "b" * 64}}, "Invalid label value of a"),
        ({"labels": {f"l{n}": "" for n in range(65)}}, "there are more than 64 labels"),
    ],
)
def test_names_and_labels(project: Project, job: dict[str, Any], message: str) -> None:
    body = {"displayName": "j", "jobSpec": {"workerPoolSpecs": [pool()]}, **job}
    status, kind, said = error(project.session.post(project.url, json=body))
    assert (status, kind, message in said) == (400, "INVALID_ARGUMENT", True)


def test_labels_at_their_limits_pass(project: Project) -> None:
    labels = {"a" * 63: "b" * 63, "1a": "", **{f"l{number}": "-" for number in range(62)}}
    spec = {"workerPoolSpecs": [pool()]}
    assert project.create(displayName="j", labels=labels, jobSpec=spec)["labels"] == labels


def test_texts_at_their_limits_pass(project: Project) -> None:
    env = [{"name": "A", "value": "it\\'s"}]
    container = pool(env=env, args=["x" * 60_000, "x" * 39_999])
    machine = gpu("a3-highgpu-8g", "NVIDIA_H100_80GB", 8)
    spec = {"workerPoolSpecs": [{**container, "machineSpec": machine}]}
    network = "projects/1/global/networks/n"
    project.create(displayName="j", jobSpec={**spec, "network": network})


def test_what_the_catalogue_does_not_know_passes(project: Project, behaviour: Behaviour) -> None:
    behaviour.persistent_resources = ["mine"]
    project.create(displayName="c3", jobSpec={"workerPoolSpecs": [on({"machineType": "c3-x-4"})]})
    spec = {"workerPoolSpecs": [on({})], "persistentResourceId": "mine"}
    project.create(displayName="persistent", jobSpec=spec)
    project.create(displayName="tpu", jobSpec={"workerPoolSpecs": [on(TPU)]})


def test_a_package_needs_an_image_a_place_and_a_module(project: Project) -> None:
    package = {"packageUris": ["https://b/p.tar.gz"], "env": [{"name": "1"}]}
    spec = {"workerPoolSpecs": [{"machineSpec": CPU, "pythonPackageSpec": package}]}
    answer = project.session.post(project.url, json={"displayName": "j", "jobSpec": spec})
    at = "worker_pool_specs[0]: "
    assert error(answer) == (
        400,
        "INVALID_ARGUMENT",
        f"{at}python_package_spec.env: '1' is not the name of a variable; "
        f"{at}Required field is not set: python_package_spec.executor_image_uri; "
        f"{at}Required field is not set: python_package_spec.python_module; "
        f"{at}python_package_spec.package_uris: 'https://b/p.tar.gz' is not a Cloud Storage object",
    )


RESERVED = {"reservationAffinity": {"reservationAffinityType": "ANY_RESERVATION"}}
L4 = gpu("g2-standard-4", "NVIDIA_L4", 1)
H200 = gpu("a3-ultragpu-8g", "NVIDIA_H200_141GB", 8)
MEGA = gpu("a3-megagpu-8g", "NVIDIA_H100_MEGA_80GB", 8)
NFS = {"nfsMounts": [{"server": "10.0.0.2", "path": "/a", "mountPoint": "a"}]}


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        (
            {"workerPoolSpecs": [{**on(H200), "diskSpec": {"bootDiskType": "pd-ssd"}}]},
            'Disk type "pd-ssd" is not supported for machine type "a3-ultragpu-8g".',
        ),
        (
            {
                "workerPoolSpecs": [on({**L4, **RESERVED})],
                "scheduling": {"strategy": "FLEX_START"},
            },
            "Reservations cannot be used with the strategy FLEX_START",
        ),
        (
            {"workerPoolSpecs": [on({**L4, **RESERVED})], "persistentResourceId": "mine"},
            "Reservations cannot be used on a persistent resource",
        ),
        ({"workerPoolSpecs": [{**pool(), **NFS}]}, "nfs_mounts need network or psc_interface"),
        (
            {"workerPoolSpecs": [on({"machineType": "ct6e-standard-4t"})]},
            'is not set: machine_spec.tpu_topology of "ct6e-standard-4t"',
        ),
        (
            {"workerPoolSpecs": [on({"machineType": "ct5lp-hightpu-8t", "tpuTopology": "4x4"})]},
            'TPU topology "4x4" is not supported for machine type "ct5lp-hightpu-8t".',
        ),
        (
            {"workerPoolSpecs": [on({"machineType": "ct5p-hightpu-4t"}), pool()]},
            "a job with TPUs has one worker pool with one replica",
        ),
        (
            {"workerPoolSpecs": [on(gpu("a3-highgpu-8g", "NVIDIA_H100_MEGA_80GB", 8))]},
            '8 accelerators "NVIDIA_H100_MEGA_80GB" are not supported for machine type',
        ),
        (
            {"workerPoolSpecs": [on(gpu("a3-megagpu-8g", "NVIDIA_H100_80GB", 8))]},
            '8 accelerators "NVIDIA_H100_80GB" are not supported for machine type',
        ),
    ],
)
def test_machines_with_rules_of_their_own(
    spec: dict[str, Any], message: str, project: Project, behaviour: Behaviour
) -> None:
    behaviour.persistent_resources = ["mine"]
    answer = project.session.post(project.url, json={"displayName": "j", "jobSpec": spec})
    status, kind, said = error(answer)
    assert (status, kind, message in said) == (400, "INVALID_ARGUMENT", True), said


@pytest.mark.parametrize(
    ("spec", "disk"),
    [
        ({"workerPoolSpecs": [on(MEGA)]}, "pd-ssd"),
        ({"workerPoolSpecs": [on(MEGA)], "scheduling": {"strategy": "FLEX_START"}}, "pd-ssd"),
        ({"workerPoolSpecs": [on({"machineType": "n4-highcpu-8"})]}, "pd-ssd"),
        ({"workerPoolSpecs": [on({"machineType": "m1-ultramem-160"})]}, "pd-ssd"),
        (
            {"workerPoolSpecs": [on({"machineType": "ct6e-standard-4t", "tpuTopology": "4x4"})]},
            "pd-ssd",
        ),
        ({"workerPoolSpecs": [on(H200)]}, "hyperdisk-balanced"),
        (
            {"workerPoolSpecs": [{**pool(), **NFS}], "network": "projects/1/global/networks/n"},
            "pd-ssd",
        ),
    ],
)
def test_machines_that_are_accepted_get_their_own_disk(
    spec: dict[str, Any], disk: str, project: Project
) -> None:
    job = project.create(displayName="j", jobSpec=spec)
    [made] = job["jobSpec"]["workerPoolSpecs"]
    assert made["diskSpec"]["bootDiskType"] == disk
