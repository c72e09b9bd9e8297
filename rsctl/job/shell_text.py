"""Finds commands in the text of a shell script, without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rsctl.job.from_wrappers import command_behind

_IN_DOUBT = re.compile(r"<<|NODE_RANK|HOSTNAME|PET_|RSCTL_")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SUBSTITUTION = re.compile(r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`")
_ENDS_COMMAND = frozenset(";&|()\n")
_BEFORE_COMMAND = frozenset(["if", "then", "else", "elif", "do", "while", "until", "{", "!"])


def certain_commands(text: str) -> list[list[str]]:
    """The commands of a text; none if it may start some on some nodes only, or has a quote that is
    not closed.
    """
    if _IN_DOUBT.search(text):
        return []
    try:
        return list(commands(text))
    except ValueError:  # a quote that is not closed
        return []


def commands(text: str) -> Iterator[list[str]]:
    """The words of each simple command, with `$X` in place of what a command prints.

    Raises ValueError for a quote that is not closed.
    """
    text = _COMMENT.sub("", text.replace("\\\n", " "))
    for _ in range(3):
        text = _SUBSTITUTION.sub("$X", text)
    words = shlex.shlex(text, posix=True, punctuation_chars=";&|()\n")
    words.whitespace, words.commenters, words.whitespace_split = " \t\r", "", True
    command: list[str] = []
    for word in [*words, ";"]:
        if not _ENDS_COMMAND.issuperset(word):
            command.append(word)
        else:
            if command := _without_prefix(command):
                yield command
            command = []


def _without_prefix(words: list[str]) -> list[str]:
    """A command without keywords, variables and wrappers before it."""
    while words and (words[0] in _BEFORE_COMMAND or re.match(r"[A-Za-z_]\w*=", words[0])):
        words = words[1:]
    return command_behind(words)
