"""Types of the job spec: how gradients travel, and facts about the model that they are of."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta

from rsctl.job.units import Count


class Comm(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """How gradients travel; applied to an unmodified DistributedDataParallel script."""

    backend: Annotated[
        Literal["auto", "nccl", "gloo", "rsctl", "smddp"],
        Meta(description="The collective backend."),
    ] = "auto"
    bucket_mb: Annotated[
        Union[Literal["auto"], Annotated[int, Meta(ge=1, le=4096)]],
        Meta(description="Gradient bucket size in MB (DDP's bucket_cap_mb)."),
    ] = "auto"
    compression: Annotated[
        Literal["none", "fp16", "bf16", "powersgd"],
        Meta(description="PyTorch's gradient compression hook."),
    ] = "none"
    on_reducer_loss: Annotated[
        Literal["fail", "fallback"],
        Meta(
            description="Reaction to the loss of a reducer: fail, or continue with plain "
            "all-reduce."
        ),
    ] = "fail"


class Model(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Facts about the model, for advice on the network."""

    parameters: Annotated[
        Optional[Count], Meta(description="Number of parameters, such as 340M.")
    ] = None
    dtype: Annotated[
        Literal["fp32", "bf16", "fp16"],
        Meta(description="Data type of the gradients."),
    ] = "fp32"
    step_seconds: Annotated[
        Optional[Annotated[float, Meta(gt=0)]],
        Meta(description="Time of one step on one rank without communication, in seconds."),
    ] = None
    batch: Annotated[
        Optional[Annotated[int, Meta(ge=1)]], Meta(description="Samples per rank and step.")
    ] = None
    steps: Annotated[
        Optional[Count],
        Meta(
            description="Number of steps of the whole run, such as 50K, from which its price is "
            "calculated."
        ),
    ] = None
