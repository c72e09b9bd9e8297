"""Types of values that several blocks of the spec have: names, arguments, one value per target."""

from typing import TYPE_CHECKING, Annotated, Any, Union

import msgspec
from msgspec import Meta

Word = Annotated[str, Meta(pattern=r"^\S+$")]
Line = Annotated[str, Meta(pattern=r"^[^\r\n]+$")]
IMAGE = (
    r"^((localhost|(?=[^/]*[.:{])([A-Za-z0-9.-]|\{region\})+)(:[0-9]{1,5})?/)?"
    r"(?=[a-z0-9{])([a-z0-9._/-]|\{region\})+(:([A-Za-z0-9_.-]|\{region\})+)?(@[a-z0-9]+:[a-z0-9]+)?$"
)
ImageName = Annotated[str, Meta(pattern=IMAGE)]
Name = Annotated[str, Meta(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")]
MODULE = r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$"
Module = Annotated[str, Meta(pattern=MODULE)]
Package = Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9.+:=~_-]*$")]
ArgName = Annotated[str, Meta(pattern=r"^[^\s=-][^\s=]*$")]
ArgValue = Union[bool, int, float, str, list[Union[int, float, str]]]


class PerTarget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One value for each target; a single text means the same one for all."""

    # spec.installed_targets makes the type that has a field for each target.

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


def value_on(given: Any, target: str) -> Any:
    """The value on a target of what may be one for all or one for each; None if it has none."""
    return getattr(given, target, None) if isinstance(given, PerTarget) else given


class MachinesPerTarget(PerTarget, frozen=True, forbid_unknown_fields=True):
    """One machine type for each target; on a cloud it may be several, tried in order."""
