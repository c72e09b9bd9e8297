"""The job's types with the installed targets: their names, options and values for each target.

The types of `rsctl.job.job` name no target. A file is read with the targets that it names, so that
a plan imports one target and not the others. A file with mistakes, or with a target that is not
installed, is read with all of them, for the remedies.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated, Any, Literal, Optional, Union

import msgspec
from msgspec import Meta, defstruct, field
from msgspec.structs import replace

from rsctl.findings import RsctlError
from rsctl.job.inputs import Input, LocationPerTarget
from rsctl.job.job import (
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
from rsctl.job.tracking import Tracking
from rsctl.job.types import SpecType, type_at
from rsctl.job.units import Location
from rsctl.job.values import Name
from rsctl.job.yaml_tree import Mapping, Node, Scalar, Sequence, is_key_path, split_path
from rsctl.target_info import (
    BUILT_IN,
    NoOptions,
    TargetInfo,
    has_target,
    import_object,
    target_info,
    target_names,
)

_PER_TARGET = (
    ("image", "repository"),
    ("workers", "machine"),
    ("chief", "machine"),
    ("reducers", "machine"),
)
"""Keys that can have one value for each target; `machine` of each of `roles` is one, too."""


def job_type_of(root: Mapping) -> type[Job]:
    """The type of a file: with the targets that it names, or with all if one is not installed."""
    options, values, trackers = list(_with_options(root)), list(_with_values(root)), _tracked(root)
    if not all(has_target(name) for name in (*_named_alone(root), *options, *values, *trackers)):
        return complete_job()
    every = (*BUILT_IN, *values) if values else ()
    return _job_type(_ordered(options), _ordered(every), _ordered(trackers))


def complete_job() -> type[Job]:
    """The job's type with all targets that are installed."""
    names = target_names()
    return _job_type(names, names, names, names)


def type_of_key(parts: list[str | int]) -> SpecType | None:
    """The type of the value at a key path, which may be one of a target's; None if there is none.

    A key for all targets is found in `Job`; what it may hold for each target is not part of it.
    """
    if found := type_at(Job, parts):
        return found
    if parts[:1] == ["targets"] and has_target(str(parts[1])):
        return type_at(_job_type((str(parts[1]),), (), ()), parts)
    has_more = parts[:1] == ["tracking"] or _depth_of_targets(parts)
    return type_at(complete_job(), parts) if has_more else None


def with_options(job: Job, target: str, options: Any) -> Job:
    """The job with these options of a target, whether or not its file mentions them."""
    targets = job.targets
    if not hasattr(targets, target):
        known = msgspec.structs.asdict(targets)
        targets = _targets_type(_ordered((*known, target)))(**known)
    return replace(job, targets=replace(targets, **{target: options}))


def with_value(given: Any, target: str, value: Any) -> PerTarget:
    """Return the value of each target, with a new value for `target`."""
    values = given if isinstance(given, PerTarget) else PerTarget()
    if not hasattr(values, target):
        known = msgspec.structs.asdict(values)
        values = _per_target_type(_ordered((*BUILT_IN, *known, target)))(**known)
    return replace(values, **{target: value})


def _ordered(names: Iterable[str]) -> tuple[str, ...]:
    """Each name once, ours first."""
    ours = [name for name in BUILT_IN if name in set(names := tuple(names))]
    return (*ours, *sorted(set(names) - set(ours)))


def _named_alone(root: Mapping) -> Iterator[str]:
    """The targets that a file may run on."""
    yield from _texts(_at(root, "target"))
    for values, parts in _varied(root):
        if parts == ["target"]:
            yield from (text for value in values for text in _texts(value))


def _with_options(root: Mapping) -> Iterator[str]:
    """The targets that a file has options of."""
    yield from _keys(_at(root, "targets"))
    for values, parts in _varied(root):
        if parts[:1] == ["targets"]:
            yield from (str(part) for part in parts[1:2])
            if parts == ["targets"]:
                yield from (name for value in values for name in _keys(value))


def _with_values(root: Mapping) -> Iterator[str]:
    """The targets that a file has values for, of keys that can have one for each target."""
    for block, key in _PER_TARGET:
        yield from _keys(_at(_at(root, block), key))
    roles = _at(root, "roles")
    for role in _keys(roles):
        yield from _keys(_at(_at(roles, role), "machine"))
    inputs = _at(root, "inputs")
    for name in _keys(inputs):
        yield from (each for each in _keys(_at(_at(inputs, name), "uri")) if each != "local")
    for values, parts in _varied(root):
        if depth := _depth_of_targets(parts):
            yield from (str(part) for part in parts[depth : depth + 1])
            for value in values if len(parts) == depth else ():
                yield from (each for each in _keys(value) if each != "local")


def _tracked(root: Mapping) -> list[str]:
    """The keys of a file's trackers that can only be those of targets."""
    trackers = _at(root, "tracking")
    items = trackers.items if isinstance(trackers, Sequence) else ()
    names = [name for item in items for name in _keys(item)]
    if _at(root, "matrix") and any(parts[:1] == ["tracking"] for _, parts in _varied(root)):
        names += BUILT_IN
    return [name for name in names if name not in Tracking.__struct_fields__]


def _varied(root: Mapping) -> Iterator[tuple[Iterable[Node], list[str | int]]]:
    """The values and the key paths of a file's matrix, those of single cells too."""
    matrix = _at(root, "matrix")
    for name in _keys(matrix):
        entry = _at(matrix, name)
        items = entry.items if isinstance(entry, Sequence) else ()
        if is_key_path(name) and name not in ("include", "exclude"):
            yield items, split_path(name)
            continue
        for cell in items:
            for key in _keys(cell):
                if is_key_path(key) and (value := _at(cell, key)):
                    yield (value,), split_path(key)


def _depth_of_targets(parts: list[str | int]) -> int:
    """Where in a key path the name of a target can stand; 0 if nowhere."""
    if tuple(parts[:2]) in _PER_TARGET:
        return 2
    is_other = (*parts[:1], *parts[2:3]) in {("roles", "machine"), ("inputs", "uri")}
    return 3 if is_other and parts[3:4] != ["local"] else 0


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
def _job_type(
    options: tuple[str, ...],
    values: tuple[str, ...],
    trackers: tuple[str, ...],
    names: tuple[str, ...] = (),
) -> type[Job]:
    """The job with the options of some targets, values for each of some, and trackers of some.

    `names` are the targets that it can be for, where this is not known to be right.
    """
    changes: dict[str, Any] = {"targets": _targets_type(options)} if options else {}
    if values:
        changes |= _blocks(values)
    if trackers:
        changes["tracking"] = list[_tracking_type(trackers)]  # type: ignore[misc]
    if names:
        changes["target"] = Literal[names]
    made: type[Job] = _changed(Job, changes) if changes else Job
    return made


def _blocks(targets: tuple[str, ...]) -> dict[str, Any]:
    """The blocks of the job of which some key can have one value for each of these targets."""
    word: Any = Union[Word, _per_target_type(targets), None]
    several: Any = Annotated[list[Word], Meta(min_length=1)]
    machines: Any = Union[Word, several, _machines_per_target_type(targets), None]
    reducers: Any = Union[Word, _per_target_type(targets)]
    role: Any = _changed(Role, {"machine": word})
    location: Any = Union[Location, _location_per_target_type(targets)]
    return {
        "image": _changed(Image, {"repository": word}),
        "workers": _changed(Workers, {"machine": machines}),
        "reducers": _changed(Reducers, {"machine": reducers}),
        "chief": _changed(Chief, {"machine": word}),
        "roles": dict[RoleName, role],
        "inputs": dict[Name, Union[Location, _changed(Input, {"uri": location})]],  # type: ignore[misc]
    }


@cache
def _per_target_type(targets: tuple[str, ...]) -> type[PerTarget]:
    value: Any = Optional[Text]
    made: type[PerTarget] = _each_target(PerTarget, "value", dict.fromkeys(targets, value))
    return made


def _machines_per_target_type(targets: tuple[str, ...]) -> type[PerTarget]:
    one: Any = Optional[Text]
    several: Any = Union[Text, Annotated[list[Text], Meta(min_length=1)], None]
    kinds = {}
    for name in targets:
        info = _info(name)
        kinds[name] = several if info and info.has_placements else one
    made: type[PerTarget] = _each_target(MachinesPerTarget, "machine type", kinds)
    return made


def _location_per_target_type(targets: tuple[str, ...]) -> Any:
    value: Any = Optional[Location]
    return _each_target(LocationPerTarget, "location", dict.fromkeys(targets, value))


def _each_target(base: Any, what: str, kinds: dict[str, Any]) -> Any:
    """A struct with a field for each target, of its type, which is None by default."""
    fields: list[Any] = []
    for name, kind in kinds.items():
        about = Meta(description=f"The {what} on {_title(name)}.")
        fields.append((name, Annotated[kind, about], None))
    return _struct(base, fields)


@cache
def _targets_type(targets: tuple[str, ...]) -> type[Targets]:
    fields: list[Any] = []
    for name in targets:
        options = _options_type(name)
        about = Meta(description=f"{_title(name)}.")
        annotation = Annotated[options, about]  # type: ignore[valid-type]
        fields.append((name, annotation, field(default_factory=options)))
    made: type[Targets] = _struct(Targets, fields)
    return made


def _tracking_type(targets: tuple[str, ...]) -> Any:
    fields: list[Any] = []
    for name in targets:
        info = _info(name)
        if info and info.tracker:
            value = import_object(info.tracker.value)
            kind: Any = value.__origin__
            *limits, about = value.__metadata__
            for limit in limits:
                kind = Annotated[kind, limit]
            fields.append((name, Annotated[Optional[kind], about], None))
    return _struct(Tracking, fields)


def _info(name: str) -> Optional[TargetInfo]:
    try:
        return target_info(name)
    except RsctlError:
        return None


def _options_type(name: str) -> Any:
    """The options of a target; one that cannot be imported is an error only where it is used."""
    try:
        return target_info(name).options_type()
    except (RsctlError, ImportError, AttributeError):
        return NoOptions


def _title(name: str) -> str:
    info = _info(name)
    return info.title if info else name


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
