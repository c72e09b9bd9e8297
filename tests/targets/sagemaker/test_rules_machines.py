"""Target sagemaker: rules of machines and reducers."""

from __future__ import annotations

from pathlib import Path

import pytest

from .case_parts import reducers, workers
from .rendering import REGISTRY, reported, sagemaker

KEY = "1234abcd-12ab-34cd-56ef-1234567890ab"

MACHINES = {
    "no such machine": (
        workers(machine="ml.g5.12xlagre"),
        [
            "error workers.machine: SageMaker training has no machine type 'ml.g5.12xlagre' -> "
            "did you mean ml.g5.12xlarge?"
        ],
    ),
    "a machine of EC2's": (
        workers(machine={"sagemaker": "g5.12xlarge"}),
        [
            "error workers.machine.sagemaker: SageMaker training has no machine type "
            "'g5.12xlarge' -> write ml.g5.12xlarge"
        ],
    ),
    "preferred machines that are none, twice there, or of another size": (
        {
            **workers(1, "a10g:4", machine="ml.g5.12xlarge"),
            **sagemaker(
                instance_preferences=["ml.g5.12xlagre", "ml.g5.12xlarge", "ml.g5.48xlarge"]
            ),
        },
        [
            "error targets.sagemaker.instance_preferences[0]: SageMaker training has no machine "
            "type 'ml.g5.12xlagre' -> did you mean ml.g5.12xlarge?",
            "error targets.sagemaker.instance_preferences[1]: ml.g5.12xlarge is listed twice, or "
            "is the same as workers.machine -> remove it",
            "error targets.sagemaker.instance_preferences[2]: ml.g5.48xlarge has 8 accelerators, "
            "but ml.g5.12xlarge has 4 accelerators -> use machine types with the same number, "
            "because each starts the same number of ranks",
        ],
    ),
    "a preferred machine that is none, where the workers need no volume": (
        {
            **workers(1, "a10g:4", machine="ml.g5.12xlarge"),
            **sagemaker(instance_preferences=["ml.h5.12xlarge"]),
        },
        [
            "error targets.sagemaker.instance_preferences[0]: SageMaker training has no machine "
            "type 'ml.h5.12xlarge' -> did you mean ml.r5.12xlarge?"
        ],
    ),
    "preferred machines and reducers": (
        {
            **workers(2, machine="ml.m5.large"),
            "reducers": {"count": 1},
            "image": {"transport": "auto"},
            **sagemaker(instance_preferences=["ml.m5.xlarge"]),
        },
        [
            "error targets.sagemaker.instance_preferences: SageMaker chooses among machine types "
            "only for jobs without reducers -> remove it, or set reducers.count: 0"
        ],
    ),
    "too many preferred machines, on spot": (
        {
            **workers(1, machine="ml.m5.large"),
            "limits": {"spot": True, "queue": "1h"},
            "checkpoints": "s3://bucket/c",
            **sagemaker(instance_preferences=[f"ml.m5.{n}xlarge" for n in ("", 2, 4, 12, 24)]),
        },
        [
            "error targets.sagemaker.instance_preferences: SageMaker's "
            "ResourceConfig.InstancePreferences: it has 6 items, but SageMaker allows at most 5 "
            "-> at most 4 of them, and workers.machine",
            "error limits.spot: SageMaker's EnableManagedSpotTraining: it cannot be combined "
            "with InstancePreferences -> set limits.spot: false, or remove "
            "targets.sagemaker.instance_preferences",
        ],
    ),
    "reducers on what is EC2's only": (
        reducers(2, **{"reducers": {"count": 2, "machine": "ml.c6in.32xlarge"}}),
        [
            "error reducers.machine: SageMaker training has no machine type 'ml.c6in.32xlarge' "
            "-> use one of family ml.c5n, or auto"
        ],
    ),
    "no such accelerator": (
        workers(1, "a100-40gb:4"),
        [
            "error workers.accelerator: SageMaker training has no machine type with "
            "a100-40gb:4 -> a machine type has 8 of a100-40gb"
        ],
    ),
    "a machine with other GPUs": (
        workers(1, "l4:4", machine="ml.g5.12xlarge"),
        [
            "error workers.machine: ml.g5.12xlarge has a10g:4, but workers.accelerator is l4:4 "
            "-> set workers.accelerator: a10g:4"
        ],
    ),
    "a machine without GPUs": (
        workers(1, "l4", machine="ml.c5.xlarge"),
        [
            "error workers.machine: ml.c5.xlarge has no accelerators, but workers.accelerator is "
            "l4 -> remove one of the two"
        ],
    ),
    "GPUs that nobody asked for": (
        workers(machine="ml.g5.12xlarge"),
        [
            "warning workers.machine: ml.g5.12xlarge has a10g:4, which a job without "
            "workers.accelerator does not use -> set workers.accelerator: a10g:4"
        ],
    ),
    "a volume for a machine with disks": (
        workers(1, "a10g", disk="500GB"),
        [
            "warning workers.disk: ml.g5.xlarge has built-in disks of a fixed size: SageMaker "
            "attaches no volume to it -> remove workers.disk"
        ],
    ),
    "a key for a machine with disks": (
        {**workers(1, "a10g"), **sagemaker(volume_kms_key=KEY)},
        [
            "error targets.sagemaker.volume_kms_key: SageMaker's ResourceConfig.VolumeKmsKeyId: "
            "ml.g5.xlarge has built-in disks, for which no key can be set -> remove it: the "
            "hardware encrypts these disks"
        ],
    ),
}

PLAN = "arn:aws:sagemaker:us-east-1:123456789012:training-plan/mine"

RESOURCES = {
    "a training plan for a machine that has none": (
        {**workers(1, "a10g:4"), **sagemaker(training_plan=PLAN)},
        [
            "warning targets.sagemaker.training_plan: AWS has no training plans for "
            "ml.g5.12xlarge, only for ml.p4d.24xlarge, ml.p4de.24xlarge, ml.p5.4xlarge, "
            "ml.p5.48xlarge, ml.p5e.48xlarge, ml.p5en.48xlarge, ml.p6-b200.48xlarge, "
            "ml.p6-b300.48xlarge, ml.p6e-gb200.36xlarge, ml.trn1.32xlarge, ml.trn2.48xlarge -> "
            "remove it, or use a machine type that the plan has"
        ],
    ),
    "a training plan and a key elsewhere": (
        {
            **workers(1, "h100:8"),
            **sagemaker(
                training_plan=PLAN.replace("us-east-1", "us-west-2"),
                output_kms_key=f"arn:aws:kms:eu-west-1:123456789012:key/{KEY}",
            ),
        },
        [
            "warning targets.sagemaker.training_plan: it is in us-west-2, but the job is in "
            "us-east-1 -> use one in us-east-1: {region} in its name stands for it",
            "warning targets.sagemaker.output_kms_key: it is in eu-west-1, but the job is in "
            "us-east-1 -> use one in us-east-1: {region} in its name stands for it",
        ],
    ),
    "a training plan and keys of the region": (
        {
            **workers(1, "h100:8"),
            **sagemaker(training_plan=PLAN, output_kms_key=KEY),
        },
        [],
    ),
    "an UltraServer without machines": (
        {
            **workers(2, "gb200:4", machine="ml.p6e-gb200.36xlarge"),
            **sagemaker(placement={"ultra_servers": {"us-1": 0}}),
        },
        [
            "warning image.uri: ml.p6e-gb200.36xlarge has Arm processors: the image must be for "
            "linux/arm64, and its name does not show that -> build an image for linux/arm64 and "
            "set image.uri to it, or use another machine type",
            "error targets.sagemaker.placement.ultra_servers.us-1: an UltraServer of a job has at "
            "least one of its machines -> set it to 1 or more, or remove it",
        ],
    ),
    "a placement of other machines": (
        {**workers(1, "h100:8"), **sagemaker(placement={"multiple_jobs": True})},
        [
            "error targets.sagemaker.placement: ml.p5.48xlarge is not in an UltraServer, and "
            "placement applies to UltraServers only -> remove it"
        ],
    ),
}

REDUCERS = {
    "reducers beside EFA": (
        reducers(8, 4, "h100:8"),
        [
            "warning reducers.count: ml.p5.48xlarge has its own transport (EFA, 3200 Gbit/s), "
            "which reducers do not use: to be as fast over TCP, the job would need 4 x 3200 / "
            "100 = 128 machines ml.c5n.18xlarge -> set reducers.count: 0"
        ],
    ),
    "reducers by a bandwidth that is not known": (
        reducers("auto", 2, "v100"),
        [
            "error reducers.count: the number of reducers depends on the bandwidth, and the "
            "bandwidth of ml.p3.2xlarge is unknown -> set a number"
        ],
    ),
    "reducers with GPUs": (
        reducers(2, **{"reducers": {"count": 2, "machine": "ml.g5.12xlarge"}}),
        [
            "warning reducers.machine: ml.g5.12xlarge has accelerators, which a reducer does not "
            "use -> set reducers.machine: auto"
        ],
    ),
    "reducers for one worker": (
        reducers(2, 1),
        [
            "error reducers.count: reducers need at least two workers: one alone has no gradient "
            "to exchange -> set reducers.count: 0, or workers.count: 2",
        ],
    ),
    "reducers that a foreign image does not know": (
        reducers(2, run={"launcher": "none"}),
        [
            "error reducers.count: reducers and comm: need rsctl-launch, which launcher none "
            "does not use -> use launcher torchrun or once"
        ],
    ),
    "reducers and another backend": (
        reducers(2, comm={"backend": "nccl"}),
        [
            "error comm.backend: backend nccl does not use reducers -> set comm.backend: auto",
        ],
    ),
    "a backend without its reducers": (
        {**workers(2), "comm": {"backend": "rsctl"}},
        ["error comm.backend: backend rsctl needs reducers -> set reducers.count"],
    ),
    "a backend without its GPUs": (
        {**workers(2), "comm": {"backend": "nccl"}},
        [
            "error comm.backend: backend nccl needs GPUs, and workers.accelerator names none -> "
            "set comm.backend: gloo, or set an accelerator"
        ],
    ),
    "reducers kept warm": (
        reducers(2, **sagemaker(keep_alive="30m")),
        [
            "error targets.sagemaker.keep_alive: SageMaker's "
            "ResourceConfig.KeepAlivePeriodInSeconds: SageMaker does not keep machines in groups "
            "warm, as used for reducers, chief or roles -> remove it, or use the same machine "
            "type for all"
        ],
    ),
    "reducers for spot and a training plan": (
        reducers(
            2,
            checkpoints="s3://bucket/c",
            limits={"spot": True},
            **sagemaker(
                training_plan="arn:aws:sagemaker:us-east-1:123456789012:training-plan/mine"
            ),
        ),
        [
            "warning limits.spot: AWS does not document whether spot machines are available in "
            "groups, which this job needs -> try a short job first, or set limits.spot: false",
            "warning targets.sagemaker.training_plan: AWS does not document whether a training "
            "plan supports groups of machines, and no plan has machines of several types -> try "
            "a short job first, or use the same machine type for all",
        ],
    ),
}

GB200 = workers(2, "gb200:4", machine="ml.p6e-gb200.36xlarge")
ELSEWHERE = "build an image for linux/arm64 and set image.uri to it, or use another machine type"
ARM = {
    "Arm machines are never chosen": (
        workers(2, "gb200:4"),
        [
            "error workers.accelerator: rsctl does not choose ml.p6e-gb200.36xlarge for "
            "gb200:4 by default -> set it: workers.machine: ml.p6e-gb200.36xlarge"
        ],
    ),
    "an image of which nobody knows the architecture": (
        GB200,
        [
            "warning image.uri: ml.p6e-gb200.36xlarge has Arm processors: the image must be for "
            f"linux/arm64, and its name does not show that -> {ELSEWHERE}"
        ],
    ),
    "an image that is not for Arm": (
        {**GB200, "image": {"uri": f"{REGISTRY}/job:1-x86_64"}},
        [
            "error image.uri: ml.p6e-gb200.36xlarge has Arm processors, but "
            f"{REGISTRY}/job:1-x86_64 is not for them according to its name -> {ELSEWHERE}"
        ],
    ),
    "an image for Arm": ({**GB200, "image": {"uri": f"{REGISTRY}/job:1-arm64"}}, []),
    "an image that is built here": (
        {**GB200, "image": {"uri": None, "base": "b", "repository": f"{REGISTRY}/job"}},
        [
            "error image.platform: ml.p6e-gb200.36xlarge has Arm processors, but the image is "
            "for linux/amd64 -> set image.platform: linux/arm64, or use another machine type"
        ],
    ),
    "an image that is built for Arm": (
        {
            **GB200,
            "image": {
                "uri": None,
                "base": "b",
                "repository": f"{REGISTRY}/job",
                "platform": "linux/arm64",
            },
        },
        [
            "warning image.transport: the installation of EFA's software has not been tested for "
            "linux/arm64 -> check the output of the build's last check, or set image.transport: "
            "none"
        ],
    ),
    "an image that is built for Arm, and other machines": (
        {
            "image": {
                "uri": None,
                "base": "b",
                "repository": f"{REGISTRY}/job",
                "platform": "linux/arm64",
            }
        },
        [
            "error image.platform: ml.m5.xlarge has no Arm processors, but the image is for "
            "linux/arm64 -> remove image.platform, or use a machine type with Arm processors"
        ],
    ),
    "reducers beside Arm workers": (
        {**GB200, "image": {"uri": f"{REGISTRY}/job:arm64"}, "reducers": {"count": 2}},
        [
            "error reducers.machine: ml.p6e-gb200.36xlarge has Arm processors, but "
            "ml.c5n.18xlarge does not: reducers run the workers' image -> set reducers.count: 0"
        ],
    ),
}

ALL = {**RESOURCES, **MACHINES, **REDUCERS, **ARM}


@pytest.mark.parametrize("title", ALL)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = ALL[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
