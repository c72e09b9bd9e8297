"""Differences of two measurements, by name, and the differences of their command lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

NOT_SET = "not set"
OTHER_FILES = "other files"
"""The name of the files beyond the number of files that are compared one by one."""
ALTERNATIVES = " | "
"""The separator of values that differ between runs which should be equal."""

_OPTION = re.compile(r"--?[A-Za-z][\w.-]*")
_ASSIGNED = re.compile(r"(?:--?|\+{0,2})([A-Za-z][\w./-]*)=(.*)", re.DOTALL)
_HASH = re.compile(r"\b([0-9a-f]{10})[0-9a-f]{30,54}\b")
_LAUNCHER = "--launcher"
_KEYS = {
    "--launcher": "run.launcher",
    "--processes": "workers.processes",
    "--stop-signal": "limits.stop_signal",
    "--restarts-in-place": "limits.restarts_in_place",
    "--keep": "limits.keep",
}
_KEYS_WITH_NAME = {
    "--env": "run.env",
    "--copy": "inputs",
    "--count": "inputs",
    "--shards": "inputs",
}
_NOT_A_KEY = ("--python", "--fill")
"""Options of the launcher that follow from the command."""


class Difference(msgspec.Struct, frozen=True):
    """One thing in which two measurements differ; None if it is unknown."""

    name: str
    baseline: Any
    candidate: Any

    def __str__(self) -> str:
        text = f"{self.name}: {value_text(self.baseline)} -> {value_text(self.candidate)}"
        return _HASH.sub(r"\1", text)  # the first digits of a commit or a digest


def value_text(value: Any) -> str:
    """A value as a difference shows it."""
    return "unknown" if value is None else str(value) or "''"


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], prefix: str = ""
) -> list[Difference]:
    """The values by name that differ."""
    names = list(dict.fromkeys([*before, *after]))
    return [
        Difference(prefix + name, before.get(name), after.get(name))
        for name in names
        if before.get(name) != after.get(name)
    ]


def argument_differences(before: str, after: str) -> list[Difference]:
    """The arguments that differ between two command lines of a fingerprint, by key of the job file.

    For example `run.args.lr: 0.05 -> 0.3`. Whole lines where no single argument differs.
    """
    if before == after:
        return []
    whole = [Difference("arguments", before, after)]
    if ALTERNATIVES in before + after:  # runs of one side have differed
        return whole
    one, other = _by_key(before.split()), _by_key(after.split())
    found = [
        Difference(name, one.get(name, NOT_SET), other.get(name, NOT_SET))
        for name in dict.fromkeys([*one, *other])
        if one.get(name) != other.get(name)
    ]
    if not found and sorted(before.split()) == sorted(after.split()):
        return [Difference("order of the arguments", before, after)]
    return found or whole


def _by_key(words: Sequence[str]) -> dict[str, str]:
    """The values of a command line by key path."""
    if _LAUNCHER not in words[:1] or "--" not in words:
        return _arguments(words)
    middle = words.index("--")
    options, command = words[:middle], words[middle + 1 :]
    if "--python" not in options:
        return {**_launcher_options(options), **_arguments(command, "run.command")}
    is_module = command[:1] == ["-m"]
    key = "run.module" if is_module else "run.script"
    program, rest = command[is_module : is_module + 1], command[is_module + 1 :]
    return {**_launcher_options(options), key: " ".join(program), **_arguments(rest)}


def _launcher_options(words: Sequence[str]) -> dict[str, str]:
    found: dict[str, list[str]] = {}
    name = ""
    for word in words:
        if word.startswith("--"):
            name = word
        elif name in _KEYS_WITH_NAME:
            inner, _, value = word.partition("=")
            found.setdefault(f"{_KEYS_WITH_NAME[name]}.{inner}", []).append(value or name[2:])
        elif name not in _NOT_A_KEY:
            found.setdefault(_KEYS.get(name, f"launcher {name}"), []).append(word)
    return {name: " ".join(values) for name, values in found.items()}


def _arguments(words: Sequence[str], head: str = "run.args") -> dict[str, str]:
    """The values by option; a flag is true, as in the job file. `head` is before all options."""
    found: dict[str, list[str]] = {}
    first: list[str] = []
    name = ""
    for word in words:
        assigned = _ASSIGNED.fullmatch(word)
        if assigned:
            name = ""
            found.setdefault(f"run.args.{assigned[1]}", []).append(assigned[2])
        elif _OPTION.fullmatch(word):
            name = f"run.args.{word.lstrip('-')}"
            found.setdefault(name, [])
        elif name:
            found[name].append(word)
        else:
            first.append(word)
    texts = {name: " ".join(values) or "true" for name, values in found.items()}
    return {**({head: " ".join(first)} if first else {}), **texts}
