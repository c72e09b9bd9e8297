"""Floors in a job file: sets `gate.max_regression`, and leaves all else in it as it is."""

from __future__ import annotations

import re
from collections.abc import Mapping as Map

from msgspec.structs import replace

from rsctl.atomic_file import write_file
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.document import Document, read
from rsctl.job.yaml_tree import Mapping


def write_floors(path: str, floors: Map[str, str]) -> None:
    """Set the floors of some metrics; others stay. Raises RsctlError if it cannot be done safely.

    The file is edited as text, so that comments stay, and read again: it must mean the same but
    for these keys.
    """
    before = read(path)
    block = before.job.gate if before.job else None
    new_floors = {
        **{n: str(v) for n, v in (block.max_regression if block else {}).items()},
        **floors,
    }
    text = _edited(before, new_floors)
    after = read(path, text=text)
    if text is None or not _is_as_wanted(before, after, new_floors):
        lines = ["gate:", "  max_regression:", *(f"    {n}: {v}" for n, v in new_floors.items())]
        message = f"cannot edit {path} without touching other keys"
        raise RsctlError(
            ExitCode.USAGE, error("gate", message, "write it yourself: " + "\n".join(lines))
        )
    write_file(path, text.encode())


def _edited(document: Document, floors: Map[str, str]) -> str | None:
    """The file's text with these floors; None if the block is written in another way."""
    lines = document.text.splitlines()
    entry = document.root.entries.get("gate") if document.root else None
    if entry is None:
        block = ["gate:", "  max_regression:", *_floor_lines("    ", floors)]
        return "\n".join([*lines, *block]) + "\n"
    if not isinstance(entry.value, Mapping):
        return None
    inner = entry.value.entries.get("max_regression")
    if inner is None:
        if entry.value.mark.line == entry.key.mark.line:
            return None
        indent = " " * (entry.value.mark.column - 1)
        at = entry.key.mark.line
        block = [f"{indent}max_regression:", *_floor_lines(indent + "  ", floors)]
        return "\n".join([*lines[:at], *block, *lines[at:]]) + "\n"
    first = inner.key.mark.line - 1
    indent = " " * (inner.key.mark.column - 1)
    if lines[first][: len(indent)].strip():
        return None
    last = first + 1
    while last < len(lines) and re.match(rf"{indent}\s+\S|\s*$", lines[last]):
        last += 1
    block = [f"{indent}max_regression:", *_floor_lines(indent + "  ", floors)]
    return "\n".join([*lines[:first], *block, *lines[last:]]) + "\n"


def _floor_lines(indent: str, floors: Map[str, str]) -> list[str]:
    return [f"{indent}{name}: {floor}" for name, floor in floors.items()]


def _is_as_wanted(before: Document, after: Document, floors: Map[str, str]) -> bool:
    if before.job is None or after.job is None or after.job.gate is None or after.has_errors:
        return False
    written = {name: str(value) for name, value in after.job.gate.max_regression.items()}
    if written != dict(floors):
        return False
    same_gate = replace(after.job.gate, max_regression={})
    was = before.job.gate and replace(before.job.gate, max_regression={})
    is_same_gate = same_gate == was or (was is None and same_gate == type(same_gate)())
    return is_same_gate and replace(after.job, gate=None) == replace(before.job, gate=None)
