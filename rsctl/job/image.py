"""Types of the job spec: the training container."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.units import EnvValue, LocalPath
from rsctl.job.values import ImageName, Line, Name, Package, PerTarget, Word

Transport = Literal["auto", "reduction-server", "fast-socket", "efa", "rsctl", "none"]


class Image(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The training container: built from a base, or used as it is."""

    uri: Annotated[
        Optional[ImageName],
        Meta(description="An image used as it is. Excludes the other keys but source."),
    ] = None
    base: Annotated[
        Optional[ImageName],
        Meta(description="The image to build on, such as pytorch/pytorch:TAG."),
    ] = None
    dockerfile: Annotated[
        Optional[LocalPath],
        Meta(
            description="In place of `base`: a Dockerfile of yours, whose image is built on. Its "
            "context is `source` if it lies in there, else the folder that it is in."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(description="Variables of the image (ENV), literally: `$` stands for itself."),
    ] = field(default_factory=dict)
    run: Annotated[
        list[str],
        Meta(
            description="Commands for the image's shell before packages are installed, each a RUN "
            "of its own, such as the repair of an apt key. Write $${VAR} for a variable of the "
            "shell in braces."
        ),
    ] = field(default_factory=list)
    python: Annotated[
        Union[LocalPath, list[Line], None],
        Meta(description="Python requirements: a requirements file, or a list of requirements."),
    ] = None
    apt: Annotated[
        list[Package],
        Meta(description="Debian packages to install."),
    ] = field(default_factory=list)
    source: Annotated[
        Optional[LocalPath],
        Meta(
            description="The folder that becomes /app, relative to this file. Default: '.'. With "
            "`uri` it is packed with rsctl's runtime and brought along by the staging bucket of a "
            "cloud, for which the image needs Python 3.10 or newer; then there is no default."
        ),
    ] = None
    transport: Annotated[
        Transport,
        Meta(description="The gradient transport baked into the image; auto chooses by target."),
    ] = "auto"
    repository: Annotated[
        Union[Word, PerTarget, None],
        Meta(description="Where the image is pushed; one for all targets, or one each."),
    ] = None
    platform: Annotated[
        Optional[Literal["linux/amd64", "linux/arm64"]],
        Meta(
            description="The processors that the image is for. Absent: those of the target, "
            "linux/amd64 on the clouds and this machine's on docker compose."
        ),
    ] = None

    @property
    def is_built(self) -> bool:
        """Whether rsctl builds the image."""
        return not self.uri and bool(self.base or self.dockerfile)
