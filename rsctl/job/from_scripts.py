"""Finds the command that starts the ranks in a shell script or a batch script, for a remedy."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Container
from pathlib import Path, PurePath

from rsctl.job.from_wrappers import PYTHON, SHELLS
from rsctl.job.shell_text import commands

_STARTERS = (*SHELLS, "source", ".", "sbatch")
_ENDS = (".sh", ".bash", ".slurm", ".sbatch")
_SBATCH = re.compile(r"(?m)^#SBATCH[ \t]+([^#\n]+)")
_OWN_FOLDER = re.compile(r"""\$\(dirname "?(?:\$0|\$\{BASH_SOURCE\[0\]\})"?\)""")
_PYTHON_FILE = re.compile(r"\.py\b")
_LARGEST = 1 << 16


def is_script(words: list[str]) -> bool:
    """Whether a command line starts a shell script, or submits one with `sbatch`."""
    name = PurePath(words[0]).name
    return name == "sbatch" or name.endswith(_ENDS) or (name in _STARTERS and bool(_path(words)))


def command_in(words: list[str], launchers: Container[str]) -> str:
    """The command to give in place of a script; empty if the script has none that starts Python.

    `launchers` are the names of programs that start ranks. A line of one of them precedes one of
    Python. A batch script's options come with it, as those of `srun`, unless a shell starts it.
    """
    path = _path(words)
    try:
        text = Path(path).read_bytes()[:_LARGEST].decode() if path else ""
        text = _OWN_FOLDER.sub(lambda _: os.path.dirname(path) or ".", text)
        found = [line for line in commands(text) if _starts_python(line, launchers)]
        options = [word for line in _SBATCH.findall(text) for word in shlex.split(line)]
    except (OSError, ValueError):  # not UTF-8, or a quote that is not closed
        return ""
    line = next((each for each in found if PurePath(each[0]).name in launchers), [])
    line = line or (found[0] if found else [])
    is_sbatch = PurePath(words[0]).name == "sbatch"
    if line and (is_sbatch or (words[0] == path and options)):
        options += words[1 : words.index(path)]
        line = ["srun", *options, *line[line[0] == "srun" :]]
    return " ".join(f'"{word}"' if re.search(r"[\s;&|<>*#]", word) else word for word in line)


def _path(words: list[str]) -> str:
    """The script among the words of a command line; empty if there is no such file."""
    after = words if PurePath(words[0]).name not in _STARTERS else words[1:]
    return next((word for word in after if os.path.isfile(word)), "")


def _starts_python(words: list[str], launchers: Container[str]) -> bool:
    name = PurePath(words[0]).name
    is_known = name in launchers or PYTHON.fullmatch(name) is not None
    is_program = any(word == "-m" or _PYTHON_FILE.search(word) for word in words[1:])
    return is_known and is_program and "pip" not in words
