"""`matrix`: the cells of a benchmark job and the check of their keys and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Hashable, Iterator
from typing import Any

import msgspec

from rsctl.findings import Finding, error
from rsctl.job.decode import Decoder
from rsctl.job.types import SpecType, type_at
from rsctl.job.yaml_tree import (
    Mapping,
    MappingEntry,
    Node,
    Scalar,
    Sequence,
    describe,
    is_key_path,
    quoted,
    split_path,
)

MAX_CELLS = 1000
_RESERVED = ("exclude", "include")
_ONCE = "write it once; to measure a cell several times, use the `repeat` of the bench"


def check(root: Mapping, decoder: Decoder) -> Iterator[Finding]:
    """Findings about keys that the spec does not have; values are decoded by `decoder`."""
    parts = _parts(root)
    for name, entry in _entries(root):
        if not isinstance(entry.value, Sequence):
            continue
        if name in _RESERVED:
            for index, cell in enumerate(entry.value.items):
                yield from _check_cell(cell, f"matrix.{name}[{index}]", decoder)
                if name == "exclude":
                    yield from _check_rule(cell, f"matrix.{name}[{index}]", _axes(parts), decoder)
        else:
            yield from _check_axis(entry, entry.value, decoder)
    if _size(parts) > MAX_CELLS:
        yield error("matrix", f"more than {MAX_CELLS} cells", "shorten the lists", "matrix")
    else:
        yield from _check_included(root, parts)


def _check_axis(axis: MappingEntry, values: Sequence, decoder: Decoder) -> Iterator[Finding]:
    name, path = axis.key.text, f"matrix.{axis.key.text}"
    if not values.items:
        yield axis.key.mark.error("matrix", f"no values for {name}", "list at least one", path)
    items = [(f"{path}[{index}]", value) for index, value in enumerate(values.items)]
    yield from _check_values(axis.key, path, items, decoder)
    seen = set()
    for here, value in items:
        if (key := _comparable(plain(value))) in seen:
            message = f"{name} has {describe(value)} twice"
            yield value.mark.error("matrix", message, _ONCE, here)
        seen.add(key)


def _check_included(root: Mapping, parts: dict[str, Sequence]) -> Iterator[Finding]:
    """An included cell that equals another one: nothing could tell their results apart."""
    included = parts.get("include")
    every = [_comparable({n: plain(node) for n, node in cell.items()}) for cell in cells(root)]
    own = [item for item in (included.items if included else ()) if isinstance(item, Mapping)]
    seen = set(every[: len(every) - len(own)])
    for item, key in zip(own, every[len(every) - len(own) :], strict=True):
        if key in seen:
            yield item.mark.error("matrix", "the matrix has this cell twice", _ONCE, "matrix")
        seen.add(key)


def _check_cell(cell: Node, path: str, decoder: Decoder) -> Iterator[Finding]:
    if not isinstance(cell, Mapping):
        message = f"expected a mapping of key paths to values, got {describe(cell)}"
        yield cell.mark.error("matrix", message, "write it as {workers.count: 2}", path)
        return
    for name, entry in cell.entries.items():
        here = f"{path}.{name}"
        yield from _check_values(entry.key, here, [(here, entry.value)], decoder)


def _check_values(
    key: Scalar, path: str, values: list[tuple[str, Node]], decoder: Decoder
) -> Iterator[Finding]:
    spec_type = _type_of(key.text, decoder)
    if spec_type is None:
        from rsctl.job.suggestions import path_remedy

        message = f"{quoted(key.text)} is not a key of the spec"
        yield key.mark.error("unknown-key", message, path_remedy(key.text, decoder.root), path)
        return
    for here, value in values:
        decoder.decode(value, spec_type, here)


def _check_rule(rule: Node, path: str, axes: dict[str, Any], decoder: Decoder) -> Iterator[Finding]:
    """An `exclude` that names a key which is not varied would never exclude anything."""
    for name, entry in rule.entries.items() if isinstance(rule, Mapping) else ():
        if name not in axes and _type_of(name, decoder):
            message = f"this matrix does not vary {name!r}"
            remedy = "name only keys that it varies: " + ", ".join(axes)
            yield entry.key.mark.error("matrix", message, remedy, f"{path}.{name}")


def _type_of(name: str, decoder: Decoder) -> SpecType | None:
    parts = split_path(name) if is_key_path(name) else []
    return type_at(decoder.root, parts) if parts and parts[0] != "matrix" else None


def cells(root: Mapping) -> list[dict[str, Node]]:
    """Every cell as key path -> node: the product of the axes less `exclude`, plus `include`.

    An `exclude` mapping removes the cells that agree with all of its values. Without a matrix, or
    with one of more than `MAX_CELLS` cells, which is an error, the result is empty.
    """
    parts = _parts(root)
    if _size(parts) > MAX_CELLS:
        return []
    axes = _axes(parts)
    made = itertools.product(*axes.values()) if axes else ()
    excluded, included = (_listed(parts.get(name)) for name in _RESERVED)
    all_cells = [dict(zip(axes, values, strict=True)) for values in made]
    return [c for c in all_cells if not any(_agrees(c, rule) for rule in excluded)] + included


def _entries(root: Mapping) -> list[tuple[str, MappingEntry]]:
    entry = root.entries.get("matrix")
    return list(entry.value.entries.items()) if entry and isinstance(entry.value, Mapping) else []


def _parts(root: Mapping) -> dict[str, Sequence]:
    return {name: e.value for name, e in _entries(root) if isinstance(e.value, Sequence)}


def _axes(parts: dict[str, Sequence]) -> dict[str, tuple[Node, ...]]:
    return {name: node.items for name, node in parts.items() if name not in _RESERVED}


def _size(parts: dict[str, Sequence]) -> int:
    """The number of cells before `exclude`."""
    axes = _axes(parts)
    product = math.prod(len(values) for values in axes.values()) if axes else 0
    return product + len(_listed(parts.get("include")))


def _listed(node: Sequence | None) -> list[dict[str, Node]]:
    items = node.items if node else ()
    return [{n: e.value for n, e in i.entries.items()} for i in items if isinstance(i, Mapping)]


def _agrees(cell: dict[str, Node], rule: dict[str, Node]) -> bool:
    return all(name in cell and plain(cell[name]) == plain(node) for name, node in rule.items())


def _comparable(value: Any) -> Hashable:
    """Equal for values that are equal: 1, 1.0 and true are, as in a baseline's cells."""
    if isinstance(value, dict):
        return frozenset((name, _comparable(item)) for name, item in value.items())
    return tuple(map(_comparable, value)) if isinstance(value, list) else value


def plain(node: Node) -> Any:
    """A node as Python's plain types, for comparison and display."""
    if isinstance(node, Mapping):
        return {name: plain(entry.value) for name, entry in node.entries.items()}
    if isinstance(node, Sequence):
        return [plain(item) for item in node.items]
    return node.value


def format_value(value: Any) -> str:
    """A value of a matrix as it is written on a command line."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()
