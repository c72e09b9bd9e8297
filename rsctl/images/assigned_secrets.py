"""Finds secrets of any issuer in files: generated values that are assigned to the name of one."""

from __future__ import annotations

import os
import re

from rsctl.job.secret_names import is_secret_name

_SOURCES = (
    *(".js", ".mjs", ".cjs", ".jsx", ".ts", ".tsx", ".java", ".kt", ".scala", ".rb", ".php", ".pl"),
    *(".lua", ".jl", ".r", ".m", ".swift", ".cs", ".cxx", ".hpp", ".hh", ".cuh", ".proto", ".pyi"),
    *(".pyx", ".html", ".htm", ".css", ".svg", ".map", ".bash", ".zsh", ".ps1", ".bat", ".tex"),
)
"""Programs and pages, in addition to those that are not read at all."""

_LONGEST = 1 << 10
_ASSIGNED = re.compile(
    rb"""(?<![\w.:/-])(?P<name>-{0,2}[A-Za-z_][\w.-]{1,60})"""
    rb"""(?:\\?["'])?(?:[ \t]*(?:=|>|:(?![:/]))|,?\s*["']?[Vv]alue["']?[ \t]*[:=])"""
    rb"""[ \t]*(?:[|>\\][+-]?\s+)?(?=(?:\\?["'])?(?:(?i:bearer|basic|token) +)?"""
    rb"""(?P<value>[\w+/=-]{20,512})(?![\w+/=.:$({@%-]|<(?!/)))"""
)
_MIXED = r"(?=.*[A-Z])(?=.*[a-z])(?=.*\d)"
_GENERATED = re.compile(
    rf"[0-9a-f]{{32,}}|[0-9A-F]{{32,}}|[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}"
    rf"|(?=.*\d.*\d){_MIXED}[\w=-]{{20,}}"
    # Base64 of random bytes; a part of a path is often a word.
    rf"|{_MIXED}(?!.*(?:^|/)[A-Za-z]?[a-z]{{3,}}(?:/|$))[A-Za-z0-9+/]{{32,}}={{0,2}}"
)
_HEX = re.compile(r"[0-9a-fA-F]+")
_WORD = re.compile(r"[A-Z][a-z]{2,}|[a-z]{4,}|[A-Z]{4,}")
_MOST_WORDS = 0.65
_PLACEHOLDER = re.compile(r"(\w)\1{4}|(?i:example|placeholder|change|your|12345|sample)")


def has_assigned_secret(name: str, content: bytes) -> bool:
    """Whether the content of a file assigns a generated value to a secret's name.

    The name of a file is the name of its content if that is one value.
    """
    stem, extension = os.path.splitext(name.lower())
    if extension in _SOURCES:
        return False
    if is_secret_name(stem) and _is_generated(content[:_LONGEST].strip().decode(errors="replace")):
        return True
    return any(
        _is_generated(found["value"].decode(errors="replace"))
        and is_secret_name(found["name"].decode(errors="replace"))
        for found in _ASSIGNED.finditer(content)
    )


def _is_generated(value: str) -> bool:
    """Whether a value looks random: neither words with numbers nor a placeholder."""
    if not _GENERATED.fullmatch(value) or _PLACEHOLDER.search(value):
        return False
    return _HEX.fullmatch(value) is not None or _share_of_words(value) < _MOST_WORDS


def _share_of_words(value: str) -> float:
    return sum(map(len, _WORD.findall(value))) / len(value)
