"""A job file's text as it is kept with its runs: as written, less what is secret in it.

Variables stay `${VAR}`. Values of keys with the names of secrets, also of keys that are commented
out, and texts in the form of known kinds of secret, become `***`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rsctl.findings import Finding
from rsctl.job.file_text import YamlError
from rsctl.job.secret_names import (
    HIDDEN,
    has_assigned_secret,
    is_secret_key,
    public_text,
    secret_arguments,
    without_known_secrets,
)
from rsctl.job.yaml_parser import parse
from rsctl.job.yaml_tree import Mapping, Node, Scalar, Sequence, name_of_value

_COMMENT = re.compile(r"(?:^|\s)#(?!.*\$\{).*")
_VARIABLE = re.compile(r"\$\{\w+\}")
_HEADING = re.compile(r"-----[A-Z0-9 ]+-----")  # of a key; its words are also in names
_SHORTEST_WORD = 4
_LONGEST = 200_000


def kept_text(text: str) -> str | None:
    """The text without its secrets; None if it is too long, or a secret cannot be located."""
    findings: list[Finding] = []
    try:
        root = parse(text, "", findings)
    except YamlError:
        return None
    secrets = sorted(_secrets(root, False), key=lambda s: (s.mark.line, s.mark.column))
    lines = text.splitlines(keepends=True)
    for secret in reversed(dict.fromkeys(secrets)):
        _hide(lines, secret)
    lines = [_COMMENT.sub(lambda found: public_text(found[0]), line) for line in lines]
    shown = without_known_secrets("".join(lines))
    texts = (_HEADING.sub("", secret.text) for secret in secrets)
    words = {word for text in texts for word in text.split() if len(word) >= _SHORTEST_WORD}
    if len(shown) > _LONGEST or any(word in shown for word in words):
        return None
    return shown


def _secrets(node: Node | None, is_secret: bool, key: str = "") -> Iterator[Scalar]:
    """Values at and below keys with the names of secrets, without variables."""
    if isinstance(node, Scalar):
        is_secret = is_secret or has_assigned_secret(node.text)
        if is_secret and node.text and not _VARIABLE.fullmatch(node.text):
            yield node
    elif isinstance(node, Sequence):
        texts = [item.text if isinstance(item, Scalar) else "" for item in node.items]
        for index, _, start in secret_arguments(texts):
            if not _VARIABLE.fullmatch(texts[index][start:]):
                yield from _secrets(node.items[index], True)
        for item in node.items:
            yield from _secrets(item, is_secret)
    elif isinstance(node, Mapping):
        for name, entry in node.entries.items():
            last = name_of_value(node, name).rpartition(".")[2]
            is_named = is_secret_key(last, key, isinstance(entry.value, Scalar))
            yield from _secrets(entry.value, is_secret or is_named, name)


def _hide(lines: list[str], secret: Scalar) -> None:
    """Replace a value at its position, together with its continuation lines."""
    first = secret.mark.line - 1
    line, start = lines[first], secret.mark.column - 1
    if secret.offset is not None:
        start += secret.offset
        lines[first] = line[:start] + HIDDEN + line[start + len(secret.text) :]
        return
    indent = len(line) - len(line.lstrip(" -"))
    end = first + 1
    while end < len(lines) and (not lines[end].strip() or _indent(lines[end]) > indent):
        end += 1
    lines[first:end] = [line[:start] + HIDDEN + "\n"]


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" "))
