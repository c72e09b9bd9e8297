"""The arguments of a run, such as `run.args.lr`, which distinguish its samples."""

from __future__ import annotations

import re
from collections.abc import Iterable
from itertools import zip_longest

from rsctl.bench.records import Cell
from rsctl.job import overrides
from rsctl.job.file_text import YamlError
from rsctl.job.secret_names import HIDDEN, is_secret_name, public_text
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping, Node, Scalar, Sequence
from rsctl.runs.store import RunRecord

ARGUMENT = "run.args."
"""The prefix of the columns of arguments, before the argument's name."""

Argument = str | int | float | bool | None


def arguments_of(run: RunRecord, cell: Cell) -> dict[str, Argument]:
    """The arguments of the run's script by column, as its job file, `--set` and its cell have them.

    From a list, arguments of the form `--lr 0.1`, `--lr=0.1` and `--fp16`. Those with names of
    secrets are left out; so are all of a run whose job file is unknown.
    """
    try:
        root = _parsed(run.spec or "")
        if not isinstance(root, Mapping):
            return {}
        root = overrides.apply(root, list(run.settings), [])
    except YamlError:
        return {}
    found = _named(_child(_child(root, "run"), "args"))
    for key, value in cell.items():
        if key.startswith(ARGUMENT):
            found[key.removeprefix(ARGUMENT)] = value
    return {
        ARGUMENT + name: public_text(value) if isinstance(value, str) else value
        for name, value in found.items()
        if not is_secret_name(name)
    }


def _parsed(text: str) -> Node | None:
    """A kept job file. What hides a secret that had no quotes would be an alias in YAML."""
    try:
        return parse(text, "", [])
    except YamlError:
        hidden = rf"(?<=[\s\[{{,]){re.escape(HIDDEN)}(?=[\s\]}},]|$)"
        return parse(re.sub(hidden, f'"{HIDDEN}"', text), "", [])


def _child(node: Node | None, key: str) -> Node | None:
    entry = node.entries.get(key) if isinstance(node, Mapping) else None
    return entry.value if entry else None


def _named(node: Node | None) -> dict[str, Argument]:
    if isinstance(node, Mapping):
        return {
            name: _value(entry.value)
            for name, entry in node.entries.items()
            if isinstance(entry.value, (Scalar, Sequence))
        }
    if isinstance(node, Sequence):
        return _options(item for item in node.items if isinstance(item, Scalar))
    return {}


def _options(items: Iterable[Scalar]) -> dict[str, Argument]:
    found: dict[str, Argument] = {}
    words = list(items)
    for item, after in zip_longest(words, words[1:]):
        if not _is_option(item):
            continue
        name, equals, value = item.text[2:].partition("=")
        if equals:
            found[name] = Scalar(item.mark, value).value
        elif after is None or _is_option(after):
            found[name] = True
        else:
            found[name] = Scalar(item.mark, after.text).value
    return found


def _is_option(item: Scalar) -> bool:
    return item.text.startswith("--") and len(item.text) > 2


def _value(node: Node) -> Argument:
    if isinstance(node, Scalar):
        return node.value
    items = node.items if isinstance(node, Sequence) else ()
    return " ".join(item.text for item in items if isinstance(item, Scalar))
