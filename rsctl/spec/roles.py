"""The block `chief` of the spec: the first worker where it is not like the others."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.spec.units import Accelerator, EnvValue, Size
from rsctl.spec.values import ArgName, ArgValue, Name, PerTarget, Word


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
