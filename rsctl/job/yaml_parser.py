"""Parses YAML text to a tree with positions. Hostile files give findings, never a traceback.

The tree is built from PyYAML's event stream rather than by its composer: that keeps the position of
every key, sees duplicate keys, and bounds depth and aliases before anything recursive runs.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import yaml

from rsctl.findings import Finding
from rsctl.job.file_text import YamlError, end_of
from rsctl.job.yaml_errors import explain
from rsctl.job.yaml_tree import (
    MAX_DEPTH,
    Mapping,
    MappingEntry,
    Node,
    Position,
    Scalar,
    Sequence,
    shorten,
)

MAX_VALUES = 100_000
_MAX_KEY = 200
_Repeated = Callable[[Scalar, Scalar, str], None]
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


def parse(text: str, file: str, findings: list[Finding]) -> Node | None:
    """Text to a tree, or None if it is empty; mistakes that do not stop it go to `findings`.

    Raises YamlError if the text is not valid YAML.
    """
    builder = _Builder(end_of(text, file), findings)
    try:
        for event in yaml.parse(text, Loader=_LOADER):
            builder.feed(event)
    except yaml.YAMLError as problem:
        raise explain(problem, file, text) from None
    return builder.root


class _Builder:
    """Turns YAML events into nodes; one open container per level of `stack`.

    `values` counts the nodes as if every alias were written out, so that code that walks the tree
    later needs no further limit.
    """

    def __init__(self, end: Position, findings: list[Finding]) -> None:
        self.root: Node | None = None
        self._end = end
        self._findings = findings
        self._anchors: dict[str, _Anchored] = {}
        self._stack: list[_Open] = []
        self._values = 0
        self._documents = 0

    def feed(self, event: Any) -> None:
        """Take the next event."""
        handler: Callable[[Any], None] | None = getattr(self, "_" + type(event).__name__, None)
        if handler:
            handler(event)

    def _DocumentStartEvent(self, event: Any) -> None:
        self._documents += 1
        if self._documents > 1:
            raise YamlError(
                self._mark(event),
                "a second document starts here",
                "one file holds one job: remove the '---' line or split the file",
            )

    def _ScalarEvent(self, event: Any) -> None:
        mark = self._mark(event)
        self._refuse_tag(event, mark)
        self._count(mark, 1)
        plain = event.style in (None, "")
        node = Scalar(mark, event.value, plain, _offset(event, 0 if plain else 1))
        self._add(_Anchored(node), event.anchor)

    def _AliasEvent(self, event: Any) -> None:
        mark, name = self._mark(event), event.anchor
        if any(container.anchor == name for container in self._stack):
            raise YamlError(mark, f"the alias *{name} contains itself", "write the value out")
        anchored = self._anchors.get(name)
        if anchored is None:
            raise YamlError(
                mark,
                f"there is no anchor &{name} above this alias",
                f"define it before it is used: key: &{name} value; or put text in "
                f"quotes: '*{name}'",
            )
        self._count(mark, anchored.values)
        self._refuse_depth(mark, anchored.height)
        self._add(anchored, None)

    def _MappingStartEvent(self, event: Any) -> None:
        self._open(event, _OpenMapping(self._mark(event), event.anchor, self._repeated))

    def _SequenceStartEvent(self, event: Any) -> None:
        self._open(event, _OpenSequence(self._mark(event), event.anchor))

    def _MappingEndEvent(self, _event: Any) -> None:
        self._close()

    def _SequenceEndEvent(self, _event: Any) -> None:
        self._close()

    def _open(self, event: Any, container: _Open) -> None:
        self._refuse_tag(event, container.mark)
        self._refuse_depth(container.mark, 1)
        self._count(container.mark, 1)
        container.values_before = self._values - 1
        self._stack.append(container)

    def _close(self) -> None:
        container = self._stack.pop()
        values = self._values - container.values_before
        self._add(_Anchored(container.node(), values, container.height + 1), container.anchor)

    def _add(self, anchored: _Anchored, anchor: str | None) -> None:
        if anchor:
            self._anchors[anchor] = anchored
        if self._stack:
            parent = self._stack[-1]
            parent.height = max(parent.height, anchored.height)
            parent.add(anchored.node, anchor is not None)
        else:
            self.root = anchored.node

    def _repeated(self, key: Scalar, first: Scalar, remedy: str) -> None:
        path = "".join(container.step for container in self._stack[:-1]) + "." + key.text
        message = f"the key {key.text!r} is a duplicate; line {first.mark.line} already sets it"
        self._findings.append(key.mark.error("duplicate-key", message, remedy, path.lstrip(".")))

    def _count(self, mark: Position, values: int) -> None:
        self._values += values
        if self._values > MAX_VALUES:
            message = (
                f"the file contains more than {MAX_VALUES} values after its aliases are expanded"
            )
            raise YamlError(mark, message, "use fewer nested aliases")

    def _refuse_depth(self, mark: Position, height: int) -> None:
        if len(self._stack) + height > MAX_DEPTH:
            raise YamlError(mark, f"nested more than {MAX_DEPTH} levels deep", "flatten it")

    def _refuse_tag(self, event: Any, mark: Position) -> None:
        if event.tag:
            name = shorten(event.tag.replace("tag:yaml.org,2002:", "!!"))
            message = f"the tag {name!r} is not allowed"
            raise YamlError(mark, message, "remove it; put text in quotes")

    def _mark(self, event: Any) -> Position:
        """Where an event begins; one that the end of the file brings about, at that end."""
        line, column = event.start_mark.line + 1, event.start_mark.column + 1
        return Position(self._end.file, line, column) if line <= self._end.line else self._end


class _Anchored:
    """A finished node with its size and height, aliases written out."""

    def __init__(self, node: Node, values: int = 1, height: int = 0) -> None:
        self.node = node
        self.values = values
        self.height = height


class _Open:
    """A container whose end has not been read yet."""

    def __init__(self, mark: Position, anchor: str | None) -> None:
        self.mark = mark
        self.anchor = anchor
        self.height = 0
        self.values_before = 0

    @property
    def step(self) -> str:
        """The key path from here to the value that is being read."""
        raise NotImplementedError

    def add(self, node: Node, is_anchored: bool) -> None:
        """Take the next node inside."""
        raise NotImplementedError

    def node(self) -> Node:
        """The container, now that its end has been read."""
        raise NotImplementedError


class _OpenSequence(_Open):
    def __init__(self, mark: Position, anchor: str | None) -> None:
        super().__init__(mark, anchor)
        self._items: list[Node] = []

    @property
    def step(self) -> str:
        return f"[{len(self._items)}]"

    def add(self, node: Node, is_anchored: bool) -> None:
        self._items.append(node)

    def node(self) -> Node:
        return Sequence(self.mark, tuple(self._items))


class _OpenMapping(_Open):
    def __init__(self, mark: Position, anchor: str | None, repeated: _Repeated) -> None:
        super().__init__(mark, anchor)
        self._repeated = repeated
        self._entries: dict[str, MappingEntry] = {}
        self._merged: dict[str, MappingEntry] = {}
        self._key: Scalar | None = None
        self._merge_key: Scalar | None = None

    @property
    def step(self) -> str:
        return f".{self._key.text}" if self._key else ""

    def add(self, node: Node, is_anchored: bool) -> None:
        if self._key is None:
            self._key = _checked_key(node)
            return
        key, self._key = self._key, None
        if key.text == "<<" and key.plain:
            self._merge(key, node)
        elif key.text in self._entries:
            self._repeated(key, self._entries[key.text].key, "keep one of the two")
        else:
            self._entries[key.text] = MappingEntry(key, node, is_anchored)

    def node(self) -> Node:
        return Mapping(self.mark, {**self._merged, **self._entries})

    def _merge(self, key: Scalar, node: Node) -> None:
        if self._merge_key:
            self._repeated(key, self._merge_key, "write one: <<: [*a, *b]")
            return
        self._merge_key = key
        for parent in node.items if isinstance(node, Sequence) else (node,):
            if not isinstance(parent, Mapping):
                message = "<< merges a mapping, or a list of mappings"
                raise YamlError(key.mark, message, "use <<: *anchor")
            for name, entry in parent.entries.items():
                self._merged.setdefault(name, entry)


def _offset(event: Any, quote: int) -> int | None:
    """How far behind its mark a scalar's text begins, if it stands there as it is."""
    begin, end = event.start_mark, event.end_mark
    width = end.column - begin.column if begin.line == end.line else -1
    return quote if width == len(event.value) + 2 * quote else None


def _checked_key(node: Node) -> Scalar:
    if not isinstance(node, Scalar):
        what = "list" if isinstance(node, Sequence) else "mapping"
        raise YamlError(
            node.mark,
            f"a key must be a single word, not a {what}",
            'put text that starts with { or [ in quotes, such as "{{ name }}"',
        )
    if not node.text.isprintable() or len(node.text) > _MAX_KEY:
        message = (
            f"{shorten(node.text)!r} is not a valid key: it is too long, or contains "
            "invisible characters"
        )
        raise YamlError(node.mark, message, "type the key instead of pasting it")
    return node
