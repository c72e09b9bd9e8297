"""Types of values that several blocks of the spec have: names, arguments, one value per target."""

from typing import Annotated, Any, Optional, Union

import msgspec
from msgspec import Meta

from rsctl.job.options_common import Text

Word = Annotated[str, Meta(pattern=r"^\S+$")]
Line = Annotated[str, Meta(pattern=r"^[^\r\n]+$")]
ImageName = Annotated[str, Meta(pattern=r"^[A-Za-z0-9]([A-Za-z0-9._/:@-]|\{region\})*$")]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
Module = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")]
Package = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.+:=~_-]*$")]
ArgName = Annotated[str, Meta(pattern=r"^[^\s=-][^\s=]*$")]
ArgValue = Union[bool, int, float, str, list[Union[int, float, str]]]


class PerTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value for each target; a single text means the same one for all."""

    vertex: Annotated[Optional[Text], Meta(description="The value on Vertex AI.")] = None
    sagemaker: Annotated[Optional[Text], Meta(description="The value on SageMaker.")] = None
    compose: Annotated[Optional[Text], Meta(description="The value on docker compose.")] = None
    process: Annotated[Optional[Text], Meta(description="The value on plain processes.")] = None


def value_on(given: Any, target: str) -> Any:
    """The value on a target of what may be one for all or one for each; None if it has none."""
    return getattr(given, target, None) if isinstance(given, PerTarget) else given


_Machines = Union[Text, Annotated[list[Text], Meta(min_length=1)]]
_OnVertex = Annotated[Optional[_Machines], Meta(description="The machine type on Vertex AI.")]
_OnSageMaker = Annotated[Optional[_Machines], Meta(description="The machine type on SageMaker.")]


class MachinesPerTarget(PerTarget, frozen=True, forbid_unknown_fields=True):
    """One machine type for each target; on a cloud it may be several, tried in order."""

    vertex: _OnVertex = None  # type: ignore[assignment]
    sagemaker: _OnSageMaker = None  # type: ignore[assignment]
