"""Types of the job spec: how gradients travel, and facts about the model that they are of."""

from typing import Annotated, Literal, Optional, Union

import msgspec
from msgspec import Meta

from rsctl.job.local_steps import Outer
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
        Literal["none", "fp16", "bf16", "int8", "fp8", "powersgd"],
        Meta(
            description="Compression of gradients: PyTorch's hooks, or 8 bits with error feedback, "
            "which needs reducers."
        ),
    ] = "none"
    hook: Annotated[
        Optional[
            Annotated[
                str, Meta(pattern=r"^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$")
            ]
        ],
        Meta(
            description="A communication hook of DDP from the image, as MODULE:FUNCTION; its state "
            "is a process group that all-reduces by the reducers."
        ),
    ] = None
    local_steps: Annotated[
        int,
        Meta(
            description="Steps that each worker takes by itself between two exchanges of the "
            "parameters. With 1, gradients are exchanged in each step. Changes results.",
            ge=1,
            le=1_000_000,
        ),
    ] = 1
    outer: Annotated[Outer, Meta(description="The optimizer between rounds of local steps.")] = (
        Outer()
    )
    fragments: Annotated[
        int,
        Meta(
            description="Parts of the parameters that are exchanged at different steps of a round "
            "of local steps, during computation. With 1, workers wait for the exchange.",
            ge=1,
            le=1000,
        ),
    ] = 1
    quorum: Annotated[
        Optional[Annotated[int, Meta(ge=1, le=1_000_000)]],
        Meta(
            description="Number of ranks that an exchange of local steps waits for; default: all. "
            "The change of a later rank counts in its next exchange. Results depend on timing."
        ),
    ] = None
    on_reducer_loss: Annotated[
        Literal["fail", "fallback"],
        Meta(
            description="Reaction to the loss of a reducer: fail, or continue with plain "
            "all-reduce."
        ),
    ] = "fail"
    debug: Annotated[
        Literal["on", "off"],
        Meta(
            description="Whether rsctl can ask each rank what it is doing: PyTorch's Flight "
            "Recorder, and stacks on a signal. off: a stall is found, but not explained."
        ),
    ] = "on"

    @property
    def has_8_bits(self) -> bool:
        """Whether gradients travel in 8 bits, which only rsctl's reducers can add."""
        return self.compression in ("int8", "fp8")


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
