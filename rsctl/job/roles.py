"""The blocks `chief` and `roles` of the spec: nodes that are not like the workers."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.units import Accelerator, EnvValue, RelativePath, Size
from rsctl.job.values import ArgName, ArgValue, ImageName, Module, Name, PerTarget, Word

RoleName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]{0,15}(-[a-z][a-z0-9]{0,15})?$")]
"""No part of it begins with a digit, so that none is taken for a replica, such as ps-0."""

RESERVED_ROLES = ("chief", "worker", "workers", "reducer", "reducers")
"""The names of other nodes; a role must not have such a name, nor start with it and a dash."""


class Chief(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The settings of `workers` and `run` that differ for the first worker; it inherits the
    others.
    """

    machine: Annotated[
        Union[Word, PerTarget, None],
        Meta(description="Machine type, one for each target. Default: as the other workers."),
    ] = None
    accelerator: Annotated[
        Union[Literal["none"], Accelerator, None],
        Meta(
            description="NAME:COUNT, or none for a chief without accelerators. Default: as the "
            "other workers."
        ),
    ] = None
    args: Annotated[
        Union[dict[ArgName, ArgValue], list[str], None],
        Meta(
            description="Arguments: a mapping overrides that of `run.args` by name, and false "
            "removes an argument; a list replaces `run.args`."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(description="Environment variables that add to or override those of `run.env`."),
    ] = field(default_factory=dict)
    disk: Annotated[
        Optional[Size], Meta(description="Boot disk. Default: as the other workers.")
    ] = None


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are neither workers nor reducers: parameter servers, evaluators, data readers.

    Each of them starts one process, which has no rank among the workers'.
    """

    count: Annotated[int, Meta(description="Number of nodes.", ge=1, le=10_000)] = 1
    machine: Annotated[
        Union[Word, PerTarget, None],
        Meta(description="Machine type, one for each target. Default: the smallest that fits."),
    ] = None
    accelerator: Annotated[
        Optional[Accelerator],
        Meta(description="NAME:COUNT on each node, such as l4:1. Default: CPU only."),
    ] = None
    disk: Annotated[Optional[Size], Meta(description="Boot disk of each node, such as 200GB.")] = (
        None
    )
    image: Annotated[
        Optional[ImageName],
        Meta(
            description="A separate image, used without changes: rsctl starts nothing in it, and "
            "passes `command` and `args` unchanged. Default: the job's image."
        ),
    ] = None
    script: Annotated[
        Optional[RelativePath],
        Meta(
            description="A Python script inside image.source. Without script, module and "
            "command, the role runs the program of `run`, which can read RSCTL_ROLE."
        ),
    ] = None
    module: Annotated[
        Optional[Module], Meta(description="A Python module, run like `python -m`.")
    ] = None
    command: Annotated[
        Optional[Annotated[list[str], Meta(min_length=1)]],
        Meta(description="A command as a list of arguments; no shell is involved."),
    ] = None
    args: Annotated[
        Union[dict[ArgName, ArgValue], list[str], None],
        Meta(
            description="Arguments of the role's script, module or command. If the role runs the "
            "program of `run`, a mapping overrides that of `run.args` by name, and a "
            "list replaces it."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(description="Environment variables that add to or override those of `run.env`."),
    ] = field(default_factory=dict)
    ends: Annotated[
        Literal["with-workers", "by-itself"],
        Meta(
            description="with-workers: the role is stopped when all workers have ended, and its "
            "exit code is then ignored. by-itself: the job also waits for the role "
            "to end. In both cases, an earlier exit code other than 0 fails the job."
        ),
    ] = "with-workers"

    @property
    def has_program(self) -> bool:
        """Whether it runs something else than `run` says."""
        return bool(self.script or self.module or self.command or self.image)
