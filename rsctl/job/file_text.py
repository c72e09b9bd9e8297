"""Reads a job file as text that can be parsed as YAML: encoding, size, control characters."""

from __future__ import annotations

import codecs
import os
import re
import stat
import sys
from contextlib import suppress

from rsctl.findings import ExitCode, RsctlError
from rsctl.job.yaml_tree import Position

MAX_BYTES = 1 << 20
_ALIKE = 0.8
"""The similarity of two names of files, up to 1, from which one is suggested for the other."""
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_LINE_END = re.compile("\r\n|[\n\r\x85\u2028\u2029]")
_FOREIGN_BOMS = (
    (codecs.BOM_UTF32_LE, "UTF-32"),
    (codecs.BOM_UTF32_BE, "UTF-32"),
    (codecs.BOM_UTF16_LE, "UTF-16"),
    (codecs.BOM_UTF16_BE, "UTF-16"),
)


class YamlError(RsctlError):
    """The text is not valid YAML for a spec; reading stops at the first such error."""

    def __init__(self, mark: Position, message: str, remedy: str | None = None) -> None:
        super().__init__(ExitCode.USAGE, mark.error("yaml", message, remedy))


def lines_of(text: str) -> list[str]:
    """The lines of a text, by what YAML takes for a line's end."""
    return _LINE_END.split(text)


def end_of(text: str, file: str) -> Position:
    """The position right behind a text that begins the file."""
    lines = lines_of(text)
    return Position(file, len(lines), len(lines[-1]) + 1)


def read_text(path: str) -> str:
    """The text of a spec file, or of standard input for `-`. Raises YamlError."""
    start = Position(path, 1, 1)
    try:
        data = _read_stdin() if path == "-" else _read_file(path)
    except (OSError, ValueError) as problem:  # ValueError: a NUL in the path
        reason = getattr(problem, "strerror", None) or str(problem)
        message = f"cannot read this file: {reason}"
        raise YamlError(start, message, _remedy(path, problem)) from None
    if len(data) > MAX_BYTES:
        raise YamlError(
            start,
            f"the file is larger than the limit of {MAX_BYTES >> 20} MiB",
            "check that it is the right file",
        )
    return _checked(_decoded(data, path), path)


def _remedy(path: str, problem: Exception) -> str:
    """The remedy for a file that cannot be read: another one, in the folder or of a like name."""
    folder, name = os.path.split(path)
    with suppress(OSError):
        if isinstance(problem, IsADirectoryError):
            inside = sorted(file for file in os.listdir(path) if file.endswith((".yaml", ".yml")))
            return f"name a job file, such as {os.path.join(path, (inside or ['job.yaml'])[0])}"
        beside = os.listdir(folder or ".") if isinstance(problem, FileNotFoundError) else []
        import difflib  # only after a mistake

        files = [file for file in beside if file.endswith((".yaml", ".yml", ".json"))]
        whole = name if "." in name else f"{name}.yaml"
        if close := difflib.get_close_matches(whole, files, 1, _ALIKE):
            return f"did you mean {os.path.join(folder, close[0])!r}?"
    return "check the path and its permissions"


def _read_stdin() -> bytes:
    if sys.stdin is None:
        raise OSError(None, "standard input is closed")
    return sys.stdin.buffer.read(MAX_BYTES + 1)


def _read_file(path: str) -> bytes:
    with open(path, "rb", opener=_open_at_once) as file:
        mode = os.fstat(file.fileno()).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise OSError(None, "it is not a regular file")
        os.set_blocking(file.fileno(), True)
        return file.read(MAX_BYTES + 1)


def _open_at_once(path: str, flags: int) -> int:
    # Without O_NONBLOCK, opening a FIFO without a writer would block forever.
    return os.open(path, flags | os.O_NONBLOCK)


def _decoded(data: bytes, path: str) -> str:
    for bom, name in _FOREIGN_BOMS:
        if data.startswith(bom):
            raise YamlError(Position(path, 1, 1), f"the file is {name}", "save it as UTF-8")
    data = data.removeprefix(codecs.BOM_UTF8)
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        before = data[: problem.start].decode()
        message = f"byte 0x{data[problem.start]:02x} is not UTF-8"
        raise YamlError(end_of(before, path), message, "save the file as UTF-8") from None


def _checked(text: str, path: str) -> str:
    bad = _UNPRINTABLE.search(text)
    if bad:
        mark = end_of(text[: bad.start()], path)
        raise YamlError(mark, f"control character U+{ord(bad[0]):04X}", "remove it")
    return text
