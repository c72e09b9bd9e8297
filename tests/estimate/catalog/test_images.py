"""Which Python an image has, by its name."""

from __future__ import annotations

import pytest

from rsctl.estimate.catalog.images import check_python, too_old_python
from rsctl.job.job import Image, Job, RunBlock

VERTEX = "us-docker.pkg.dev/vertex-ai/training/"
GOOGLE = "gcr.io/deeplearning-platform-release/"


@pytest.mark.parametrize(
    ("image", "python"),
    [
        (f"{VERTEX}pytorch-gpu.1-9:latest", "3.7"),
        (f"{VERTEX}pytorch-gpu.1-13", "3.7"),
        (f"{VERTEX}tf-gpu.2-5:latest", "3.7"),
        (f"{VERTEX}tf-cpu.2-8@sha256:{'0' * 64}", "3.7"),
        (f"{GOOGLE}pytorch-gpu.1-9", "3.7"),
        (f"{GOOGLE}tf2-gpu.2-5:m80", "3.7"),
        ("tensorflow/tensorflow:2.12.0-gpu", "3.8 or older"),
        ("docker.io/tensorflow/tensorflow:2.4.1", "3.8 or older"),
        ("tensorflow/build:2.13-python3.9", "3.9"),
        ("pytorch/pytorch:1.12.1-cuda11.3-cudnn8-runtime", "3.7 or 3.8"),
        ("pytorch/pytorch:1.6.0-cuda10.1-cudnn7-devel", "3.7 or 3.8"),
        ("python:3.9-slim", "3.9"),
        ("docker.io/library/python:3.8.18", "3.8"),
        (
            "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:1.12.0-gpu-py38-cu113",
            "3.8",
        ),
        ("nvidia/cuda:11.8.0-cudnn8-devel-ubuntu20.04", "3.8"),
        ("ubuntu:18.04", "3.6"),
        ("debian:bullseye-slim", "3.9"),
        ("mirror.gcr.io/library/python:3.9", "3.9"),
        ("public.ecr.aws/docker/library/debian:11-slim", "3.9"),
        ("mirror.gcr.io/pytorch/pytorch:1.9.1-cuda11.1-cudnn8-runtime", "3.7 or 3.8"),
        ("registry.access.redhat.com/ubi8/python-39", "3.9"),
        ("registry.example:5000/ml/py38:1", "3.8"),
        ("nvcr.io/nvidia/pytorch:22.12-py3", "3.8 or older"),
        ("nvcr.io/nvidia/tensorflow:20.12-tf1-py3", "3.8 or older"),
    ],
)
def test_images_that_are_too_old(image: str, python: str) -> None:
    assert too_old_python(image) == (python, "3.10")


@pytest.mark.parametrize(
    "image",
    [
        f"{VERTEX}pytorch-gpu.2-4.py310:latest",
        f"{VERTEX}pytorch-gpu.1-13.py310:latest",
        f"{VERTEX}tf-tpu.2-15.cp310:latest",
        f"{GOOGLE}pytorch-gpu.1-13.py310",
        f"{GOOGLE}pytorch-gpu:latest",
        "pytorch/pytorch:2.8.0-cuda12.8-cudnn9-runtime",
        "pytorch/pytorch:1.13.1-cuda11.6-cudnn8-runtime",
        "pytorch/pytorch",
        "tensorflow/tensorflow:2.17.0-gpu",
        "python:3.10",
        "python:3.13-slim",
        "python:3",
        "python",
        "763104351884.dkr.ecr.us-east-1.amazonaws.com/pytorch-training:2.5.1-gpu-py311-cu124-ubuntu22.04-sagemaker",
        "nvidia/cuda:12.8.0-devel-ubuntu22.04",
        "nvcr.io/nvidia/pytorch:25.01-py3",
        "nvcr.io/nvidia/pytorch:23.10-py3",
        "registry.access.redhat.com/ubi9/python-311:1-77",
        "public.ecr.aws/docker/library/python:3.12-slim",
        "ubuntu:24.04",
        "example.com/py38/mine:1",
        "happy39:1",
    ],
)
def test_images_that_may_do(image: str) -> None:
    assert too_old_python(image) is None


def test_a_base_that_is_too_old_is_a_warning() -> None:
    base = f"{VERTEX}pytorch-gpu.1-9:latest"
    [finding] = check_python(Job("j", RunBlock(script="train.py"), image=Image(base=base)))
    assert (finding.severity, finding.code, finding.path) == ("warning", "python", "image.base")
    needs = "rsctl's runtime needs 3.10 or newer"
    assert finding.message == f"{base} has Python 3.7 according to its name, but {needs}"
    assert finding.remedy is not None
    assert finding.remedy.endswith("or use launcher none")


def test_so_is_an_image_as_it_is_but_for_launcher_none() -> None:
    image = Image(uri="tensorflow/tensorflow:2.12.0-gpu")
    [finding] = check_python(Job("j", RunBlock(command=["train"], launcher="once"), image=image))
    assert finding.path == "image.uri"
    assert not list(
        check_python(Job("j", RunBlock(command=["train"], launcher="none"), image=image))
    )
