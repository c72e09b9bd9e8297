"""The job's types with third-party targets: their names, options and values for each target.

Only a file that names such a target is read with these types.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, defstruct, field

from rsctl.findings import RsctlError
from rsctl.job.inputs import Input, LocationPerTarget
from rsctl.job.job import (
    TARGETS,
    Chief,
    Image,
    Job,
    MachinesPerTarget,
    PerTarget,
    Reducers,
    Role,
    RoleName,
    Targets,
    Word,
    Workers,
)
from rsctl.job.options_common import Text
from rsctl.job.types import SpecType, type_at
from rsctl.job.units import Location
from rsctl.job.values import Name
from rsctl.job.yaml_tree import Mapping, Node, Scalar, Sequence, is_key_path, split_path
from rsctl.target_info import NoOptions, target_info, target_names

_PER_TARGET = (
    ("image", "repository"),
    ("workers", "machine"),
    ("chief", "machine"),
    ("reducers", "machine"),
)
"""Keys that can have one value for each target; `machine` of each of `roles` is one, too."""


def job_type_of(root: Mapping) -> type[Job]:
    """The type of a file: `Job`, or one with third-party targets if the file names any."""
    return Job if all(name in TARGETS for name in _named(root)) else extended_job()


def type_of_key(parts: list[str | int]) -> SpecType | None:
    """The type of the value at a key path, which may belong to a third-party target."""
    found = type_at(Job, parts)
    is_of_target = parts[:1] == ["targets"] or _depth_of_targets(parts) > 0
    return found if found or not is_of_target else type_at(extended_job(), parts)


def extended_job() -> type[Job]:
    """The job's type with all targets that are installed."""
    others = tuple(name for name in target_names() if name not in TARGETS)
    return _job_type(others) if others else Job


def with_others(job: Job, target: str) -> Job:
    """The job with a field for the options of a third-party target."""
    if hasattr(job.targets, target):
        return job
    extended = extended_job()
    targets_type: type[Targets] = extended.__annotations__["targets"].__origin__
    values: dict[str, Any] = msgspec.structs.asdict(job)
    values["targets"] = targets_type(**msgspec.structs.asdict(job.targets))
    return extended(**values)


def per_target(job: Job, given: Any) -> PerTarget:
    """A value that each target has its own of; with the targets that the job's type knows."""
    if isinstance(given, PerTarget):
        return given
    names = [name for name in msgspec.structs.asdict(job.targets) if name not in TARGETS]
    return _per_target_type(tuple(names))() if names else PerTarget()


def _named(root: Mapping) -> Iterator[str]:
    """The texts in a file at positions for names of targets."""
    yield from _texts(_at(root, "target"))
    yield from _keys(_at(root, "targets"))
    for block, key in _PER_TARGET:
        yield from _keys(_at(_at(root, block), key))
    roles = _at(root, "roles")
    for role in _keys(roles):
        yield from _keys(_at(_at(roles, role), "machine"))
    inputs = _at(root, "inputs")
    for name in _keys(inputs):
        yield from (each for each in _keys(_at(_at(inputs, name), "uri")) if each != "local")
    matrix = _at(root, "matrix")
    for axis in _keys(matrix):
        parts = split_path(axis) if is_key_path(axis) else []
        if parts == ["target"]:
            yield from _texts(_at(matrix, axis))
        elif parts[:1] == ["targets"]:
            yield from (str(part) for part in parts[1:2])
        elif depth := _depth_of_targets(parts):
            yield from (str(part) for part in parts[depth : depth + 1])


def _depth_of_targets(parts: list[str | int]) -> int:
    """Where in a key path the name of a target can stand; 0 if nowhere."""
    if tuple(parts[:2]) in _PER_TARGET:
        return 2
    return 3 if parts[:1] == ["roles"] and parts[2:3] == ["machine"] else 0


def _at(node: Node | None, key: str) -> Node | None:
    entry = node.entries.get(key) if isinstance(node, Mapping) else None
    return entry.value if entry else None


def _keys(node: Node | None) -> Iterable[str]:
    return node.entries if isinstance(node, Mapping) else ()


def _texts(node: Node | None) -> Iterator[str]:
    for item in node.items if isinstance(node, Sequence) else (node,):
        if isinstance(item, Scalar) and item.value is not None:
            yield item.text


@cache
def _job_type(others: tuple[str, ...]) -> type[Job]:
    per: Any = _per_target_type(others)
    machines: Any = _per_target_type(others, MachinesPerTarget)
    several: Any = Annotated[list[Word], Meta(min_length=1)]
    word: Any = Union[Word, per, None]
    image = _changed(Image, {"repository": word})
    workers = _changed(Workers, {"machine": Union[Word, several, machines, None]})
    reducers = _changed(Reducers, {"machine": Union[Word, per]})
    known: Any = (*TARGETS, *others)
    names: Any = Literal[known]
    chief = _changed(Chief, {"machine": word})
    changes = {"target": names, "image": image, "workers": workers, "reducers": reducers}
    changes["chief"] = chief
    changes["roles"] = dict[RoleName, _changed(Role, {"machine": word})]  # type: ignore[misc]
    location: Any = Union[Location, _location_per_target_type(others)]
    given: Any = Union[Location, _changed(Input, {"uri": location})]
    changes["inputs"] = dict[Name, given]
    made: type[Job] = _changed(Job, {**changes, "targets": _targets_type(others)})
    return made


@cache
def _per_target_type(others: tuple[str, ...], base: type[PerTarget] = PerTarget) -> type[PerTarget]:
    fields: list[Any] = [
        (name, Annotated[Optional[Text], Meta(description=f"The value on {_title(name)}.")], None)
        for name in others
    ]
    made: type[PerTarget] = _struct(base, fields)
    return made


@cache
def _location_per_target_type(others: tuple[str, ...]) -> type[LocationPerTarget]:
    fields: list[Any] = []
    for name in others:
        about = Meta(description=f"The location on {_title(name)}.")
        fields.append((name, Annotated[Optional[Location], about], None))
    made: type[LocationPerTarget] = _struct(LocationPerTarget, fields)
    return made


def _targets_type(others: tuple[str, ...]) -> type[Targets]:
    fields: list[Any] = []
    for name in others:
        options = _options_type(name)
        annotation = Annotated[options, Meta(description=_title(name))]  # type: ignore[valid-type]
        fields.append((name, annotation, field(default_factory=options)))
    made: type[Targets] = _struct(Targets, fields)
    return made


def _options_type(name: str) -> Any:
    """The options of a target; one that cannot be imported is an error only where it is used."""
    try:
        return target_info(name).options_type()
    except (RsctlError, ImportError, AttributeError):
        return NoOptions


def _title(name: str) -> str:
    try:
        return target_info(name).title
    except RsctlError:
        return name


def _changed(base: Any, types: dict[str, Any]) -> Any:
    """A struct of which some fields have other types, with the descriptions of the old ones."""
    fields: list[Any] = []
    for info in msgspec.structs.fields(base):
        if info.name in types:
            annotation = _with_meta(types[info.name], base.__annotations__[info.name])
            fields.append((info.name, annotation, _default(types[info.name], info)))
    return _struct(base, fields)


def _default(kind: Any, info: Any) -> Any:
    if info.default_factory is msgspec.NODEFAULT:
        return field(default=info.default)
    is_struct = isinstance(kind, type) and issubclass(kind, msgspec.Struct)
    return field(default_factory=kind if is_struct else info.default_factory)


def _with_meta(new: Any, annotation: Any) -> Any:
    for meta in annotation.__metadata__:
        new = Annotated[new, meta]
    return new


def _struct(base: Any, fields: list[Any]) -> Any:
    namespace = {"__doc__": base.__doc__}
    return defstruct(
        base.__name__,
        fields,
        bases=(base,),
        module=base.__module__,
        namespace=namespace,
        frozen=True,
        forbid_unknown_fields=True,
    )
