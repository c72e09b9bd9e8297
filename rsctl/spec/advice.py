"""What to do about a wrong value or key. Nothing here is imported until there is a mistake.

A remedy for a value is found by trying: of the likely rewritings the first that its type accepts.
"""

from __future__ import annotations

import difflib
import os
import re
from collections.abc import Iterable, Iterator

import msgspec
from msgspec.structs import replace

from rsctl.spec.nodes import Mapping, Node, Scalar, Sequence
from rsctl.spec.scalars import read_scalar
from rsctl.spec.types import Shape, fields_of, key_paths
from rsctl.spec.units import EnvValue

_YES = ("yes", "on", "y")
_NO = ("no", "off", "n")
_QUANTITY = re.compile(r"([0-9.,_]+)\s*([A-Za-z]*)(?:/s)?")
_NEARLY_THE_SAME = 0.85
_SIMILAR = 0.6
_LONGEST = 80  # comparing longer texts takes long and finds nothing


def value_remedy(node: Node, shape: Shape, base: str | os.PathLike[str]) -> str | None:
    """How to write what was probably meant by a value that its type does not accept."""
    if isinstance(node, Scalar):
        return _scalar_remedy(node, shape, base) or _container_remedy(node, shape)
    if isinstance(node, Mapping) and any(c.kind in (str, EnvValue) for c in shape.choices):
        return "put it in quotes if it is meant as text"
    return _container_remedy(node, shape)


def _scalar_remedy(node: Scalar, shape: Shape, base: str | os.PathLike[str]) -> str | None:
    if len(node.text) > _LONGEST:
        return None
    for words, candidate in _rewritten(node, shape):
        try:
            read_scalar(candidate, shape, base)
        except ValueError:
            continue
        return words
    return None


def _rewritten(node: Scalar, shape: Shape) -> Iterator[tuple[str, Scalar]]:
    """Likely rewritings of a scalar, with the words that advise them."""
    if not node.plain:
        yield "remove the quotes", replace(node, plain=True)
    if node.value is None:
        yield 'write "" for empty text, or remove the key', replace(node, text="", plain=False)
        return
    for text in _texts(node.text, shape):
        yield f"write {text}", replace(node, text=text, plain=True)
    words = [str(word) for c in shape.choices if c.kind == "literal" for word in c.arguments]
    close = close_match(node.text, words)
    if close:
        yield f"did you mean {close!r}?", replace(node, text=close)
    quoted = replace(node, plain=False)
    yield f'put it in quotes if it is meant as text: "{node.text}"', quoted


def _texts(text: str, shape: Shape) -> Iterator[str]:
    low = text.lower().strip()
    if low in _YES + _NO:
        yield "true" if low in _YES else "false"
    yield low
    yield re.sub(r"(?<=\d)[_,](?=\d)", "", text)
    yield text.lstrip("0") or "0"
    yield from _whole(text)
    for choice in shape.choices:
        yield from _with_unit(text, getattr(choice.kind, "units", ()))
    if shape.kind is str:
        yield re.sub(r"[^a-z0-9]+", "-", low).strip("-")[:40]


def _whole(text: str) -> Iterator[str]:
    try:
        yield str(int(float(text)))
    except (ValueError, OverflowError):
        return


def _with_unit(text: str, units: tuple[str, ...]) -> Iterator[str]:
    """`90` with the likeliest unit; `2 hours`, `200gb`, `1Gbps` with the one it resembles."""
    match = _QUANTITY.fullmatch(text)
    if not match or not units:
        return
    number, unit = re.sub("[,_]", "", match[1]), match[2].lower()
    best = max(units, key=lambda known: _common(known.lower(), unit))
    if not unit or best[:1].lower() == unit[0]:
        yield number + best


def _common(first: str, second: str) -> int:
    """How many letters two words share at their beginning."""
    return next((n for n in range(len(second), 0, -1) if first.startswith(second[:n])), 0)


def _container_remedy(node: Node, shape: Shape) -> str | None:
    for choice in shape.choices:
        if choice.is_struct:
            return "its keys are " + ", ".join(fields_of(choice.kind))
        if choice.kind is list and isinstance(node, Scalar) and node.value is not None:
            words = node.text.split()
            if not re.search(r"[\"'\[\]{},#]", node.text) and len(node.text) <= _LONGEST:
                return f"write it as a list: [{', '.join(words)}]"
            return "write it as a list: [FIRST, SECOND]"
        if choice.kind is dict and isinstance(node, (Scalar, Sequence)):
            return "write it as KEY: VALUE, one a line"
        if choice.kind is list and isinstance(node, Sequence):
            return "list at least one"
    return None


def key_remedy(
    key: str, known: Iterable[str], root: type[msgspec.Struct]
) -> tuple[str | None, str]:
    """For an unknown key: which of the known keys was probably meant, and what to tell."""
    names = list(known)
    elsewhere = places_of(key, root)
    near = close_match(key, names, _SIMILAR if not elsewhere else _NEARLY_THE_SAME)
    if near:
        return near, f"did you mean {near!r}?"
    if elsewhere:
        parents = [path.rpartition(".")[0] for path in elsewhere]
        where = " or ".join(dict.fromkeys(parents))
        return None, f"it belongs under {where}" if where else "it belongs at the top of the file"
    return None, f"known keys: {', '.join(names)}" if names else "this mapping has no keys"


def name_remedy(name: str, pattern: str) -> str:
    """For a key of the user's own that may not be called so."""
    for candidate in (name.strip("-= "), re.sub(r"[^A-Za-z0-9_]", "_", name)):
        if re.fullmatch(pattern, candidate):
            return f"write {candidate}"
    return "choose another name"


def path_remedy(path: str, root: type[msgspec.Struct]) -> str:
    """For a key path that the spec does not have."""
    known = list(key_paths(Shape(root)))
    close = close_match(path, known)
    meant = repr(close) if close else " or ".join(repr(place) for place in places_of(path, root))
    return f"did you mean {meant}?" if meant else "write a key path such as workers.count"


def places_of(key: str, root: type[msgspec.Struct]) -> list[str]:
    """The shortest key paths that end in this key."""
    found = [path for path in key_paths(Shape(root)) if path.rpartition(".")[2] == key]
    shortest = min((path.count(".") for path in found), default=0)
    return [path for path in found if path.count(".") == shortest]


def close_match(word: str, known: list[str], cutoff: float = _SIMILAR) -> str | None:
    """The known word that this one resembles most, whatever its case; None if there is none."""
    if len(word) > _LONGEST:
        return None
    lowered = {name.lower(): name for name in known}
    found = difflib.get_close_matches(word.lower().replace("-", "_"), lowered, 1, cutoff)
    return lowered[found[0]] if found else None
