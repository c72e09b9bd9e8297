"""How many ranks start on each node: by GPU, by NeuronCore, and as the images' toolkit counts.

Sources: aws/sagemaker-training-toolkit@3383937, runner.py (`processes_per_host`) and environment.py
(`num_neurons`); AWS's Neuron guide for the cores of a chip.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.kit.rendering import merged

from .case_parts import no_launch
from .rendering import findings_of, render, reported, sagemaker, shown

ACCOUNT = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
PYTORCH = f"{ACCOUNT}/pytorch-training:2.6.0-gpu-py312"
TENSORFLOW = f"{ACCOUNT}/tensorflow-training:2.18.0-gpu-py310-cu125-ubuntu22.04-sagemaker"
NEURON = f"{ACCOUNT}/pytorch-training-neuronx:2.1.2-neuronx-py310-sdk2.19.1-ubuntu20.04"


@pytest.fixture(autouse=True)
def _code(tmp_path: Path) -> None:
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "train.py").write_text("print()\n")


def packaged(image: str, machine: str, count: int = 2, **run: Any) -> dict[str, Any]:
    return {
        "image": {"uri": image},
        "workers": {"count": count, "machine": machine},
        "run": {"package": "code", "script": "train.py", "command": None, **run},
        **sagemaker(staging="s3://bucket/staging"),
    }


NEURON_CORES = [
    ("ml.trn1.2xlarge", "trainium", 2),
    ("ml.trn1.32xlarge", "trainium:16", 32),
    ("ml.trn1n.32xlarge", "trainium:16", 32),
    ("ml.trn2.48xlarge", "trainium2:16", 64),
]


@pytest.mark.parametrize(("machine", "accelerator", "ranks"), NEURON_CORES)
def test_a_rank_for_each_neuron_core(
    tmp_path: Path, machine: str, accelerator: str, ranks: int
) -> None:
    nodes = 1 if machine == "ml.trn1.2xlarge" else 2
    workers = {"count": nodes, "machine": machine, "accelerator": accelerator}
    plan = render(tmp_path, {"workers": workers, "run": {"launcher": "torchrun"}})
    arguments = plan["request"]["body"]["AlgorithmSpecification"]["ContainerArguments"]
    assert plan["world_size"] == nodes * ranks
    assert arguments[arguments.index("--processes") + 1] == str(ranks)


@pytest.mark.parametrize("is_named", [True, False])
@pytest.mark.parametrize(("machine", "accelerator", "ranks"), NEURON_CORES)
def test_the_toolkit_counts_neuron_cores(
    tmp_path: Path, machine: str, accelerator: str, ranks: int, is_named: bool
) -> None:
    nodes = 1 if machine == "ml.trn1.2xlarge" else 2
    job = packaged(NEURON, machine, nodes)
    job["workers"] |= {"accelerator": accelerator} if is_named else {}
    assert render(tmp_path, job)["world_size"] == nodes * ranks
    assert reported(tmp_path, job) == []


def test_mpi_of_a_package_starts_as_many(tmp_path: Path) -> None:
    job = packaged(NEURON, "ml.trn1.32xlarge", launcher="mpi")
    job["workers"]["accelerator"] = "trainium:16"
    plan = render(tmp_path, job)
    given = plan["request"]["body"]["HyperParameters"]
    assert given["sagemaker_mpi_num_of_processes_per_host"] == "32"
    assert plan["world_size"] == 64


def test_one_rank_for_each_core_shares_none(tmp_path: Path) -> None:
    workers = {"machine": "ml.trn1.32xlarge", "accelerator": "trainium:16", "processes": 32}
    assert reported(tmp_path, {"workers": workers}) == []
    assert reported(tmp_path, {"workers": {**workers, "processes": 64}}) == [
        "warning workers.processes: 64 ranks share 16 x trainium, which have 32 NeuronCores, on "
        "each node -> set workers.processes: auto"
    ]


def test_the_image_of_a_neuron_job_gets_no_plugin_of_nccl(tmp_path: Path) -> None:
    workers = {"count": 2, "machine": "ml.trn1.32xlarge", "accelerator": "trainium:16"}
    job = {"image": {"uri": None, "base": NEURON}, "workers": workers}
    (note,) = [f for f in findings_of(tmp_path, job) if f.code == "transport"]
    assert note.message == (
        "transport none: Trainium exchanges gradients with Neuron's own library, which AWS's "
        "Neuron images have"
    )


@pytest.mark.parametrize("changes", [{"comm": {"backend": "nccl"}}, {"reducers": {"count": 2}}])
def test_neither_nccl_nor_reducers_work_with_neuron_cores(
    tmp_path: Path, changes: dict[str, Any]
) -> None:
    workers = {"count": 2, "machine": "ml.trn1.32xlarge", "accelerator": "trainium:16"}
    key, text = {
        "comm": (
            "comm.backend",
            "backend nccl needs NVIDIA's GPUs, but workers.accelerator is trainium:16 -> set "
            "comm.backend: auto",
        ),
        "reducers": (
            "reducers.count",
            "Trainium exchanges gradients with Neuron's own library, which does not use reducers "
            "-> set reducers.count: 0",
        ),
    }[next(iter(changes))]
    severity = "error" if key == "comm.backend" else "warning"
    assert reported(tmp_path, {"workers": workers, **changes}) == [f"{severity} {key}: {text}"]


def test_no_reducers_are_chosen_for_neuron_cores(tmp_path: Path) -> None:
    workers = {"count": 2, "machine": "ml.trn1.32xlarge", "accelerator": "trainium:16"}
    plan = render(tmp_path, {"workers": workers, "reducers": {"count": "auto"}})
    assert [pool["role"] for pool in plan["pools"]] == ["worker"]


@pytest.mark.parametrize(
    ("machine", "ranks"), [("ml.g5.12xlarge", 4), ("ml.p4d.24xlarge", 8), ("ml.m5.xlarge", 1)]
)
def test_the_toolkit_counts_the_gpus_of_the_machine(
    tmp_path: Path, machine: str, ranks: int
) -> None:
    job = packaged(PYTORCH, machine)
    assert render(tmp_path, job)["world_size"] == 2 * ranks
    assert reported(tmp_path, job) == []


def test_the_toolkit_starts_no_fewer_ranks_than_gpus(tmp_path: Path) -> None:
    job = packaged(PYTORCH, "ml.g5.12xlarge")
    job["workers"]["processes"] = 1
    assert reported(tmp_path, job) == [
        "error workers.processes: the image's toolkit starts one rank for each GPU or "
        "NeuronCore, or one on a node without them: 4 on each node -> set workers.processes: auto"
    ]


@pytest.mark.parametrize(
    "image",
    [
        TENSORFLOW,
        f"{ACCOUNT}/huggingface-tensorflow-training:2.6.3-transformers4.17.0-gpu-py38-cu112",
        f"{ACCOUNT}/mxnet-training:1.9.0-gpu-py38",
        "683313688378.dkr.ecr.us-east-1.amazonaws.com/sagemaker-scikit-learn:1.2-1-cpu-py3",
    ],
)
def test_an_image_without_pytorch_does_not_start_torchrun(tmp_path: Path, image: str) -> None:
    job = packaged(image, "ml.g5.12xlarge")
    assert render(tmp_path, job)["world_size"] == 2
    once = packaged(image, "ml.m5.xlarge", launcher="none")
    assert reported(tmp_path, once) == []
    assert reported(tmp_path, job) == [
        f"warning run.launcher: torchrun requires PyTorch, but {image} has another framework "
        "according to its name: its toolkit starts the program once on each node -> set "
        "run.launcher: none, or mpi for Horovod",
    ]


def test_torchrun_of_rsctl_needs_pytorch_too(tmp_path: Path) -> None:
    job = {"image": {"uri": TENSORFLOW}, "workers": {"count": 2, "machine": "ml.m5.xlarge"}}
    assert reported(tmp_path, job) == [
        no_launch(TENSORFLOW),
        f"warning run.launcher: torchrun requires PyTorch, but {TENSORFLOW} has another "
        "framework according to its name -> set run.launcher: once, or mpi for Horovod",
    ]
    mixed = {**job, "image": {"uri": f"{ACCOUNT}/huggingface-pytorch-training:2.1.0-tensorflow"}}
    assert reported(tmp_path, mixed) == [no_launch(mixed["image"]["uri"])]


def test_a_hyperparameter_of_the_toolkit_changes_its_ranks(tmp_path: Path) -> None:
    given = {"sagemaker_mpi_num_of_processes_per_host": "2"}
    job = merged(packaged(PYTORCH, "ml.g5.12xlarge"), sagemaker(hyperparameters=given))
    assert render(tmp_path, job)["world_size"] == 4


def test_findings_on_a_machine_of_another_launcher_stay(tmp_path: Path) -> None:
    job = packaged(PYTORCH, "ml.g5.12xlarge", launcher="mpi")
    assert [shown(f).partition(" -> ")[0] for f in findings_of(tmp_path, job) if f.code == "machine"
            and f.severity == "warning"] == [
        "warning workers.machine: ml.g5.12xlarge has a10g:4, which a job without "
        "workers.accelerator does not use"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("workers", "expected"),
    [
        ({"processes": 6}, "error workers.processes: 6 ranks (1 x 6) cannot form a group"),
        ({"processes": 12, "count": 2}, "error workers.processes: 24 ranks (2 x 12) cannot form"),
        ({"processes": 16}, None),
        ({"processes": 1}, None),
        ({"processes": 16, "count": 2}, None),
        ({"count": 3}, None),
        (
            {"machine": "ml.trn1.2xlarge", "accelerator": "trainium", "count": 2},
            "error workers.count: 2 x ml.trn1.2xlarge cannot exchange gradients",
        ),
        ({"machine": "ml.trn1.2xlarge", "accelerator": "trainium"}, None),
        ({"machine": "ml.trn2.48xlarge", "accelerator": "trainium2:16", "processes": 6}, None),
    ],
)
def test_ranks_that_neuron_cannot_connect(
    tmp_path: Path, workers: dict[str, Any], expected: str | None
) -> None:
    trn1 = {"machine": "ml.trn1.32xlarge", "accelerator": "trainium:16", "count": 1}
    errors = [
        text
        for text in reported(tmp_path, {"workers": {**trn1, **workers}, "reducers": {"count": 0}})
        if text.startswith("error")
    ]
    assert [text[: len(expected or "")] for text in errors] == ([expected] if expected else [])
