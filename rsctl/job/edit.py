"""Sets values in a job file and leaves all else of its text as it is, comments and layout too."""

from __future__ import annotations

from collections.abc import Mapping as Map

from rsctl.atomic_file import write_file
from rsctl.findings import ExitCode, RsctlError, error
from rsctl.job.document import Document, read
from rsctl.job.yaml_tree import Mapping, Scalar


def write_values(path: str, values: Map[str, str]) -> None:
    """Set keys such as `reducers.count` to values, given as YAML text.

    Edits the file as text and reads it again: the result must be equal to the old file with these
    settings, and nothing else. Raises RsctlError if that is not possible, or the file cannot be
    written.
    """
    before = read(path)
    before.require_job()
    text: str | None = before.text
    for key, value in values.items():
        document = read(path, text=text)
        text = _edited(document, key, value)
        if text is None:
            break
    if text is None or not _means(path, text, before, values):
        lines = "; ".join(f"{key}: {value}" for key, value in values.items())
        message = f"cannot edit {path} without touching other keys"
        raise RsctlError(
            ExitCode.USAGE, error("write", message, f"edit the file yourself: {lines}")
        )
    write_file(path, text.encode())


def _edited(document: Document, key: str, value: str) -> str | None:
    """The text with one value set; None if the file is written in a way that is unknown."""
    block, _, name = key.rpartition(".")
    root = document.root
    if root is None:
        return None
    lines = document.text.splitlines(keepends=True)
    entry = root.entries.get(block) if block else None
    if entry is None:
        last = lines[-1] if lines else ""
        end = "" if last.endswith("\n") or not last else "\n"
        return f"{document.text}{end}{block}:\n  {name}: {value}\n" if block else None
    if not isinstance(entry.value, Mapping):
        return None
    inner = entry.value.entries.get(name)
    if inner is None:
        return _with_key(lines, entry.key.mark.line, entry.value, f"{name}: {value}")
    return _with_scalar(lines, inner.value, value)


def _with_scalar(lines: list[str], node: object, value: str) -> str | None:
    if not isinstance(node, Scalar) or node.offset is None or "${" in node.text:
        return None
    at, begin = node.mark.line - 1, node.mark.column - 1 + node.offset
    line = lines[at]
    end = begin + len(node.text)
    if line[begin:end] != node.text:
        return None
    if not node.plain:
        begin, end = begin - 1, end + 1  # the quotes
    lines[at] = line[:begin] + value + line[end:]
    return "".join(lines)


def _with_key(lines: list[str], key_line: int, block: Mapping, text: str) -> str | None:
    """One more key, before the first of the block."""
    at, column = block.mark.line - 1, block.mark.column - 1
    if block.mark.line == key_line:
        if lines[at][column : column + 1] != "{":
            return None
        more = ", " if block.entries else ""
        lines[at] = f"{lines[at][: column + 1]}{text}{more}{lines[at][column + 1 :]}"
    else:
        lines.insert(at, f"{' ' * column}{text}\n")
    return "".join(lines)


def _means(path: str, text: str, before: Document, values: Map[str, str]) -> bool:
    after = read(path, text=text)
    wanted = read(path, [f"{key}={value}" for key, value in values.items()], text=before.text)
    return not after.has_errors and after.job == wanted.job
