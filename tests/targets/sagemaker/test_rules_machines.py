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
            "error workers.machine: SageMaker training has no machine 'ml.g5.12xlagre' -> did you "
            "mean ml.g5.12xlarge?"
        ],
    ),
    "a machine of EC2's": (
        workers(machine={"sagemaker": "g5.12xlarge"}),
        [
            "error workers.machine.sagemaker: SageMaker training has no machine 'g5.12xlarge' -> "
            "write ml.g5.12xlarge"
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
            "'ml.g5.12xlagre' -> did you mean ml.g5.12xlarge?",
            "error targets.sagemaker.instance_preferences[1]: ml.g5.12xlarge is listed twice, or "
            "is what workers.machine is -> remove it",
            "error targets.sagemaker.instance_preferences[2]: ml.g5.48xlarge has 8 accelerators, "
            "and ml.g5.12xlarge 4 accelerators -> take machines with as many, since as many ranks "
            "start on each",
        ],
    ),
    "a preferred machine that is none, where the workers need no volume": (
        {
            **workers(1, "a10g:4", machine="ml.g5.12xlarge"),
            **sagemaker(instance_preferences=["ml.h5.12xlarge"]),
        },
        [
            "error targets.sagemaker.instance_preferences[0]: SageMaker training has no machine "
            "'ml.h5.12xlarge' -> did you mean ml.r5.12xlarge?"
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
            "error targets.sagemaker.instance_preferences: SageMaker chooses among machines for "
            "jobs without reducers only -> remove it, or set reducers.count: 0"
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
            "ResourceConfig.InstancePreferences: it has 6 items, and SageMaker takes at most 5 -> "
            "at most 4 of them, and workers.machine",
            "error limits.spot: SageMaker's EnableManagedSpotTraining: it excludes "
            "InstancePreferences -> set limits.spot: false, or remove "
            "targets.sagemaker.instance_preferences",
        ],
    ),
    "reducers on what is EC2's only": (
        reducers(2, **{"reducers": {"count": 2, "machine": "ml.c6in.32xlarge"}}),
        [
            "error reducers.machine: SageMaker training has no machine 'ml.c6in.32xlarge' -> take "
            "one of family ml.c5n, or auto"
        ],
    ),
    "no such accelerator": (
        workers(1, "a100-40gb:4"),
        [
            "error workers.accelerator: SageMaker training has no machine with a100-40gb:4 -> a "
            "machine has 8 of a100-40gb"
        ],
    ),
    "a machine with other GPUs": (
        workers(1, "l4:4", machine="ml.g5.12xlarge"),
        [
            "error workers.machine: ml.g5.12xlarge has a10g:4, and workers.accelerator is l4:4 -> "
            "set workers.accelerator: a10g:4"
        ],
    ),
    "a machine without GPUs": (
        workers(1, "l4", machine="ml.c5.xlarge"),
        [
            "error workers.machine: ml.c5.xlarge has no accelerators, and workers.accelerator is l4"
            " -> remove one of the two"
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
            "warning workers.disk: ml.g5.xlarge has disks of its own, whose size is fixed: "
            "SageMaker attaches no volume to it -> remove workers.disk"
        ],
    ),
    "a key for a machine with disks": (
        {**workers(1, "a10g"), **sagemaker(volume_kms_key=KEY)},
        [
            "error targets.sagemaker.volume_kms_key: SageMaker's ResourceConfig.VolumeKmsKeyId: "
            "ml.g5.xlarge has disks of its own, which no key can be given for -> remove it: those "
            "disks are encrypted by their hardware"
        ],
    ),
}

REDUCERS = {
    "reducers beside EFA": (
        reducers(8, 4, "h100:8"),
        [
            "warning reducers.count: ml.p5.48xlarge brings its own transport (EFA, 3200 Gbit/s), "
            "which reducers do not use: to be as fast over TCP, 4 x 3200 / 100 = 128 machines "
            "ml.c5n.18xlarge would be needed -> set reducers.count: 0"
        ],
    ),
    "reducers by a bandwidth that is not known": (
        reducers("auto", 2, "v100"),
        [
            "error reducers.count: how many reducers it takes follows from bandwidth, and "
            "ml.p3.2xlarge's is not known -> give a number"
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
            "error reducers.count: reducers and comm: need rsctl-launch, which launcher "
            "none leaves out -> use launcher torchrun or once"
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
            "set gloo, or name an accelerator"
        ],
    ),
    "reducers kept warm": (
        reducers(2, **sagemaker(keep_alive="30m")),
        [
            "error targets.sagemaker.keep_alive: SageMaker's "
            "ResourceConfig.KeepAlivePeriodInSeconds: machines in groups, as with reducers, "
            "chief or roles, are never kept warm -> remove it, or have all machines alike"
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
            "warning limits.spot: AWS leaves open whether spot machines can be had in groups, as "
            "this job needs them -> try a short job first, or set limits.spot: false",
            "warning targets.sagemaker.training_plan: AWS leaves open whether a training plan can "
            "be used with groups of machines, and no plan has machines of several types -> try a "
            "short job first, or have all machines alike",
        ],
    ),
}

GB200 = workers(2, "gb200:4", machine="ml.p6e-gb200.36xlarge")
ELSEWHERE = "build one for linux/arm64 and give it as image.uri, or take another machine"
ARM = {
    "Arm machines are never chosen": (
        workers(2, "gb200:4"),
        [
            "error workers.accelerator: ml.p6e-gb200.36xlarge is never chosen by itself for "
            "gb200:4 -> name it: workers.machine: ml.p6e-gb200.36xlarge"
        ],
    ),
    "an image of which nobody knows the architecture": (
        GB200,
        [
            "warning image.uri: ml.p6e-gb200.36xlarge has Arm processors: the image must be for "
            f"linux/arm64, which its name does not show -> {ELSEWHERE}"
        ],
    ),
    "an image that is not for Arm": (
        {**GB200, "image": {"uri": f"{REGISTRY}/job:1-x86_64"}},
        [
            f"error image.uri: ml.p6e-gb200.36xlarge has Arm processors, and {REGISTRY}/job:"
            f"1-x86_64 is not for them by its name -> {ELSEWHERE}"
        ],
    ),
    "an image for Arm": ({**GB200, "image": {"uri": f"{REGISTRY}/job:1-arm64"}}, []),
    "an image that is built here": (
        {**GB200, "image": {"uri": None, "base": "b", "repository": f"{REGISTRY}/job"}},
        [
            "error image.platform: ml.p6e-gb200.36xlarge has Arm processors, and the image is for "
            "linux/amd64 -> set image.platform: linux/arm64, or take another machine"
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
            "error image.platform: ml.m5.xlarge has no Arm processors, and the image is for "
            "linux/arm64 -> remove image.platform, or take a machine with Arm processors"
        ],
    ),
    "reducers beside Arm workers": (
        {**GB200, "image": {"uri": f"{REGISTRY}/job:arm64"}, "reducers": {"count": 2}},
        [
            "error reducers.machine: ml.p6e-gb200.36xlarge has Arm processors and "
            "ml.c5n.18xlarge has not: reducers run the workers' image -> set reducers.count: 0"
        ],
    ),
}

ALL = {**MACHINES, **REDUCERS, **ARM}


@pytest.mark.parametrize("title", ALL)
def test_what_is_wrong_and_what_to_do(title: str, tmp_path: Path) -> None:
    changes, expected = ALL[title]
    assert sorted(reported(tmp_path, changes)) == sorted(expected)
