"""Finds the command that starts the ranks in a shell script or a batch script, for a remedy."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Container, Iterable, Sequence
from itertools import dropwhile, pairwise, takewhile
from pathlib import Path, PurePath

from rsctl.job.from_wrappers import ASSIGNMENT, PYTHON, SHELLS, command_behind
from rsctl.job.launcher_options import option_values
from rsctl.job.secret_names import has_secret, is_secret_name, public_arguments
from rsctl.job.shell_text import commands

_STARTERS = (*SHELLS, "source", ".", "sbatch")
_ENDS = (".sh", ".bash", ".slurm", ".sbatch")
_SBATCH = re.compile(r"(?m)^#SBATCH[ \t]+([^#\n]+)")
_OWN_FOLDER = re.compile(r"""\$\(dirname "?(?:\$0|\$\{BASH_SOURCE\[0\]\})"?\)""")
_PWD = re.compile(r"\$\(pwd\)|`pwd`")
_PYTHON_FILE = re.compile(r"\.py\b")
_PREPARES = ("module", "ml", "spack", "source", ".", "conda", "mamba", "micromamba", "ulimit")
_LARGEST = 1 << 16
_ONE = "the command that it starts"
_OTHERS, _LONGEST = 5, 80
"""The limits of the other commands of a script that are shown: their number, their characters."""
_SHIFT = re.compile(r"(?:^|[;\n])[ \t]*shift\b[ \t]*(\d?)")
_ALL = r"\$(?:[@*]|\{[@*](?::(\d))?\})"
_ARGUMENT = re.compile(rf'"{_ALL}"|{_ALL}|\$(?:(\d)|\{{(\d)[^{{}}]*\}})')
_OTHER_ARGUMENTS = re.compile(r"\b(?:while|case|getopts|function|set --)(?!\S)|\w *\( *\)")
_PLAIN = re.compile(r"[\w./:=,@%+-]+")
_FOR_A_SHELL = re.compile(r"""[\s;&|<>*#()'"\\]|(?<!\$)\{|^\$\{?(?:X|SLURM_\w+)\}?$""")
_OF_SLURM = {
    **dict.fromkeys(("SLURM_NNODES", "SLURM_JOB_NUM_NODES"), ("--nodes", "-N")),
    **dict.fromkeys(("SLURM_NTASKS", "SLURM_NPROCS"), ("--ntasks", "-n")),
    "SLURM_GPUS_PER_NODE": ("--gpus-per-node",),
    "SLURM_NTASKS_PER_NODE": ("--ntasks-per-node", "--tasks-per-node"),
    "SLURM_CPUS_PER_TASK": ("--cpus-per-task", "-c"),
}
"""Variables and the options that decide them, by https://slurm.schedmd.com/sbatch.html."""


def is_script(words: list[str]) -> bool:
    """Whether a command line starts a shell script, or submits one with `sbatch`."""
    words = list(dropwhile(ASSIGNMENT.fullmatch, words)) or [""]
    name = PurePath(words[0]).name
    return name == "sbatch" or name.endswith(_ENDS) or (name in _STARTERS and bool(_path(words)))


def remedy_for(words: list[str], launchers: Container[str]) -> str:
    """The command to give in place of a script; empty if the script has none that starts Python.

    `launchers` are the names of programs that start ranks. A line of one of them precedes one of
    Python. The variables that the script exports come with it. So do a batch script's options, as
    those of `srun`, unless a shell starts it.
    """
    given = list(takewhile(ASSIGNMENT.fullmatch, words))
    words = words[len(given) :]
    if not (path := _path(words)):
        return ""
    at = words.index(path)
    is_sbatch = PurePath(words[0]).name == "sbatch"
    try:
        text = Path(path).read_bytes()[:_LARGEST].decode()
        text = _OWN_FOLDER.sub(lambda _: os.path.dirname(path) or ".", _PWD.sub(".", text))
        options = [word for line in _SBATCH.findall(text) for word in shlex.split(line)]
        options += words[1:at] if is_sbatch else []
        values = [
            *(word.partition("=")[::2] for word in given),
            *(
                (name, value)
                for name, names in _OF_SLURM.items()
                for option in names
                for value in option_values(option, options)
            ),
        ]
        for name, value in ((n, value) for n, value in values if not is_secret_name(n)):
            variable = rf"\$(?:{name}\b|\{{{name}(?::?-[^{{}}]*)?\}})"
            text = re.sub(variable, _literal(value), text)
        lines = commands(_with_arguments(text, words[at + 1 :]))
        found = [line for each in lines for line in _evaluated(each)]
    except (OSError, ValueError):  # not UTF-8, or a quote that is not closed
        return ""
    programs = [command_behind(line) or [""] for line in found]
    starts = [n for n, program in enumerate(programs) if _starts_python(program, launchers)]
    starts.sort(key=lambda n: PurePath(programs[n][0]).name not in launchers)
    if not starts:
        return ""
    line, program = found[starts[0]], programs[starts[0]]
    exports = _exports(text, [["export", *given], *found[: starts[0]]])
    env = [*exports, *takewhile(ASSIGNMENT.fullmatch, line)]
    line = list(dropwhile(ASSIGNMENT.fullmatch, line))
    setup = ""
    if is_sbatch or (words[0] == path and options):
        line = ["srun", *options, *(program[1:] if program[0] == "srun" else line)]
        prepares = [each for each in found[: starts[0]] if each[0] in _PREPARES]
        setup = "".join(f", `{' '.join(each)}`" for each in prepares)
        setup = setup and f", then add{setup[1:]} to targets.slurm.setup"
    texts = {n: " ".join(map(_shown, public_arguments(found[n]))) for n in starts}
    others = dict.fromkeys(
        " ".join(texts[n].split()) for n in sorted(starts) if texts[n] != texts[starts[0]]
    )
    which = f"the one of its {len(others) + 1} commands that trains" if others else _ONE
    remedy = f"give {which}, with values for its variables{setup}: rsctl init "
    shown = [f"`{one[:_LONGEST]}{'...' * (len(one) > _LONGEST)}`" for one in others]
    shown[_OTHERS:] = ["..."] * (len(shown) > _OTHERS)
    more = f"; the others are {', '.join(shown)}" if others else ""
    return remedy + " ".join(_shown(word) for word in [*env, *line]) + more


def _path(words: list[str]) -> str:
    """The script among the words of a command line; empty if there is no such file."""
    after = words if PurePath(words[0]).name not in _STARTERS else words[1:]
    return next((word for word in after if os.path.isfile(word)), "")


def _with_arguments(text: str, arguments: Sequence[str]) -> str:
    """The text with the script's arguments in place of `$1` and `$@`, unless a loop reads them or a
    function has its own.
    """
    if not arguments or _OTHER_ARGUMENTS.search(text):
        return text
    first, *others = _SHIFT.split(text)
    rest = ["", *arguments]

    def value(match: re.Match[str]) -> str:
        quoted, bare, *numbers = match.groups()
        number = numbers[0] or numbers[1]
        if number is None:
            joined = shlex.join(rest[int(quoted or bare or 1) :])
            is_assigned = match.string[: match.start()].endswith("=")
            return f'"{joined}"' if is_assigned else joined
        argument = rest[int(number)] if 0 < int(number) < len(rest) else ""
        return argument if _PLAIN.fullmatch(argument) else match[0]

    found = [_ARGUMENT.sub(value, first)]
    for count, part in zip(others[::2], others[1::2], strict=True):
        del rest[1 : 1 + int(count or 1)]
        found.append(_ARGUMENT.sub(value, part))
    return "\n".join(found)


def _literal(value: str) -> str:
    """The replacement of `re.sub` that gives exactly this text."""
    return value.replace("\\", r"\\")


def _evaluated(line: list[str]) -> Iterable[list[str]]:
    """The commands that a line evaluates or starts by a shell, as `srun bash -c TEXT` does."""
    if line[0] == "eval":
        return commands(" ".join(line[1:]))
    for at, (word, option) in enumerate(pairwise(line)):
        if PurePath(word).name in SHELLS and re.fullmatch("-[a-z]*c", option):
            return ([*line[:at], *inner] for inner in commands(" ".join(line[at + 2 :])))
    return [line]


def _exports(text: str, lines: Sequence[Sequence[str]]) -> list[str]:
    """The variables that lines export, except for commands that the script itself uses."""
    found: dict[str, str] = {}
    words = [word for line in lines if line[0] == "export" for word in line[1:]]
    for name, _, value in (word.partition("=") for word in words if ASSIGNMENT.fullmatch(word)):
        own = rf"\$(?:{name}\b|\{{{name}\}})"
        value = re.sub(own, _literal(found[name]), value) if name in found else value
        is_command = " " in value.strip() and re.search(own, text)
        if name != "PATH" and "$" not in re.sub(own, "", value) and not is_command:
            found[name] = value
    return [f"{name}={value}" for name, value in found.items()]


def _shown(word: str) -> str:
    """A word of a shell's command line, in which the shell gives values to variables."""
    name, is_assigned, value = word.partition("=")
    if is_assigned and "$" not in value and (is_secret_name(name) or has_secret(value)):
        word = f"{name}=***"
    if not _FOR_A_SHELL.search(word):
        return word
    if "$" not in word:
        return shlex.quote(word)
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def _starts_python(words: list[str], launchers: Container[str]) -> bool:
    name = PurePath(words[0]).name
    is_known = name in launchers or PYTHON.fullmatch(name) is not None
    is_program = any(word == "-m" or _PYTHON_FILE.search(word) for word in words[1:])
    if "torchrun" in words:
        is_program = is_program or any(word[0:1] == "$" for word in words)
    return is_known and is_program and "pip" not in words
