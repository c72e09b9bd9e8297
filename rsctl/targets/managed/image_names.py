"""The content of a vendor's prebuilt image by its name, and its conflicts with a job. Pure.

AWS's deep-learning containers are REPOSITORY:VERSION-DEVICE-...-PLATFORM: the repository begins
with a framework and has -training or -inference, the device is cpu, gpu or cuNNN, neuron or hpu,
and the platform is sagemaker, ec2, ecs or eks. Only the images for SageMaker have its toolkit,
`train`, and smddp.
Google's are .../training/FRAMEWORK-DEVICE.VERSION, .../prediction/FRAMEWORK-DEVICE.VERSION, and
those of Deep Learning Containers, FRAMEWORK-DEVICE.VERSION, which run no packages. Sources:
aws/deep-learning-containers, available_images.md; Google, "Prebuilt containers for custom training"
and "for prediction".
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Optional

import msgspec

from rsctl.estimate.catalog import Machine
from rsctl.findings import Finding, error, warning
from rsctl.images.package import is_packaged
from rsctl.job.job import Job
from rsctl.job.units import Accelerator
from rsctl.targets.chief import chief_job
from rsctl.targets.roles import role_job

_FRAMEWORKS = (
    r"(?:pytorch|tensorflow|tf2?|mxnet|jax|sklearn|scikit-learn|xgboost|autogluon|vllm|djl)"
)
_AWS = re.compile(
    r"(?P<repository>(?:huggingface|pytorch|tensorflow|mxnet|autogluon|djl|stabilityai|jax|vllm|sglang)"
    r"-(?:[a-z0-9]+-)*(?:training|inference)(?:-[a-z0-9]+)*|base|pytorch|tensorflow|"
    r"jax|vllm|sglang)"
    r":v?\d[\w.]*-(?P<rest>[\w.-]+)$"
)
_GOOGLE = re.compile(
    rf"(?:^|/)(?:{_FRAMEWORKS}|huggingface-[a-z]+(?:-[a-z]+)*)"
    r"-(?P<device>cpu|gpu|tpu|cu)(?:[0-9]+)?(?:[.:@-]|$)"
)
_GOOGLES_HOSTS = re.compile(
    r"(?:^|[/.])(?:vertex-ai(?:-restricted)?|deeplearning-platform-release|"
    r"cloud-aiplatform)/"
)
_AWS_HOSTS = re.compile(r"^\d{12}\.dkr\.ecr\.|^public\.ecr\.aws/deep-learning-containers/")
_PUBLIC = re.compile(
    r"(?:docker\.io/|mirror\.gcr\.io/)?(?:(?:library/)?(?:python|ubuntu|debian)|pytorch/pytorch|"
    r"tensorflow/tensorflow|nvidia/cuda|rocm/[\w./-]+|deepspeed/deepspeed|mosaicml/[\w./-]+|"
    r"huggingface/[\w./-]+|rayproject/[\w./-]+|(?:axolotlai|winglian)/axolotl)(?:[:@]|$)"
    r"|(?:nvcr\.io/(?:nvidia|nvaie|nim|hpc|ea-[\w-]+)|ghcr\.io/(?:huggingface|pytorch)|"
    r"mcr\.microsoft\.com|public\.ecr\.aws/(?:sagemaker|neuron|docker))/"
)
"""Images of vendors and of frameworks' own projects."""

_CUDA = re.compile(r"(?:^|[/:._-])cu(?:da)?([1-9][0-9])\.?([0-9])(?![0-9])")
_CUDA_SINCE = {
    **dict.fromkeys(("a100-40gb", "a100-80gb"), (11, 0)),
    **dict.fromkeys(("h100", "h200"), (11, 8)),
    **dict.fromkeys(("b200", "b300", "gb200", "rtx-pro-4500", "rtx-pro-6000"), (12, 8)),
}
"""The first CUDA that compiles for a GPU; code of an earlier one runs only if it contains PTX.

Sources: NVIDIA's compatibility guides for Ampere, Hopper and Blackwell; "CUDA GPU Compute
Capability" for the architectures.
"""

_HAS = {"gpu": "GPUs", "neuron": "AWS's Trainium"}
_FOR = {"cpu": "CPUs", "gpu": "GPUs", "neuron": "AWS's Neuron", "tpu": "TPUs"}
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
            device=("gpu" if found["device"] == "cu" else found["device"]) if found else None,
            is_inference="/prediction/" in name or "-inference-" in short,
            is_bare="deeplearning-platform-release/" in name,
        )
    return None


def cuda_of(image: str) -> tuple[int, int] | None:
    """The version of CUDA in an image's name, such as cu118 or cuda12.8; None if it has none.

    The version of `nvidia/cuda` is not read: a framework that is added brings its own CUDA.
    """
    found = _CUDA.search(image.partition("@")[0].lower())
    return (int(found[1]), int(found[2])) if found else None


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


def image_name_findings(
    job: Job, worker: Machine | None, chief: Machine | None, roles: Mapping[str, Machine]
) -> Iterator[Finding]:
    """The conflicts between a job and what the names of its images say, on its machines.

    `roles` are the machines of the job's own roles, by name.
    """
    image = job.image.uri or job.image.base
    path = "image.uri" if job.image.uri else "image.base"
    known = read_image_name(image) if image else None
    if image is not None and known is not None:
        yield from _package_findings(job, image, known, path)
        if known.is_inference and job.run.package is None:
            message = f"{image} serves models according to its name, and is not made for training"
            yield warning("image-name", message, "use the training image of the framework", path)
    if job.image.uri and job.run.is_launched and not is_packaged(job):
        yield from _launcher_findings(job.image.uri, known)
    found: dict[tuple[str | None, str], Finding] = {}  # one of each kind for an image
    for node, machine in ((job, worker), (chief_job(job), chief)):
        for finding in _machine_findings(node, machine, path):
            found.setdefault((path, finding.severity), finding)
    for name, machine in roles.items():
        own = f"roles.{name}.image" if job.roles[name].image else path
        for finding in _machine_findings(role_job(job, name), machine, own):
            found.setdefault((own, finding.severity), finding)
    yield from found.values()


def _launcher_findings(image: str, known: ImageName | None) -> Iterator[Finding]:
    """An image of a vendor, in which the job's first program does not exist."""
    if known is not None or _PUBLIC.match(image):
        message = f"{image} has the name of a vendor's image, and these do not have rsctl-launch, "
        message += "the job's first program"
        remedy = "set image.source, which delivers rsctl-launch; or image.base in place of "
        yield warning("entrypoint", message, f"{remedy}image.uri; or launcher: none", "image.uri")


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


def _machine_findings(job: Job, machine: Machine | None, path: str) -> Iterator[Finding]:
    """An image whose framework cannot use the accelerators of the workers' machine."""
    image = job.image.uri or job.image.base
    if image is None or machine is None:
        return
    wanted = job.workers.accelerator if machine.attach else None
    accelerator = machine.accelerator or (wanted and wanted.type)
    kind = _kind(machine, accelerator)
    known = read_image_name(image)
    # No machine of the catalog has Gaudi, and names of images for TPUs say little.
    if known and kind in _HAS and known.device not in (None, "hpu", kind):
        has, is_for = _HAS[kind], _FOR[str(known.device)]
        message = f"{image} is for {is_for} according to its name, but {machine.name} has {has}"
        # A base may get another build of the framework by image.python.
        make = error if job.image.uri else warning
        yield make("image-name", message, f"use the framework's image for {has}", path)
    cuda, since = cuda_of(image), _CUDA_SINCE.get(accelerator or "")
    if cuda and since and cuda < since:
        needs = f"CUDA {since[0]}.{since[1]} or newer"
        message = f"{accelerator} needs {needs}, but {image} has CUDA {cuda[0]}.{cuda[1]} "
        message += "according to its name"
        yield warning("image-name", message, f"use an image with {needs}", path)


def _kind(machine: Machine, accelerator: str | None) -> str | None:
    """The kind of a machine's accelerators, tpu, neuron or gpu; None if it has none."""
    if machine.tpu or accelerator is None:
        return "tpu" if machine.tpu else None
    return "neuron" if Accelerator(accelerator).is_neuron else "gpu"
