"""The block `targets.sagemaker` of the spec."""

from typing import Annotated, Optional

import msgspec
from msgspec import Meta, field

from rsctl.spec.options_common import Overlay, Text
from rsctl.spec.units import Duration


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
