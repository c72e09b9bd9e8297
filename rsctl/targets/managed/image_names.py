"""The content of a vendor's prebuilt image by its name, and its conflicts with a job. Pure.

AWS's deep-learning containers are REPOSITORY:VERSION-DEVICE-...-PLATFORM: the repository ends with
-training or -inference, the device is cpu, gpu or cuNNN, neuron or hpu, and the platform is
sagemaker, ec2, ecs or eks. Only the images for SageMaker have its toolkit, `train`, and smddp.
Google's are .../training/FRAMEWORK-DEVICE.VERSION, .../prediction/FRAMEWORK-DEVICE.VERSION, and
those of Deep Learning Containers, FRAMEWORK-DEVICE.VERSION, which run no packages. Sources:
aws/deep-learning-containers, available_images.md; Google, "Prebuilt containers for custom training"
and "for prediction".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Optional

import msgspec

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, warning
from rsctl.job.job import Job
from rsctl.job.units import Accelerator

_FRAMEWORKS = (
    r"(?:pytorch|tensorflow|tf2?|mxnet|jax|sklearn|scikit-learn|xgboost|autogluon|vllm|djl)"
)
_AWS = re.compile(
    r"(?P<repository>(?:[a-z0-9]+-)*(?:training|inference)(?:-[a-z0-9]+)*|base|pytorch|tensorflow|"
    r"jax|vllm|sglang)"
    r":v?\d[\w.]*-(?P<rest>[\w.-]+)$"
)
_GOOGLE = re.compile(rf"(?:^|/){_FRAMEWORKS}-(?P<device>cpu|gpu|tpu)(?:[.:@-]|$)")
_GOOGLES_HOSTS = re.compile(
    r"(?:^|[/.])(?:vertex-ai(?:-restricted)?|deeplearning-platform-release|"
    r"cloud-aiplatform)/"
)
_AWS_HOSTS = re.compile(r"^\d{12}\.dkr\.ecr\.|^public\.ecr\.aws/deep-learning-containers/")
_PLATFORM = re.compile(r"(?:^|-)(ec2|ecs|eks)(?:-|$)")


class ImageName(msgspec.Struct, frozen=True):
    """The content by a name; `device` is cpu, gpu, tpu, neuron or hpu, `platform` ec2, ecs or eks.

    `is_inference` is whether it serves models, `is_bare` whether it is of Google's Deep Learning
    Containers, which do not start packages.
    """

    device: Optional[str] = None
    platform: Optional[str] = None
    is_inference: bool = False
    is_bare: bool = False


def read_image_name(image: str) -> ImageName | None:
    """The content of a vendor's image, or of a copy in another registry, by its name.

    None if it is not the name of one.
    """
    name = image.partition("@")[0]
    short = name.rpartition("/")[2].lower()
    if match := _AWS.match(short):
        repository, rest = match["repository"], match["rest"].lower()
        is_plain = "training" not in repository and "inference" not in repository
        if is_plain and not _AWS_HOSTS.match(name):
            return None
        platform = _PLATFORM.search(rest)
        return ImageName(
            device=_aws_device(f"{repository}-{rest}"),
            platform=platform[1] if platform else None,
            is_inference="inference" in repository or repository in ("vllm", "sglang"),
        )
    found = _GOOGLE.search(name.lower())
    if found or _GOOGLES_HOSTS.search(name.lower()):
        return ImageName(
            device=found["device"] if found else None,
            is_inference="/prediction/" in name,
            is_bare="deeplearning-platform-release/" in name,
        )
    return None


def _aws_device(text: str) -> str | None:
    words = text.split("-")
    for word in words:
        if word.startswith("neuron"):
            return "neuron"
    if "hpu" in words:
        return "hpu"
    if "gpu" in words or any(re.fullmatch(r"cu\d+", word) for word in words):
        return "gpu"
    return "cpu" if "cpu" in words else None


def image_name_findings(job: Job, machines: Iterable[Optional[Machine]]) -> Iterator[Finding]:
    """The conflicts between a job and what the name of its image says, on the workers' machines."""
    image = job.image.uri or job.image.base
    known = read_image_name(str(image)) if image else None
    if known is None or image is None:
        return
    path = "image.uri" if job.image.uri else "image.base"
    yield from _package_findings(job, str(image), known, path)
    if known.is_inference and job.run.package is None:
        message = f"{image} serves models according to its name, and is not made for training"
        yield warning("image-name", message, "use the training image of the framework", path)
    yield from _device_findings(job, str(image), known, machines, path)


def _package_findings(job: Job, image: str, known: ImageName, path: str) -> Iterator[Finding]:
    """The conflicts with a package, or with AWS's library for data parallelism."""
    needs = [job.run.package is not None and "run.package", job.comm.backend == "smddp" and "smddp"]
    for what in filter(None, needs):
        says = f"{image} is, according to its name, "
        if known.platform:
            lacks = "its toolkit, whose program train starts a package" * (what == "run.package")
            message = f"{says}for {known.platform.upper()}, and only images for SageMaker contain "
            message += lacks or "smddp"
            yield error("image-name", message, "use the image whose tag ends with -sagemaker", path)
        elif known.is_inference:
            message = f"{says}for serving models, and does not contain what starts {what}"
            yield error("image-name", message, "use the training image of the framework", path)
        elif known.is_bare and what == "run.package":
            message = f"{says}one of Google's Deep Learning Containers, which start no package"
            remedy = "use a prebuilt training container: us-docker.pkg.dev/vertex-ai/training/..."
            yield error("image-name", message, remedy, path)


def _device_findings(
    job: Job, image: str, known: ImageName, machines: Iterable[Optional[Machine]], path: str
) -> Iterator[Finding]:
    """An image whose framework cannot use the machines' accelerators."""
    for kind, name in _devices(job, machines):
        if known.device is None or known.device == kind:
            continue
        if known.device == "hpu" or kind == "tpu":
            continue  # no machine of the catalog has Gaudi; names of images for TPUs say little
        has = {"gpu": "GPUs", "neuron": "AWS's Trainium"}[kind]
        for_ = {"cpu": "CPUs", "gpu": "GPUs", "neuron": "AWS's Neuron", "tpu": "TPUs"}[known.device]
        message = f"{image} is for {for_} according to its name, but {name} has {has}"
        remedy = f"use the framework's image for {has}"
        # A base may get another build of the framework by image.python.
        make = error if job.image.uri else warning
        yield make("image-name", message, remedy, path)
        return


def _devices(job: Job, machines: Iterable[Optional[Machine]]) -> Iterator[tuple[str, str]]:
    for machine in machines:
        if machine is None:
            continue
        accelerator = machine.accelerator or (
            job.workers.accelerator.type if machine.attach and job.workers.accelerator else None
        )
        if machine.tpu:
            yield "tpu", machine.name
        elif accelerator:
            is_neuron = Accelerator(accelerator).is_neuron
            yield ("neuron" if is_neuron else "gpu"), machine.name
