"""Small files and folders that may not be there, such as those of processes and devices."""

from __future__ import annotations

import os


def read_text(path: str, most: int = -1) -> str:
    """The text of a file, or so many of its first characters; empty if it cannot be read."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="\n") as file:
            return file.read(most)
    except OSError:
        return ""


def fields(path: str, most: int = -1) -> dict[str, str]:
    """The values of a file with lines `NAME: VALUE`, as /proc has them; of a name, the first.

    Only a line feed ends a line: the kernel shows a process's name with all other characters.
    """
    found: dict[str, str] = {}
    for line in read_text(path, most).split("\n"):
        name, _, value = line.partition(":")
        found.setdefault(name.strip(), value.strip())
    return found


def listed(folder: str) -> list[str]:
    """The names in a folder; none if it cannot be read."""
    try:
        return os.listdir(folder)
    except OSError:
        return []
