"""The spec's type annotations, resolved into one small form for the decoder and the schema."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

import msgspec

from rsctl.job.yaml_tree import join_path

NAME = "NAME"
"""Stands for a name of the user's choice in a key path."""


class SpecType(msgspec.Struct, frozen=True):
    """A resolved type: its plain form, its choices if it is a union, and its constraints.

    `kind` is a scalar class, a Struct class, `list`, `dict`, `None`, `Any`, "literal" or "union".
    """

    kind: Any
    arguments: tuple[Any, ...] = ()
    meta: tuple[msgspec.Meta, ...] = ()

    def limit(self, name: str) -> Any:
        """The constraint of this name (`ge`, `pattern`, …), or None."""
        for meta in self.meta:
            value = getattr(meta, name)
            if value is not None:
                return value
        return None

    @property
    def choices(self) -> tuple[SpecType, ...]:
        """The members of a union; of any other type, itself."""
        return self.arguments if self.kind == "union" else (self,)

    @property
    def is_struct(self) -> bool:
        """Whether this is a mapping with known keys."""
        return isinstance(self.kind, type) and issubclass(self.kind, msgspec.Struct)

    @property
    def is_container(self) -> bool:
        """Whether this is written as a mapping or a list."""
        return self.kind in (list, dict) or self.is_struct


class Field(msgspec.Struct, frozen=True):
    """One key of a struct. `default` is meaningless if the key is required."""

    name: str
    type: SpecType
    required: bool
    default: Any


@cache
def fields_of(struct: type[msgspec.Struct]) -> dict[str, Field]:
    """The keys of a struct by name, in the order of their definition."""
    hints = get_type_hints(struct, include_extras=True)
    return {
        info.encode_name: Field(
            info.encode_name, resolve_type(hints[info.name]), info.required, _default(info)
        )
        for info in msgspec.structs.fields(struct)
    }


def _default(info: msgspec.structs.FieldInfo) -> Any:
    if info.default_factory is not msgspec.NODEFAULT:
        return info.default_factory()
    return None if info.default is msgspec.NODEFAULT else info.default


@cache
def resolve_type(annotation: Any) -> SpecType:
    """Resolve one annotation."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        inner = resolve_type(arguments[0])
        return SpecType(inner.kind, inner.arguments, (*arguments[1:], *inner.meta))
    if origin is Union:
        return SpecType("union", tuple(resolve_type(choice) for choice in arguments))
    if origin is Literal:
        return SpecType("literal", arguments)
    if origin in (list, dict):
        return SpecType(origin, tuple(resolve_type(argument) for argument in arguments))
    if annotation is type(None):
        return SpecType(None)
    return SpecType(annotation)


def type_at(root: type[msgspec.Struct], path: list[str | int]) -> SpecType | None:
    """The type of the value at a key path such as `["workers", "count"]`; None if there is none."""
    spec_type: SpecType | None = SpecType(root)
    for part in path:
        spec_type = _step(spec_type, part) if spec_type else None
    return spec_type


def _step(spec_type: SpecType, part: str | int) -> SpecType | None:
    for choice in spec_type.choices:
        found: SpecType | None = None
        if choice.is_struct and part in fields_of(choice.kind):
            found = fields_of(choice.kind)[str(part)].type
        elif choice.kind is dict and isinstance(part, str):
            found = choice.arguments[1]
        elif choice.kind is list and isinstance(part, int):
            found = choice.arguments[0]
        elif choice.kind is Any:
            found = choice
        if found:
            return found
    return None


def key_paths(spec_type: SpecType) -> Iterator[str]:
    """Every key path below a type; `NAME` stands for a key that the user chooses."""
    return (path for path, _ in keys_below(spec_type))


def keys_below(spec_type: SpecType, prefix: str = "") -> Iterator[tuple[str, Field]]:
    """Every key below a type, by the path that `key_paths` has for it."""
    for choice in spec_type.choices:
        if choice.kind is dict:
            yield from keys_below(choice.arguments[1], join_path(prefix, NAME))
        elif choice.is_struct:
            for name, field in fields_of(choice.kind).items():
                path = join_path(prefix, name)
                yield path, field
                yield from keys_below(field.type, path)
