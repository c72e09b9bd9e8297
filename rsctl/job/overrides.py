"""`--set KEY=VALUE`: overrides a value of the file, typed and checked like the file.

A list for a key that takes one value only makes it an axis of the matrix. `KEY=null` gives the
default, `KEY=''` an empty text; `KEY=` is an error, since it is mostly a variable that is not set.
"""

from __future__ import annotations

from typing import Any

from msgspec.structs import replace

from rsctl.findings import Finding
from rsctl.job.file_text import YamlError
from rsctl.job.installed_targets import type_of_key
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import (
    MAX_DEPTH,
    Mapping,
    MappingEntry,
    Node,
    Position,
    Scalar,
    Sequence,
    describe,
    is_key_path,
    join_path,
    shorten,
    split_path,
)

_REMEDY = "write --set KEY=VALUE, such as --set workers.count=8 or --set run.args[0]=x"

_FORMS: dict[str, Any] = {"[": Sequence, "{": Mapping, '"': Scalar, "'": Scalar}

Step = tuple[Any, Position]


def apply(root: Mapping, settings: list[str], findings: list[Finding]) -> Mapping:
    """The tree with every setting applied, in order; malformed ones go to `findings`."""
    for setting in settings:
        try:
            root = _applied(root, setting, findings)
        except YamlError as problem:
            findings += problem.findings
    return root


def override(root: Mapping, path: str, value: Node) -> Mapping:
    """The tree with one node replaced, for the cells of a matrix."""
    steps = [(part, value.mark) for part in _joined(split_path(path), root)]
    return _with_entry(_with_long_form(root, steps), steps, value)


def _applied(root: Mapping, setting: str, findings: list[Finding]) -> Mapping:
    key, separator, text = setting.partition("=")
    file = "--set " + (shorten(key, 200) if key.isprintable() else repr(shorten(key, 200)))
    if not separator or not is_key_path(key) or not key.isprintable():
        raise YamlError(Position(file, 1, 1), "it is not in the form KEY=VALUE", _REMEDY)
    parts = split_path(key)
    if len(parts) > MAX_DEPTH:
        raise YamlError(Position(file, 1, 1), f"nested more than {MAX_DEPTH} levels deep", _REMEDY)
    if not text.strip():
        remedy = f"check the variable that it comes from; for the default write {key}=null, "
        remedy += f"""for an empty text "{key}=''\""""
        raise YamlError(Position(file, 1, len(key) + 2), f"no value given for {key}", remedy)
    steps = _with_positions(_joined(parts, root), file)
    value = _value(key, text, file, findings)
    axis = _as_axis(root, key, steps[0][1], value)
    if axis is not None and isinstance(value, Sequence):
        return axis
    # The key itself has the one value of an axis too: a later --set may replace the matrix.
    return _with_entry(_with_long_form(axis or root, steps), steps, value)


def _with_long_form(root: Mapping, steps: list[Step]) -> Mapping:
    """The tree with `train: {uri: URI}` for `train: URI` if a key below it is set."""
    names = [str(part) for part, _ in steps]
    inputs = root.entries.get("inputs") if names[0] == "inputs" and len(names) > 2 else None
    if inputs is None or not isinstance(inputs.value, Mapping):
        return root
    given = inputs.value.entries.get(names[1])
    if given is None or not isinstance(given.value, Scalar) or given.value.value is None:
        return root
    long = Mapping(given.value.mark).with_entry(
        MappingEntry(replace(given.key, text="uri"), given.value)
    )
    changed = inputs.value.with_entry(MappingEntry(given.key, long))
    return root.with_entry(MappingEntry(inputs.key, changed))


def _as_axis(root: Mapping, key: str, mark: Position, value: Node) -> Mapping | None:
    """The tree with the key varied by the matrix; None if the value is the key's one value.

    A list makes an axis where the key takes no list. A key that the matrix has already gets its
    values from the list, or this one value: what the file says of the key would not count there.
    """
    entry = root.entries.get("matrix")
    axes = entry.value if entry and isinstance(entry.value, Mapping) else Mapping(mark)
    is_list = isinstance(value, Sequence)
    if key not in axes.entries and not (is_list and _takes_no_list(key)):
        return None
    values = value if isinstance(value, Sequence) else Sequence(value.mark, (value,))
    axes = axes.with_entry(MappingEntry(Scalar(mark, key), values))
    return root.with_entry(MappingEntry(entry.key if entry else Scalar(mark, "matrix"), axes))


def _takes_no_list(key: str) -> bool:
    spec_type = type_of_key(split_path(key))
    return spec_type is not None and not any(c.kind in (list, Any) for c in spec_type.choices)


def _joined(parts: list[str | int], root: Mapping) -> list[str | int]:
    """The path with the parts that make up one key joined again: `matrix.workers.count`.

    A key holds dots if the mapping already has such a key, or if no key can stand below it.
    """
    joined: list[str | int] = []
    node: Node | None = root
    while parts:
        length = _key_length(parts, node, joined)
        step = parts[0] if length == 1 else ".".join(str(part) for part in parts[:length])
        joined.append(step)
        parts = parts[length:]
        entry = node.entries.get(str(step)) if isinstance(node, Mapping) else None
        node = entry.value if entry else None
    return joined


def _key_length(parts: list[str | int], node: Node | None, above: list[str | int]) -> int:
    names = next((i for i, part in enumerate(parts) if isinstance(part, int)), len(parts))
    if isinstance(node, Mapping):
        for length in range(1, names + 1):
            if ".".join(str(part) for part in parts[:length]) in node.entries:
                return length
    here = type_of_key(above)
    if here and any(choice.kind is dict for choice in here.choices):
        below = type_of_key([*above, parts[0]])
        if below and not any(c.kind in (dict, Any) or c.is_struct for c in below.choices):
            return max(names, 1)
    return 1


def _with_positions(parts: list[str | int], file: str) -> list[Step]:
    """Each step with its position in the setting's text."""
    steps, column = [], 0
    for part in parts:
        column += isinstance(part, str)
        steps.append((part, Position(file, 1, column)))
        column += len(str(part)) + (2 if isinstance(part, int) else 0)
    return steps


def _value(key: str, text: str, file: str, findings: list[Finding]) -> Node:
    """Lists, mappings and quotes are YAML; all else is one value, as it is.

    So `a: b`, `#fff` and `*.txt` are texts: in a shell they are seldom meant as YAML.
    """
    form, before = _FORMS.get(text[:1]), len(key) + 1
    if form:
        inside: list[Finding] = []
        try:
            # The blanks put every mark of the value where it is in the setting.
            node = parse(" " * before + text, file, inside)
        except YamlError:
            node = None
        if isinstance(node, form):
            findings += [replace(f, path=join_path(key, f.path or "")) for f in inside]
            return node  # type: ignore[no-any-return]
    return Scalar(Position(file, 1, before + 1), text.strip(), offset=0)


def _with_entry(node: Mapping, steps: list[Step], value: Node) -> Mapping:
    (name, mark), rest = steps[0], steps[1:]
    old = node.entries.get(str(name))
    key = old.key if old else Scalar(mark, str(name))
    return node.with_entry(MappingEntry(key, _with(old.value if old else None, rest, value, mark)))


def _with(node: Node | None, steps: list[Step], value: Node, above: Position) -> Node:
    """A copy of a node, or of nothing, in which the value stands at the end of the steps."""
    if not steps:
        return value
    (part, mark), rest = steps[0], steps[1:]
    if isinstance(part, int):
        if not isinstance(node, Sequence) or part >= len(node.items):
            raise YamlError(mark, f"there is no item [{part}] to set", "set the whole list")
        items = list(node.items)
        items[part] = _with(items[part], rest, value, mark)
        return replace(node, items=tuple(items))
    if isinstance(node, Scalar) and node.value is None:
        node = None
    if not isinstance(node, (Mapping, type(None))):
        message = f"there is no key {part!r} to set: the file has {describe(node)} here"
        raise YamlError(mark, message, "set the whole value")
    return _with_entry(node or Mapping(above), steps, value)
