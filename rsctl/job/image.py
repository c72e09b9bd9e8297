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
        Meta(
            description="An existing image, used without changes. It must have rsctl-launch, "
            "unless source or launcher: none is set. Excludes the other keys except source."
        ),
    ] = None
    base: Annotated[
        Optional[ImageName],
        Meta(description="The base image of the build, such as pytorch/pytorch:TAG."),
    ] = None
    dockerfile: Annotated[
        Optional[LocalPath],
        Meta(
            description="Instead of `base`: your Dockerfile, whose image is the base. Its "
            "context is `source` if the Dockerfile is in that folder, otherwise the "
            "Dockerfile's own folder."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(
            description="Variables of the image (ENV), taken literally: `$` has no special meaning."
        ),
    ] = field(default_factory=dict)
    run: Annotated[
        list[str],
        Meta(
            description="Shell commands to run before packages are installed, each as a separate "
            "RUN, for example to repair an apt key. Write $${VAR} for a shell variable in braces."
        ),
    ] = field(default_factory=list)
    python: Annotated[
        Union[LocalPath, list[Line], None],
        Meta(description="Python requirements: a requirements file, or a list of requirements."),
    ] = None
    secrets: Annotated[
        list[Name],
        Meta(
            description="Environment variables of the machine that builds, such as PIP_INDEX_URL, "
            "which exist only while `python` is installed, and for the secret mounts of "
            "`dockerfile`. Their values are in no layer, history or tag. Needs BuildKit or Podman."
        ),
    ] = field(default_factory=list)
    apt: Annotated[
        list[Package],
        Meta(description="Debian packages to install."),
    ] = field(default_factory=list)
    source: Annotated[
        Optional[LocalPath],
        Meta(
            description="The folder that becomes /app, relative to this file. Default: '.'. With "
            "`uri` it is packed with rsctl's runtime and delivered through the staging bucket of "
            "a cloud, for which the image needs Python 3.10 or newer; then there is no default."
        ),
    ] = None
    transport: Annotated[
        Transport,
        Meta(description="The gradient transport in the image; auto chooses by target."),
    ] = "auto"
    repository: Annotated[
        Union[Word, PerTarget, None],
        Meta(
            description="The repository to push the image to; one for all targets, or one for each."
        ),
    ] = None
    platform: Annotated[
        Optional[Literal["linux/amd64", "linux/arm64"]],
        Meta(
            description="The platform of the image. Default: linux/amd64 on the clouds and on "
            "Slurm, and this machine's platform on docker compose."
        ),
    ] = None

    @property
    def is_built(self) -> bool:
        """Whether rsctl builds the image."""
        return not self.uri and bool(self.base or self.dockerfile)
