"""The blocks of the spec below `targets`: what each target needs beyond the common keys."""

from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.spec.units import Duration, Rate, Size

Text = Annotated[str, Meta(min_length=1)]
Overlay = Annotated[
    Union[dict[str, Any], list[Any]],
    Meta(
        description="Patch of the request: a mapping is a JSON Merge Patch (RFC 7386), "
        "a list a JSON Patch (RFC 6902)."
    ),
]


class VertexOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Vertex AI."""

    project: Annotated[Optional[Text], Meta(description="Google Cloud project id.")] = None
    region: Annotated[Optional[Text], Meta(description="Region, such as us-central1.")] = None
    staging: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^gs://.+")]],
        Meta(description="gs:// folder for staged files."),
    ] = None
    service_account: Annotated[Optional[Text], Meta(description="The job's service account.")] = (
        None
    )
    build_service_account: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^[^/\s]+$")]],
        Meta(description="The service account that builds images. Absent: Cloud Build's default."),
    ] = None
    network: Annotated[Optional[Text], Meta(description="VPC network to peer with.")] = None
    tensorboard: Annotated[Optional[Text], Meta(description="TensorBoard resource name.")] = None
    experiment: Annotated[Optional[Text], Meta(description="Experiment to attach to.")] = None
    labels: Annotated[dict[str, str], Meta(description="Labels of the job.")] = field(
        default_factory=dict
    )
    overlay: Overlay = field(default_factory=dict)


class SageMakerOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """SageMaker."""

    region: Annotated[Optional[Text], Meta(description="Region, such as us-east-1.")] = None
    role: Annotated[Optional[Text], Meta(description="ARN of the execution role.")] = None
    staging: Annotated[
        Optional[Annotated[str, Meta(pattern=r"^s3://.+")]],
        Meta(description="s3:// folder for staged files, such as what an image is built from."),
    ] = None
    build_role: Annotated[
        Optional[Text],
        Meta(description="ARN of the role that builds images in CodeBuild. Absent: role."),
    ] = None
    subnets: Annotated[list[str], Meta(description="Subnet ids.")] = field(default_factory=list)
    security_groups: Annotated[list[str], Meta(description="Security group ids.")] = field(
        default_factory=list
    )
    keep_alive: Annotated[
        Optional[Duration], Meta(description="Keep the machines warm for this long.")
    ] = None
    tags: Annotated[dict[str, str], Meta(description="Tags of the job.")] = field(
        default_factory=dict
    )
    overlay: Overlay = field(default_factory=dict)


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network to rehearse."""

    bandwidth: Annotated[
        Optional[Rate], Meta(description="Of each node, in each direction, such as 1Gbit.")
    ] = None
    delay: Annotated[
        Optional[Duration], Meta(description="One way, from each node, such as 0.5ms.")
    ] = None


class ComposeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """docker compose on this machine."""

    network: Annotated[Network, Meta(description="Bandwidth and delay of the rehearsal.")] = field(
        default_factory=Network
    )
    cpus: Annotated[
        Optional[Annotated[float, Meta(gt=0, le=1024)]],
        Meta(description="CPU cores of each container."),
    ] = None
    memory: Annotated[
        Optional[Size], Meta(description="Memory of each container, such as 2GB.")
    ] = None
    gpus: Annotated[
        Union[Literal["auto"], Annotated[int, Meta(ge=0, le=1024)]],
        Meta(description="GPUs of this machine to share out. auto: those that are there."),
    ] = "auto"


class ProcessOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plain processes on this machine."""


class Targets(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What each target needs beyond the common keys."""

    vertex: Annotated[VertexOptions, Meta(description="Vertex AI.")] = field(
        default_factory=VertexOptions
    )
    sagemaker: Annotated[SageMakerOptions, Meta(description="SageMaker.")] = field(
        default_factory=SageMakerOptions
    )
    compose: Annotated[ComposeOptions, Meta(description="docker compose on this machine.")] = field(
        default_factory=ComposeOptions
    )
    process: Annotated[ProcessOptions, Meta(description="Plain processes on this machine.")] = (
        field(default_factory=ProcessOptions)
    )
