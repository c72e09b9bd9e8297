"""What differs between two command lines: `run.args.lr: 0.05 -> 0.3` rather than both lines."""

from __future__ import annotations

from collections.abc import Sequence

ARGUMENTS = "arguments"
"""The name of the command line in a fingerprint."""

_OF_SCRIPT, _OF_LAUNCHER = "run.args.", "launcher --"
_FLAG = "true"

Change = tuple[str, str | None, str | None]
"""A name, and the value on both sides; None where it is not set."""


def argument_changes(before: object, after: object) -> list[Change]:
    """The options that differ between two command lines of a fingerprint, each with its values.

    Empty if the command lines differ in something else, such as their script.
    """
    sides = [_parsed(side) for side in (before, after)]
    (old, old_rest), (new, new_rest) = sides
    if old_rest != new_rest:
        return []
    values = [(name, old.get(name), new.get(name)) for name in dict.fromkeys([*old, *new])]
    return [change for change in values if change[1] != change[2]]


def _parsed(line: object) -> tuple[dict[str, str], list[str]]:
    """The options of a command line, and all other words."""
    words = line.split(" ") if isinstance(line, str) and line else []
    script = next((n for n, word in enumerate(words) if _is_script(word)), None)
    if script is None:
        return _options(words, _OF_SCRIPT)
    launcher, first = _options(words[:script], _OF_LAUNCHER)
    own, rest = _options(words[script + 1 :], _OF_SCRIPT)
    return launcher | own, [*first, words[script], *rest]


def _is_script(word: str) -> bool:
    return word.endswith(".py") or word in ("-m", "--")


def _options(words: Sequence[str], prefix: str) -> tuple[dict[str, str], list[str]]:
    """`--lr 0.1`, `--lr=0.1`, `--fp16` and `lr=0.1`; an option takes the words up to the next."""
    found: dict[str, str] = {}
    rest: list[str] = []
    name: str | None = None
    for word in words:
        key, separator, value = word.removeprefix("--").partition("=")
        if word.startswith("--") or (name is None and separator):
            if not key or prefix + key in found:  # a repeated option has several values
                return {}, list(words)
            name = prefix + key
            found[name] = value if separator else _FLAG
            if separator:
                name = None
        elif name is None:
            rest.append(word)
        else:
            found[name] = word if found[name] == _FLAG else f"{found[name]} {word}"
    return found, rest
