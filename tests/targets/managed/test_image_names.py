"""What the names of vendors' prebuilt images say, against the job. The names are real ones."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rsctl.targets.managed.image_names import ImageName, cuda_of, read_image_name
from tests.targets.sagemaker.rendering import reported as on_sagemaker
from tests.targets.sagemaker.rendering import sagemaker
from tests.targets.vertex import rendering as vertex

AWS = "763104351884.dkr.ecr.us-east-1.amazonaws.com"
PUBLIC = "public.ecr.aws/deep-learning-containers"
GOOGLE = "us-docker.pkg.dev/vertex-ai"
DLC = "us-docker.pkg.dev/deeplearning-platform-release/gcr.io"


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-ec2", ("gpu", "ec2", False)),
        (f"{AWS}/pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker", ("cpu", None, False)),
        (f"{PUBLIC}/pytorch:2.12-cu130-amzn2023-sagemaker", ("gpu", None, False)),
        (f"{PUBLIC}/pytorch:2.12-cpu-amzn2023-ec2", ("cpu", "ec2", False)),
        (f"{AWS}/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker",
         ("gpu", None, True)),
        (f"{AWS}/huggingface-pytorch-training:2.5.1-transformers4.49.0-gpu-py311-cu124-ubuntu22.04",
         ("gpu", None, False)),
        (f"{AWS}/tensorflow-inference:2.19.0-cpu", ("cpu", None, True)),
        (f"{AWS}/djl-inference:0.33.0-lmi15.0.0-cu128", ("gpu", None, True)),
        (f"{AWS}/pytorch-training-neuronx:2.7.0-neuronx-py310-sdk2.24.1-ubuntu22.04",
         ("neuron", None, False)),
        ("123456789012.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.8.0-gpu-py312-ec2@sha256:0",
         ("gpu", "ec2", False)),
        (f"{GOOGLE}/training/pytorch-gpu.2-4.py310:latest", ("gpu", None, False)),
        (f"{GOOGLE}/training/tf-cpu.2-17.py310:latest", ("cpu", None, False)),
        (f"{GOOGLE}/training/scikit-learn-cpu.1-6:latest", ("cpu", None, False)),
        (f"{GOOGLE}/prediction/pytorch-gpu.2-4:latest", ("gpu", None, True)),
        (f"{GOOGLE}/prediction/tf2-cpu.2-15:latest", ("cpu", None, True)),
        (f"{DLC}/pytorch-cu124.2-4.py310", ("gpu", None, False)),
        (f"{DLC}/huggingface-pytorch-training-cu121.2-3.transformers.4-42.ubuntu2204.py310",
         ("gpu", None, False)),
        (f"{DLC}/huggingface-pytorch-inference-cu121.2-2.transformers.4-44.ubuntu2204.py311",
         ("gpu", None, True)),
        (f"{DLC}/huggingface-text-embeddings-inference-cpu.1-6", ("cpu", None, True)),
        (f"{AWS}/huggingface-pytorch-tgi-inference:2.1.1-tgi1.4.0-gpu-py310-cu121-ubuntu20.04",
         ("gpu", None, True)),
        (f"{AWS}/huggingface-vllm-inference-neuronx:0.11.0-optimum0.4.4-neuronx-py310-sdk2.26.1",
         ("neuron", None, True)),
        (f"{AWS}/stabilityai-pytorch-inference:2.0.1-sgm0.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker",
         ("gpu", None, True)),
    ],
)  # fmt: skip
def test_what_a_name_says(image: str, expected: tuple[Any, ...]) -> None:
    known = read_image_name(image)
    assert known is not None
    assert (known.device, known.platform, known.is_inference) == expected


@pytest.mark.parametrize(
    "image",
    [
        "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
        "nvcr.io/nvidia/pytorch:25.01-py3",
        "me/cpu-and-gpu-bench:1.0-cpu",
        "ghcr.io/me/pytorch:2.1-cpu-ec2",
        "python:3.11-slim",
        "train:1",
        "acme/causal-inference:1.0-gpu",
        "ghcr.io/acme/resnet-training:1.4-cpu-preproc",
        "123456789012.dkr.ecr.us-east-1.amazonaws.com/my-training:2-gpu-ec2",
        "us-docker.pkg.dev/my-project/train/bert",
    ],
)
def test_names_that_say_nothing(image: str) -> None:
    assert read_image_name(image) is None


def test_googles_deep_learning_containers_start_no_package() -> None:
    assert read_image_name(f"{DLC}/pytorch-cpu.2-3.py310") == ImageName("cpu", is_bare=True)


def on_vertex(folder: Path, changes: dict[str, Any]) -> list[str]:
    return [vertex.reported(each) for each in vertex.findings_of(folder, changes)]


def image_errors(texts: list[str]) -> list[str]:
    return [text for text in texts if "according to its name" in text]


PACKAGE = {"package": "s3://bucket/t.tar.gz", "script": "t.py", "command": None}


@pytest.mark.parametrize(
    ("image", "run", "expected"),
    [
        (
            f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-ec2",
            PACKAGE,
            "for EC2, and only images for SageMaker contain its toolkit, whose program train "
            "starts a package -> use the image whose tag ends with -sagemaker",
        ),
        (
            f"{AWS}/pytorch-inference:2.6.0-gpu-py312-cu124-ubuntu22.04-sagemaker",
            PACKAGE,
            "for serving models, and does not contain what starts run.package -> use the training "
            "image of the framework",
        ),
        (
            f"{AWS}/pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker",
            {},
            "is for CPUs according to its name, but ml.g5.12xlarge has GPUs",
        ),
        (
            f"{AWS}/pytorch-training-neuronx:2.7.0-neuronx-py310-sdk2.24.1-ubuntu22.04",
            {},
            "is for AWS's Neuron according to its name, but ml.g5.12xlarge has GPUs",
        ),
        (
            f"{AWS}/pytorch-training-arm64:2.7.0-gpu-py312-cu128-ubuntu22.04-sagemaker",
            {},
            "is for Arm processors according to its name, but ml.g5.12xlarge has none",
        ),
        (
            "nvcr.io/nvidia/pytorch:25.04-py3-igpu",
            {},
            "is for Arm processors according to its name, but ml.g5.12xlarge has none",
        ),
        (f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker", PACKAGE, None),
        (f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-ec2", {}, None),
    ],
)
def test_images_of_aws(
    tmp_path: Path, image: str, run: dict[str, Any], expected: str | None
) -> None:
    changes = {
        "image": {"uri": image},
        "workers": {"count": 1, "machine": "ml.g5.12xlarge", "accelerator": "a10g:4"},
        "run": run,
        **sagemaker(staging="s3://bucket/staging"),
    }
    found = image_errors(on_sagemaker(tmp_path, changes))
    assert [text.startswith("error image.uri: ") for text in found] == [True] * bool(expected)
    assert all(expected and expected in text for text in found)


@pytest.mark.parametrize(
    ("image", "changes", "is_warned"),
    [
        (f"{GOOGLE}/training/pytorch-cpu.2-4.py310:latest", {}, True),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", {}, True),
        ("docker.io/library/python:3.12", {}, True),
        ("nvcr.io/nvidia/pytorch:25.01-py3", {}, True),
        ("nvcr.io/ea-bignlp/ga-participants/nemofw-training:23.08.03", {}, True),
        ("nvcr.io/nvaie/nemo-framework-training:23.08.03", {}, True),
        ("huggingface/transformers-pytorch-deepspeed-latest-gpu:latest", {}, True),
        ("huggingface/accelerate:gpu-release-1.0.0", {}, True),
        ("docker.io/rocm/pytorch-training:v25.6", {}, True),
        ("deepspeed/deepspeed:v072_torch112_cu117", {}, True),
        ("mosaicml/llm-foundry:2.3.0_cu121-latest", {}, True),
        ("winglian/axolotl:main-py3.11-cu124-2.4.0", {}, True),
        ("rayproject/ray-ml:2.9.0-py310-gpu", {}, True),
        ("ghcr.io/pytorch/pytorch-nightly:2.8.0.dev20250601-cuda12.8-cudnn9-devel", {}, True),
        (
            "mcr.microsoft.com/aifx/acpt/stable-ubuntu2204-cu121-py310-torch22x:biweekly.202405.1",
            {},
            True,
        ),
        ("mirror.gcr.io/pytorch/pytorch@sha256:" + "0a" * 32, {}, True),
        ("ubuntu:24.04", {}, True),
        ("123456789012.dkr.ecr.us-west-2.amazonaws.com/sagemaker-train:1", {}, False),
        ("nvcr.io/my-company/my-team/train:1", {}, False),  # NGC's registry has customers' images
        ("huggingfaceteam/train:1", {}, False),
        ("ghcr.io/me/huggingface/train:1", {}, False),
        ("registry.example:5000/nvcr.io/nvidia/pytorch:25.01-py3", {}, False),
        ("us-docker.pkg.dev/my-project/train/pytorch:1", {}, False),
        ("me/pytorch:2.8.0", {}, False),
        ("python:3.12", {"run": {"launcher": "none"}}, False),
    ],
)
def test_a_vendors_image_does_not_have_the_first_program(
    tmp_path: Path, image: str, changes: dict[str, Any], is_warned: bool
) -> None:
    """The machines of such a job start, are paid for, and cannot run it."""
    job = {"image": {"uri": image}, "workers": {"count": 1}, **changes}
    found = [text for text in on_vertex(tmp_path, job) if "rsctl-launch" in text]
    message = f"warning image.uri: {image} has the name of a vendor's image, and these do not "
    assert [text[: len(message)] for text in found] == [message] * is_warned
    with_source = {**job, "image": {"uri": image, "source": "."}, "run": {"command": ["a"]}}
    delivered = on_vertex(
        tmp_path, with_source | {"targets": {"vertex": {"staging": "gs://b-u/s"}}}
    )
    assert not [text for text in delivered if "has the name of a vendor" in text]


def test_an_image_for_gpus_on_a_machine_with_trainium(tmp_path: Path) -> None:
    image = f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker"
    workers = {"count": 1, "machine": "ml.trn1.2xlarge"}
    found = image_errors(on_sagemaker(tmp_path, {"image": {"uri": image}, "workers": workers}))
    assert found == [
        f"error image.uri: {image} is for GPUs according to its name, but ml.trn1.2xlarge has "
        "AWS's Trainium -> use the framework's image for AWS's Trainium"
    ]


@pytest.mark.parametrize(
    ("image", "accelerator", "expected"),
    [
        (f"{GOOGLE}/training/pytorch-cpu.2-4.py310:latest", "t4:1", "error image.uri: "),
        (f"{GOOGLE}/training/tf-cpu.2-17.py310:latest", "t4:1", "error image.uri: "),
        (f"{GOOGLE}/training/pytorch-cpu.2-4.py310:latest", None, None),
        (f"{GOOGLE}/training/pytorch-gpu.2-4.py310:latest", "t4:1", None),
        (f"{GOOGLE}/prediction/pytorch-gpu.2-4:latest", "t4:1", "warning image.uri: "),
    ],
)
def test_images_of_google(
    tmp_path: Path, image: str, accelerator: str | None, expected: str | None
) -> None:
    workers = {"count": 1, "accelerator": accelerator, "machine": "n1-standard-8"}
    found = image_errors(on_vertex(tmp_path, {"image": {"uri": image}, "workers": workers}))
    assert [text[: len(expected or "")] for text in found] == ([expected] if expected else [])


def test_a_package_in_an_image_of_googles_that_starts_none(tmp_path: Path) -> None:
    run = {"package": "gs://bucket/t.tar.gz", "module": "t.task", "command": None,
           "launcher": "none"}  # fmt: skip
    for image, what in (
        (
            f"{DLC}/pytorch-cpu.2-3.py310",
            "one of Google's Deep Learning Containers, which start no package -> use a prebuilt "
            "training container: us-docker.pkg.dev/vertex-ai/training/...",
        ),
        (f"{GOOGLE}/prediction/pytorch-cpu.2-4:latest", "for serving models"),
    ):
        changes = {"image": {"uri": image}, "workers": {"count": 1}, "run": run}
        (found,) = image_errors(on_vertex(tmp_path, changes))
        assert found.startswith("error image.uri: ")
        assert what in found


ON_VERTEX = f"{GOOGLE}/training/pytorch-cpu.2-4.py310:latest"
OF_AWS = f"{AWS}/pytorch-training:2.8.0-cpu-py312-ubuntu22.04-sagemaker"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"roles": {"ps": {"accelerator": "l4:1"}}}, "error image.uri: "),
        ({"roles": {"ps": {"image": ON_VERTEX, "accelerator": "l4:1"}},
          "image": {"uri": vertex.URI}}, "error roles.ps.image: "),
        ({"roles": {"ps": {"image": ON_VERTEX}}, "image": {"uri": vertex.URI}}, None),
        ({"roles": {"ps": {"accelerator": "l4:1"}, "evaluator": {"accelerator": "t4:1"}},
          "workers": {"accelerator": "l4:1"}}, "error image.uri: "),
        ({"workers": {"machine": "n1-standard-8"},
          "chief": {"machine": "n1-standard-8", "accelerator": "t4:1"}}, "error image.uri: "),
    ],
)  # fmt: skip
def test_images_of_roles_and_chiefs(
    tmp_path: Path, changes: dict[str, Any], expected: str | None
) -> None:
    job = {"image": {"uri": ON_VERTEX}, "workers": {"count": 2}} | changes
    found = image_errors(on_vertex(tmp_path, job))
    assert [text[: len(expected or "")] for text in found] == ([expected] if expected else [])


def test_an_image_of_aws_in_a_role(tmp_path: Path) -> None:
    changes = {
        "image": {"uri": OF_AWS},
        "workers": {"count": 1},
        "roles": {"ps": {"accelerator": "a10g:1"}},
        **sagemaker(staging="s3://bucket/staging"),
    }
    (found,) = image_errors(on_sagemaker(tmp_path, changes))
    assert found.startswith(f"error image.uri: {OF_AWS} is for CPUs according to its name, but ml.")


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{AWS}/pytorch-training:2.1.0-gpu-py310-cu121-ubuntu20.04-ec2",
         ["is, according to its name, for EC2, and only images for SageMaker contain smddp -> use "
          "the image whose tag ends with -sagemaker"]),
        (f"{AWS}/pytorch-inference:2.1.0-gpu-py310-cu121-ubuntu20.04-sagemaker",
         ["is, according to its name, for serving models, and does not contain what starts smddp "
          "-> use the training image of the framework"]),
        (f"{AWS}/pytorch-training:2.1.0-gpu-py310-cu121-ubuntu20.04-sagemaker", []),
    ],
)  # fmt: skip
def test_images_for_smddp(tmp_path: Path, image: str, expected: list[str]) -> None:
    changes = {
        "image": {"uri": image},
        "workers": {"count": 2, "accelerator": "a100-40gb:8"},
        "comm": {"backend": "smddp"},
    }
    found = image_errors(on_sagemaker(tmp_path, changes))
    assert [text.partition(f"{image} ")[2] for text in found] == expected


@pytest.mark.parametrize(
    ("image", "expected"),
    [
        (f"{AWS}/pytorch-training:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker", (11, 8)),
        (f"{PUBLIC}/pytorch:2.12-cu130-amzn2023-sagemaker", (13, 0)),
        (f"{DLC}/pytorch-cu124.2-4.py310", (12, 4)),
        ("pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime", (12, 8)),
        ("nvidia/cuda:11.8.0-cudnn8-runtime-ubuntu22.04", None),  # the framework comes later
        ("me/train:cu1", None),
        ("me/cu20240101:1", None),
        (f"{GOOGLE}/training/pytorch-gpu.2-4.py310:latest", None),
        ("me/train@sha256:cu118", None),
    ],
)
def test_the_cuda_of_a_name(image: str, expected: tuple[int, int] | None) -> None:
    assert cuda_of(image) == expected


OLD = f"{AWS}/pytorch-training:2.1.0-gpu-py310-cu118-ubuntu20.04-sagemaker"
NEW = f"{AWS}/pytorch-training:2.8.0-gpu-py312-cu129-ubuntu22.04-sagemaker"


@pytest.mark.parametrize(
    ("image", "machine", "accelerator", "since"),
    [
        (OLD, "ml.p6-b200.48xlarge", "b200:8", "b200 needs CUDA 12.8"),
        (NEW, "ml.p6-b200.48xlarge", "b200:8", None),
        (OLD, "ml.p5.48xlarge", "h100:8", None),
        (OLD.replace("cu118", "cu117"), "ml.p5.48xlarge", "h100:8", "h100 needs CUDA 11.8"),
        (OLD, "ml.g5.12xlarge", "a10g:4", None),
    ],
)
def test_the_cuda_of_an_image_and_the_gpus(
    tmp_path: Path, image: str, machine: str, accelerator: str, since: str | None
) -> None:
    changes = {
        "image": {"uri": image},
        "workers": {"count": 1, "machine": machine, "accelerator": accelerator},
        **sagemaker(staging="s3://bucket/staging"),
    }
    found = [text for text in on_sagemaker(tmp_path, changes) if "CUDA" in text]
    cuda = "11.7" if "cu117" in image else "11.8"
    assert found == [
        f"warning image.uri: {since} or newer, but {image} has CUDA {cuda} according to its name"
        f" -> use an image with {(since or '').partition('needs ')[2]} or newer"
    ] * bool(since)


def test_the_cuda_of_a_base_and_of_a_role(tmp_path: Path) -> None:
    """Google's images with CUDA in their names, and a base of Docker Hub."""
    changes = {
        "image": {"uri": None, "base": "pytorch/pytorch:2.4.0-cuda12.4-cudnn9-runtime",
                  "repository": vertex.IMAGE},
        "workers": {"count": 2, "machine": "a4-highgpu-8g", "accelerator": "b200:8"},
        "roles": {"evaluator": {"image": f"{DLC}/pytorch-cu113.1-11", "accelerator": "h100:8"}},
    }  # fmt: skip
    found = [text for text in on_vertex(tmp_path, changes) if "needs CUDA" in text]
    assert [text.partition(" or newer")[0] for text in found] == [
        "warning image.base: b200 needs CUDA 12.8",
        "warning roles.evaluator.image: h100 needs CUDA 11.8",
    ]
