"""The block `inputs` of the spec, and each input as one target gets it."""

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple, Optional, Union

import msgspec
from msgspec import Meta

from rsctl.job.units import Location
from rsctl.node import shards

if TYPE_CHECKING:
    from rsctl.job.job import Job

InputMode = Literal["mount", "copy", "stream"]
LOCAL_TARGETS = ("compose", "process")
"""The targets that `local` stands for."""


class LocationPerTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One location for each target; a single text means the same one for all."""

    # spec.installed_targets makes the type that has a field for each target.

    local: Annotated[
        Optional[Location],
        Meta(description="The location on compose and process, unless they have separate ones."),
    ] = None

    @property
    def is_empty(self) -> bool:
        """Whether it has no location at all."""
        return not any(msgspec.structs.astuple(self))

    def on(self, target: str) -> Optional[Location]:
        """The location on a target; None if it has none."""
        own: Optional[Location] = getattr(self, target, None)
        return own or (self.local if target in LOCAL_TARGETS else None)


class Input(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Data to read, and how it comes to the nodes."""

    uri: Annotated[
        Union[Location, LocationPerTarget],
        Meta(
            description="gs://BUCKET/PATH, s3://BUCKET/PATH or a local path; one for all targets, "
            "or one for each. Write shards as a range: gs://BUCKET/train-{000..127}.tar."
        ),
    ]
    mode: Annotated[
        Optional[InputMode],
        Meta(
            description="mount: read in place, as files. copy: copied to the node's disk before "
            "the start, once for all restarts. stream: read sequentially, by SageMaker (FastFile, "
            "or Pipe by targets.sagemaker.channels), or by the script, which opens the URLs of "
            "its shards. Default: mount; on SageMaker, the value in targets.sagemaker."
        ),
    ] = None


class GivenInput(NamedTuple):
    """An input on one target. `key` is the path of its location in the file."""

    name: str
    location: Location
    mode: Optional[InputMode]
    key: str

    @property
    def variable(self) -> str:
        """The variable in which the script finds the input."""
        return variable_of(self.name)

    @property
    def has_shards(self) -> bool:
        """Whether the location stands for several files by a brace range."""
        return shards.has_range(self.location)


def variable_of(name: str) -> str:
    """`RSCTL_INPUT_TRAIN` for `train`."""
    return f"RSCTL_INPUT_{name.upper()}"


def inputs_of(job: "Job", target: str) -> list[GivenInput]:
    """The inputs that have a location on a target."""
    found = (_given(name, given, target) for name, given in job.inputs.items())
    return [each for each in found if each is not None]


def without_location(job: "Job", target: str) -> list[str]:
    """The names of the inputs that have locations, and none on this target."""
    return [n for n, given in job.inputs.items() if _given(n, given, target) is None]


def locations_of(job: "Job") -> Iterator[tuple[str, Location]]:
    """All locations of all inputs, for all targets, each with its key."""
    for name, given in job.inputs.items():
        uri = given.uri if isinstance(given, Input) else given
        key = f"inputs.{name}.uri" if isinstance(given, Input) else f"inputs.{name}"
        if isinstance(uri, Location):
            yield key, uri
        if not isinstance(uri, LocationPerTarget):
            continue
        for target, location in msgspec.structs.asdict(uri).items():
            if location is not None:
                yield f"{key}.{target}", location


def _given(name: str, given: Union[Location, Input], target: str) -> Optional[GivenInput]:
    if not isinstance(given, Input):
        return GivenInput(name, given, None, f"inputs.{name}")
    key = f"inputs.{name}.uri"
    if isinstance(given.uri, Location):
        return GivenInput(name, given.uri, given.mode, key)
    location = given.uri.on(target) if isinstance(given.uri, LocationPerTarget) else None
    if location is None:
        return None
    own = target if getattr(given.uri, target, None) else "local"
    return GivenInput(name, location, given.mode, f"{key}.{own}")
