"""The blocks `targets.compose` and `targets.process` of the spec."""

from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, field

from rsctl.job.units import Duration, LocalPath, Rate, Size


class Network(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The network to rehearse."""

    bandwidth: Annotated[
        Optional[Rate], Meta(description="Bandwidth of each node in each direction, such as 1Gbit.")
    ] = None
    delay: Annotated[
        Optional[Duration], Meta(description="One-way delay from each node, such as 0.5ms.")
    ] = None


class ComposeLimits(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The limits of one container."""

    cpus: Annotated[
        Optional[Annotated[float, Meta(ge=0.01, le=1024)]], Meta(description="CPU cores.")
    ] = None
    memory: Annotated[Optional[Size], Meta(description="Memory, such as 2GB.")] = None


class ComposeOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """docker compose on this machine."""

    network: Annotated[
        Network, Meta(description="Bandwidth and delay of the network in a rehearsal.")
    ] = field(default_factory=Network)
    cpus: Annotated[
        Optional[Annotated[float, Meta(ge=0.01, le=1024)]],
        Meta(description="CPU cores of each container."),
    ] = None
    memory: Annotated[
        Optional[Size], Meta(description="Memory of each container, such as 2GB.")
    ] = None
    chief: Annotated[
        ComposeLimits,
        Meta(description="Resources of the first worker, if they differ from the others'."),
    ] = field(default_factory=ComposeLimits)
    gpus: Annotated[
        Union[Literal["auto"], Annotated[int, Meta(ge=0, le=1024)]],
        Meta(description="GPUs of this machine to distribute. auto: all GPUs of the machine."),
    ] = "auto"


class ProcessOptions(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Plain processes on this machine."""

    python: Annotated[
        Optional[LocalPath],
        Meta(
            description="The Python of the job's processes, such as .venv/bin/python, relative "
            "to this file. It does not need rsctl, and rsctl changes nothing in its "
            "environment. Python 3.10 or newer. Default: the Python that runs rsctl."
        ),
    ] = None
    workdir: Annotated[
        Literal["source", "copy"],
        Meta(
            description="Where the processes run: in `image.source` itself, or in a copy of it "
            "in the run's folder, so that files that a script writes next to itself "
            "do not affect the next run. The copy has the same files as an image."
        ),
    ] = "source"


def compose_options(job: Any) -> ComposeOptions:
    """The job's `targets.compose`, or the defaults."""
    options: Optional[ComposeOptions] = getattr(job.targets, "compose", None)
    return ComposeOptions() if options is None else options


def process_options(job: Any) -> ProcessOptions:
    """The job's `targets.process`, or the defaults."""
    options: Optional[ProcessOptions] = getattr(job.targets, "process", None)
    return ProcessOptions() if options is None else options
