"""Writes a job file that says what another file and its `--set` say."""

from __future__ import annotations

from collections.abc import Sequence as Items

import yaml

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.document import Document, read
from rsctl.job.yaml_tree import Mapping, Node, Position, Scalar, Sequence

_RESOLVER = yaml.resolver.Resolver()


def equivalent_text(document: Document, settings: Items[str]) -> str:
    """The text of a job file for the job of a document that was read with these settings.

    Without settings it is the document's own text; with settings it has no comments. Raises
    RsctlError if a file cannot give the same job.
    """
    if not settings:
        return document.text
    text = _tree_text(document)
    if read(document.path, text=text).job == document.job:
        return text
    for setting in settings:
        alone = read(document.path, [setting], text=document.text)
        if read(document.path, text=_tree_text(alone)).job != alone.job:
            key = setting.partition("=")[0]
            message = f"a file cannot have the value that --set gives {key}"
            remedy = "write the value without ${VARIABLE}, or set the key in your own job file"
            raise RsctlError(ExitCode.USAGE, error("write", message, remedy, key))
    message = "a file cannot have the values that --set gives"
    raise RsctlError(ExitCode.USAGE, error("write", message, "set the keys in your own job file"))


def _tree_text(document: Document) -> str:
    """The tree as YAML: a scalar keeps its text, and has quotes if it had or requires them."""
    node = _yaml_node(document.root or Mapping(Position(document.path, 1, 1)))
    text: str = yaml.serialize(node, Dumper=yaml.SafeDumper, width=10**9, allow_unicode=True)
    return text


def _yaml_node(node: Node) -> yaml.Node:
    if isinstance(node, Scalar):
        implicit = (node.plain, not node.plain)
        tag = _RESOLVER.resolve(yaml.ScalarNode, node.text, implicit)  # type: ignore[no-untyped-call]
        return yaml.ScalarNode(tag, node.text, style=None if node.plain else "'")
    if isinstance(node, Sequence):
        items = [_yaml_node(item) for item in node.items]
        return yaml.SequenceNode("tag:yaml.org,2002:seq", items, flow_style=False)
    entries = [(_yaml_node(entry.key), _yaml_node(entry.value)) for entry in node.entries.values()]
    return yaml.MappingNode("tag:yaml.org,2002:map", entries, flow_style=False)
