"""The blocks `chief` and `roles` of the spec: nodes that are not like the workers."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.units import Accelerator, EnvValue, RelativePath, Size
from rsctl.job.values import ArgName, ArgValue, ImageName, Module, Name, PerTarget, Word

RoleName = Annotated[str, Meta(pattern=r"^[a-z][a-z0-9]{0,15}(-[a-z][a-z0-9]{0,15})?$")]
"""No part of it begins with a digit, so that none is taken for a replica, such as ps-0."""

RESERVED_ROLES = ("chief", "worker", "workers", "reducer", "reducers")
"""What other nodes are called; no role is called so, or begins with it and a dash."""


class Chief(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What of `workers` and `run` is otherwise for the first worker; the rest is as there."""

    machine: Annotated[
        Union[Word, PerTarget, None],
        Meta(description="Machine type, one each target. Absent: the other workers'."),
    ] = None
    accelerator: Annotated[
        Union[Literal["none"], Accelerator, None],
        Meta(description="NAME:COUNT, or none for a chief without. Absent: the other workers'."),
    ] = None
    args: Annotated[
        Union[dict[ArgName, ArgValue], list[str], None],
        Meta(
            description="A mapping is laid over that of `run.args`, name by name, where false "
            "takes an argument away; a list stands in the place of `run.args`."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(description="Environment variables beside those of `run.env`, or in their place."),
    ] = field(default_factory=dict)
    disk: Annotated[
        Optional[Size], Meta(description="Its boot disk. Absent: the other workers'.")
    ] = None


class Role(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Nodes that are neither workers nor reducers: parameter servers, evaluators, data readers.

    Each of them starts one process, which has no rank among the workers'.
    """

    count: Annotated[int, Meta(description="Number of nodes.", ge=1, le=10_000)] = 1
    machine: Annotated[
        Union[Word, PerTarget, None],
        Meta(description="Machine type, one each target. Absent: the smallest that fits."),
    ] = None
    accelerator: Annotated[
        Optional[Accelerator],
        Meta(description="NAME:COUNT on each node, such as l4:1. Absent: CPU."),
    ] = None
    disk: Annotated[Optional[Size], Meta(description="Boot disk of each node, such as 200GB.")] = (
        None
    )
    image: Annotated[
        Optional[ImageName],
        Meta(
            description="An image of its own, used as it is: rsctl starts nothing in there, and "
            "`command` and `args` are passed as they are. Absent: the job's image."
        ),
    ] = None
    script: Annotated[
        Optional[RelativePath],
        Meta(
            description="A Python script inside image.source. Without script, module and command "
            "it runs what `run` says, which tells them apart by RSCTL_ROLE."
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
            description="Those of its own script, module or command. Where it runs what `run` "
            "says, a mapping is laid over that of `run.args`, name by name, and a list stands in "
            "its place."
        ),
    ] = None
    env: Annotated[
        dict[Name, EnvValue],
        Meta(description="Environment variables beside those of `run.env`, or in their place."),
    ] = field(default_factory=dict)
    ends: Annotated[
        Literal["with-workers", "by-itself"],
        Meta(
            description="with-workers: it is stopped when all workers have ended, whatever its "
            "exit code is then. by-itself: the job ends when it has ended, too. Before that, an "
            "exit code other than 0 is the job's failure."
        ),
    ] = "with-workers"

    @property
    def has_program(self) -> bool:
        """Whether it runs something else than `run` says."""
        return bool(self.script or self.module or self.command or self.image)
