"""Suggests corrections of wrong values and keys. Nothing here is imported until there is a mistake.

The remedy for a value is the first of its likely rewritings that its type accepts.
"""

from __future__ import annotations

import os
import re
from collections.abc import Container, Iterable, Iterator

import msgspec
from msgspec.structs import replace

from rsctl.job import other_launchers
from rsctl.job.job import JOB_NAME
from rsctl.job.scalars import read_scalar
from rsctl.job.shell_words import flow_list, split_line
from rsctl.job.types import SpecType, fields_of, key_paths
from rsctl.job.units import EnvValue, LocalPath, Location, RelativePath
from rsctl.job.values import MODULE
from rsctl.job.yaml_tree import Mapping, Node, Scalar, Sequence

_YES = ("yes", "on", "y")
_NO = ("no", "off", "n")
_QUANTITY = re.compile(r"([0-9.,_]+)\s*([A-Za-z]*)(?:/s)?")
_PATHS = (LocalPath, Location, RelativePath)
_NEARLY_THE_SAME = 0.85
_SIMILAR = 0.7
_LONGEST = 80  # comparing longer texts takes long and finds nothing


def value_remedy(node: Node, spec_type: SpecType, base: str | os.PathLike[str]) -> str | None:
    """How to write what was probably meant by a value that its type does not accept."""
    takes_text = any(c.kind is EnvValue or _is_free_text(c) for c in spec_type.choices)
    if isinstance(node, Scalar):
        return _scalar_remedy(node, spec_type, base) or _container_remedy(node, spec_type)
    if isinstance(node, Mapping) and takes_text:
        return "put it in quotes if it is text"
    if isinstance(node, Sequence) and len(node.items) == 1:
        item = node.items[0]
        if isinstance(item, Scalar) and _accepted(item, spec_type, base):
            return f"write {item.text}, without the list"
    return _container_remedy(node, spec_type)


def _is_free_text(spec_type: SpecType) -> bool:
    return spec_type.kind is str and not spec_type.limit("pattern")


def _accepted(node: Scalar, spec_type: SpecType, base: str | os.PathLike[str]) -> bool:
    try:
        read_scalar(node, spec_type, base)
    except ValueError:
        return False
    return True


def _scalar_remedy(node: Scalar, spec_type: SpecType, base: str | os.PathLike[str]) -> str | None:
    if node.value in (None, "") and not _containers(spec_type):
        empty = _accepted(replace(node, text="", plain=False), spec_type, base)
        return 'write "" for empty text, or remove the key' if empty else "give it a value"
    if node.from_environment or len(node.text) > _LONGEST or not node.text.isprintable():
        return None
    for remedy, candidate in _rewritten(node, spec_type):
        if _accepted(candidate, spec_type, base):
            return remedy
    return None


def _rewritten(node: Scalar, spec_type: SpecType) -> Iterator[tuple[str, Scalar]]:
    """Likely rewritings of a scalar, with the remedy that suggests them."""
    if not node.plain:
        yield "remove the quotes", replace(node, plain=True)
    if not any(choice.kind in _PATHS for choice in spec_type.choices):
        for text in _texts(node.text, spec_type):
            yield f"write {text}", replace(node, text=text, plain=True)
    is_module = any(choice.limit("pattern") == MODULE for choice in spec_type.choices)
    if is_module and node.text.endswith(".py"):
        module = node.text.removeprefix("./").removesuffix(".py").replace("/", ".")
        remedy = f"set script: {node.text}, or write the module: {module}"
        yield remedy, replace(node, text=module)
    values = [str(value) for c in spec_type.choices if c.kind == "literal" for value in c.arguments]
    close = close_match(node.text, values) or _named_in_part(node.text, values)
    if close:
        yield f"did you mean {close!r}?", replace(node, text=close)
    for prefix in filter(None, (getattr(c.kind, "prefix", "") for c in spec_type.choices)):
        yield f"write {prefix}{node.text}", replace(node, text=f"{prefix}{node.text}")
    ours = other_launchers.our_value(node.text)
    if ours in values:
        yield f"rsctl calls it {ours}", replace(node, text=ours)
    if node.value is not None:
        as_text = f'put it in quotes if it is text: "{node.text}"'
        yield as_text, replace(node, plain=False)


def _named_in_part(text: str, values: list[str]) -> str | None:
    """`linux/arm64` for `arm64`."""
    return next((value for value in values if text in value.split("/")), None)


def _texts(text: str, spec_type: SpecType) -> Iterator[str]:
    low = text.lower().strip()
    if low in _YES + _NO:
        yield "true" if low in _YES else "false"
    yield low
    yield re.sub(r"(?<=\d)[_,](?=\d)", "", text)
    yield from _whole(text)
    for choice in spec_type.choices:
        yield from _with_unit(text, getattr(choice.kind, "units", ()))
    if spec_type.limit("pattern") == JOB_NAME and text.isascii():
        yield re.sub(r"[^a-z0-9]+", "-", low).strip("-")[:40]


def _whole(text: str) -> Iterator[str]:
    """`4.0`, `1e1` and `010` as whole numbers."""
    try:
        number = float(text)
    except ValueError:
        return
    if number.is_integer():
        yield str(int(number))


def _with_unit(text: str, units: tuple[str, ...]) -> Iterator[str]:
    """`90` with the likeliest unit; `2 hours`, `200gb`, `1Gbps` with the one it resembles."""
    if not units:
        return
    yield "".join(text.split())
    match = _QUANTITY.fullmatch(text)
    if not match:
        return
    number, unit = re.sub("[,_]", "", match[1]), match[2].lower()
    best = max(units, key=lambda known: _common(known.lower(), unit))
    if not unit or best[:1].lower() == unit[0]:
        yield number + best


def _common(first: str, second: str) -> int:
    """How many letters two texts share at their beginning."""
    return next((n for n in range(len(second), 0, -1) if first.startswith(second[:n])), 0)


def _containers(spec_type: SpecType) -> list[SpecType]:
    """The forms of a type, if it has no other than mappings and lists."""
    forms = [choice for choice in spec_type.choices if choice.kind is not None]
    return forms if all(form.is_container for form in forms) else []


def _container_remedy(node: Node, spec_type: SpecType) -> str | None:
    kinds = {form.kind: form for form in _containers(spec_type)}
    struct = next((form for form in kinds.values() if form.is_struct), None)
    if struct:
        return "its keys are " + ", ".join(fields_of(struct.kind))
    if list in kinds:
        return _list_remedy(node, kinds[list].arguments[0])
    return "write it as KEY: VALUE, one per line" if dict in kinds else None


def _list_remedy(node: Node, item: SpecType) -> str:
    if isinstance(node, Sequence):
        return "list at least one"
    if item.is_struct:
        return (
            f"write it as a list: [{{KEY: VALUE}}] with the keys {', '.join(fields_of(item.kind))}"
        )
    if isinstance(node, Scalar) and node.value is not None and node.text.isprintable():
        words = split_line(node.text) if len(node.text) <= _LONGEST else None
        if words:
            return f"write it as a list: {flow_list(words)}"
    return "write it as a list: [FIRST, SECOND]"


def key_remedy(
    key: str,
    known: Iterable[str],
    root: type[msgspec.Struct],
    arguments: Container[str] = (),
    may_be_own: bool = False,
) -> tuple[str | None, str]:
    """For an unknown key: which of the known keys was probably meant, and the remedy.

    `arguments` are the arguments of the script that the file names. `may_be_own` is whether the
    key may be the user's own: it is at the top level, and its value has an anchor.
    """
    if key in arguments:
        return None, f"arguments of the script go in run.args.{key}"
    names = list(known)
    plain = key.lower().replace("-", "_")
    if "dockerfile" in names and plain in other_launchers.BUILD_OPTIONS:
        return None, other_launchers.BUILD_OPTIONS[plain]
    elsewhere = paths_ending_in(key, root)
    theirs = other_launchers.KEYS.get(plain, "")
    near = close_match(key, names, _NEARLY_THE_SAME if elsewhere or may_be_own else _SIMILAR)
    if near and theirs in ("", near):
        return near, f"did you mean {near!r}?"
    if may_be_own:
        return None, f"rename it to x-{key}: rsctl ignores keys that begin with x-"
    ours = other_launchers.our_value(key)
    if ours not in names:
        ours = theirs
    if ours:
        return None, f"rsctl calls it {ours}"
    if elsewhere:
        parents = [path.rpartition(".")[0] for path in elsewhere]
        where = " or ".join(dict.fromkeys(parents))
        return None, f"move it under {where}" if where else ("move it to the top level of the file")
    if not names:
        return None, "remove it: there is no such key"
    top = "; arguments of the script go under run.args" * (names == list(fields_of(root)))
    return None, f"known keys: {', '.join(names)}{top}"


def name_remedy(name: str, pattern: str) -> str:
    """For a key of the user's own that may not be called so."""
    dashed = re.sub(r"[_. ]", "-", name).lower()
    for candidate in (name.removeprefix("--"), re.sub(r"(?<=.)[-. ]", "_", name), dashed):
        if re.fullmatch(pattern, candidate):
            return f"write {candidate}"
    return "give a list to pass it unchanged" if name.startswith("-") else "use another name"


def path_remedy(path: str, root: type[msgspec.Struct]) -> str:
    """For a key path that the spec does not have."""
    known = list(key_paths(SpecType(root)))
    close = close_match(path, known)
    meant = (
        repr(close) if close else " or ".join(repr(found) for found in paths_ending_in(path, root))
    )
    return f"did you mean {meant}?" if meant else "write a key path such as workers.count"


def paths_ending_in(key: str, root: type[msgspec.Struct]) -> list[str]:
    """The shortest key paths that end in this key."""
    found = [path for path in key_paths(SpecType(root)) if path.rpartition(".")[2] == key]
    shortest = min((path.count(".") for path in found), default=0)
    return [path for path in found if path.count(".") == shortest]


def close_match(name: str, known: list[str], cutoff: float = _SIMILAR) -> str | None:
    """The known name that is most similar to this one, ignoring case; None if there is none."""
    if len(name) > _LONGEST:
        return None
    lowered = {name.lower(): name for name in known}
    import difflib  # only after a mistake

    found = difflib.get_close_matches(name.lower().replace("-", "_"), lowered, 1, cutoff)
    return lowered[found[0]] if found else None
