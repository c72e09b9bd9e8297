"""The tree of a YAML file with positions, from `yaml_parser` for `decode`; and key paths in it."""

from __future__ import annotations

import math
import re
from typing import Union

from msgspec import Struct, field
from msgspec.structs import replace

from rsctl.findings import Finding
from rsctl.job.secret_names import public_text

MAX_DEPTH = 64
"""The most levels of a file, so that code may walk it by recursion."""

_NULLS = frozenset(["", "~", "null", "Null", "NULL"])
_BOOLS = {"true": True, "True": True, "TRUE": True, "false": False, "False": False, "FALSE": False}
_INT = re.compile(r"[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+|0o[0-7]+")
_FLOAT = re.compile(r"[-+]?(?:\.[0-9]+|(?:0|[1-9][0-9]*)(?:\.[0-9]*)?)(?:[eE][-+]?[0-9]+)?")
_NOT_FINITE = re.compile(r"[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)")
_STEP = re.compile(r"([^.\[\]]+)|\[(\d{1,9})\]")
_KEY_PATH = re.compile(r"[^.\[\]\s]+(?:\.[^.\[\]]+|\[[0-9]{1,9}\])*")
_MAX_DIGITS = 40  # int() of a text with thousands of digits is slow, then an error


class Position(Struct, frozen=True):
    """A position in a file; line and column count from 1."""

    file: str
    line: int
    column: int

    def error(
        self, code: str, message: str, remedy: str | None = None, path: str | None = None
    ) -> Finding:
        """An error at this position."""
        return Finding(
            severity="error",
            code=code,
            message=message,
            remedy=remedy,
            path=path,
            file=self.file,
            line=self.line,
            column=self.column,
        )

    def warning(
        self, code: str, message: str, remedy: str | None = None, path: str | None = None
    ) -> Finding:
        """A warning at this position."""
        return replace(self.error(code, message, remedy, path), severity="warning")


class Scalar(Struct, frozen=True):
    """A single value, as written. `plain` means unquoted, so that it may be a number or null.

    `offset` is where in the file its text begins, counted from `mark`, if the text stands there
    as it is: on one line and without escapes. `substituted` means that variables were replaced in
    it, `from_environment` that the text of one came from the environment, not from a default;
    `taken` are the names of those that did.
    """

    mark: Position
    text: str
    plain: bool = True
    offset: int | None = None
    substituted: bool = False
    from_environment: bool = False
    taken: tuple[str, ...] = ()

    @property
    def value(self) -> bool | int | float | str | None:
        """The value by YAML 1.2's core schema, where `yes` is text and `1e-5` is a number.

        Digits after a leading zero (`007`) are text: YAML 1.1 reads them as octal, and they are
        more often an identifier than a number. An integer of absurd length is an infinite float.
        """
        text = self.text
        if not self.plain:
            return text
        if text in _NULLS:
            return None
        if text in _BOOLS:
            return _BOOLS[text]
        if _INT.fullmatch(text):
            return _integer(text)
        if _FLOAT.fullmatch(text):
            return float(text)
        if _NOT_FINITE.fullmatch(text):
            return float(text.replace(".", "").lower())
        return text


class Sequence(Struct, frozen=True):
    """A list of nodes."""

    mark: Position
    items: tuple[Node, ...] = ()


class MappingEntry(Struct, frozen=True):
    """One key of a mapping with its value; the key has a position of its own.

    `is_anchored` is whether the value has an anchor, `&name`.
    """

    key: Scalar
    value: Node
    is_anchored: bool = False


class Mapping(Struct, frozen=True):
    """Keys in the order of the file. Duplicates are findings of the loader; the first one stays."""

    mark: Position
    entries: dict[str, MappingEntry] = field(default_factory=dict)

    def with_entry(self, entry: MappingEntry) -> Mapping:
        """A copy in which this entry is added or replaces its namesake."""
        return replace(self, entries={**self.entries, entry.key.text: entry})


Node = Union[Scalar, Sequence, Mapping]


def _integer(text: str) -> int | float:
    if len(text) > _MAX_DIGITS:
        return -math.inf if text.startswith("-") else math.inf
    if text.startswith(("0x", "0o")):
        return int(text, 0)
    return int(text)


def describe(node: Node) -> str:
    """Describes a node for an error message: "a list", "the text 'yes'", "nothing"."""
    if isinstance(node, Mapping):
        return "a mapping"
    if isinstance(node, Sequence):
        return "a list" if node.items else "an empty list"
    value = node.value
    if value is None:
        return "nothing"
    if value == "":
        return "an empty text"
    if node.from_environment:
        return "a different text from the environment"  # which may be a secret
    if isinstance(value, bool):
        return node.text
    if isinstance(value, str):
        return f"the text {quoted(node.text)}"
    return f"the number {shorten(node.text)}"


def quoted(text: str) -> str:
    """A text in quotes; of characters that may look like others it names the first."""
    shown = repr(shorten(text))
    strange = next((c for c in shown if not c.isascii()), None)
    return f"{shown} (in it {strange!r} is U+{ord(strange):04X})" if strange else shown


def shorten(text: str, longest: int = 60) -> str:
    """The text for a message: without secrets, and cut if it is too long."""
    text = public_text(text)
    return text if len(text) <= longest else text[: longest - 3] + "..."


def is_key_path(text: str) -> bool:
    """Whether a text has the form of `workers.count` or `run.args[2]`."""
    return _KEY_PATH.fullmatch(text) is not None


def split_path(path: str) -> list[str | int]:
    """`run.args[2]` as `["run", "args", 2]`."""
    return [int(index) if index else name for name, index in _STEP.findall(path)]


def join_path(path: str, name: str) -> str:
    """The path of a key under another path, which is empty for the top."""
    return f"{path}.{name}" if path else name


def last_name(path: str) -> str:
    """The last name of a key path: `token` of `run.args.token[2]`."""
    return re.sub(r"(?:\[\d*\])+$", "", path).rpartition(".")[2]


def name_of_value(node: Mapping, key: str) -> str:
    """The name of the value of a key: the key itself, or the name beside it.

    A variable or label has it in `name` or `key`, an entry of a JSON Patch at the end of `path`.
    """
    if key.lower() == "value":
        for other, entry in node.entries.items():
            if other.lower() in ("name", "key", "path") and isinstance(entry.value, Scalar):
                return entry.value.text.rpartition("/")[2]
    return key


def locate(root: Node, path: str | None) -> Position:
    """Where a key path is in the file: its value, or the nearest parent that is there."""
    node, mark, parts = root, root.mark, split_path(path or "")
    while parts:
        found = _child(node, parts)
        if found is None:
            break
        node, mark, parts = found
    return mark


def _child(node: Node, parts: list[str | int]) -> tuple[Node, Position, list[str | int]] | None:
    """One step down; a key may itself hold dots, as those of `matrix` do."""
    if isinstance(node, Sequence):
        index = parts[0]
        if isinstance(index, int) and index < len(node.items):
            return node.items[index], node.items[index].mark, parts[1:]
        return None
    if not isinstance(node, Mapping):
        return None
    for length in range(1, len(parts) + 1):
        entry = node.entries.get(".".join(str(part) for part in parts[:length]))
        if entry:
            return entry.value, _visible(entry), parts[length:]
    return None


def _visible(entry: MappingEntry) -> Position:
    """A scalar is pointed at itself; of a block, its key is."""
    return entry.value.mark if isinstance(entry.value, Scalar) else entry.key.mark
