"""The bytes that a program receives, and why it cannot be started, in the words by which the causes
of failed jobs know it.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping

NOT_EXECUTABLE, NOT_FOUND = 126, 127
"""The exit codes of shells and container engines for a program that cannot be started."""

_SHELL_WORDS = frozenset(
    ["cd", ".", "source", "export", "set", "unset", "alias", "ulimit", "umask", "eval", "exec"]
)
_LONGEST_LINE = 256


def encoded(text: str) -> bytes:
    """Text as a process receives it: in the locale's encoding, if that has all its characters."""
    try:
        return os.fsencode(text)
    except UnicodeEncodeError:
        return text.encode("utf-8", "surrogateescape")


def explain(
    command: list[str], environ: Mapping[str, str], problem: OSError, folder: str = ""
) -> tuple[int, str]:
    """The exit code, and the reason why the kernel did not start a command in a folder."""
    import shutil  # programs that start others seldom need it

    name = command[0]
    path = environ.get("PATH")
    found = os.path.join(folder, name) if "/" in name else shutil.which(name, os.F_OK, path)
    code = NOT_FOUND if problem.errno in (errno.ENOENT, errno.ENOTDIR) else NOT_EXECUTABLE
    reason = problem.strerror or str(problem)
    if found is not None and os.path.isdir(found):
        reason = "it is a folder"
    elif found is not None and os.path.exists(found):
        reason = _of_file(found, problem, reason)
    elif name in _SHELL_WORDS or "=" in name or any(each in name for each in " ;&|<>"):
        reason = "it is for a shell, and none runs it"
    elif os.path.isfile(os.path.join(folder, name)):
        reason = "it is a file here, and no program of PATH"
    elif code == NOT_FOUND:
        reason = "there is no such program"
    return code, reason


def _of_file(path: str, problem: OSError, reason: str) -> str:
    if problem.errno == errno.EACCES:
        return "its file is not executable"
    first = _first_line(path)
    if not first.startswith(b"#!"):
        # Without one the kernel starts programs alone: a shell would take the file for a script.
        is_program = problem.errno != errno.ENOEXEC or first.startswith(b"\x7fELF")
        return reason if is_program else "its first line names no interpreter"
    if first.endswith(b"\r"):
        return "its first line ends with a carriage return"
    if problem.errno == errno.ENOENT:
        interpreter = first[2:].split(maxsplit=1)[:1] or [b"?"]
        return f"its interpreter {interpreter[0].decode(errors='replace')} does not exist"
    return reason


def _first_line(path: str) -> bytes:
    """The first line of a file without its end; empty if it cannot be read."""
    try:
        with open(path, "rb") as file:
            return file.readline(_LONGEST_LINE).removesuffix(b"\n")
    except OSError:
        return b""
