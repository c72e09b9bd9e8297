"""The block `targets.vertex` of the spec."""

from typing import Annotated, Optional

import msgspec
from msgspec import Meta, field

from rsctl.spec.options_common import Overlay, Text


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
