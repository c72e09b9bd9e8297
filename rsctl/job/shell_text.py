"""Finds commands in the text of a shell script, without running it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator

from rsctl.job.from_wrappers import ASSIGNMENT

_Known = dict[str, list[str]]
"""The words of variables; none of a variable that is not assigned yet."""

_IN_DOUBT = re.compile(r"<<|NODE_RANK|HOSTNAME|PET_|RSCTL_")
_COMMENT = re.compile(r"(?m)(?:^|(?<=\s))#.*$")
_SUBSTITUTION = re.compile(r"\$\(\([^()]*\)\)|\$\([^()]*\)|`[^`]*`")
_ENDS_COMMAND = frozenset(";&|()\n")
_ASSIGNED = re.compile(r"(?<![\w.+:/-])([A-Za-z_]\w*)\+?=(?!\"?\$\{?\1\}?\"?(?:\s|$))")
"""Not options such as `--lr=$lr`, nor settings of Hydra such as `lr=$lr`."""
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)(?:\[[@*]\])?\})")
_ARGUMENT = re.compile(r"\$\{?[\d@*]")
_REDIRECTION = re.compile(r"\d*>>?(.*)")
_OUTPUT = "X"
_LARGEST = 1 << 13  # characters of a command: values may double with each variable
_DECLARATIONS = frozenset(["export", "local", "readonly", "declare", "typeset"])
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
    """The words of each simple command with the variables and wrappers before it, without its
    redirections; with `$X` in place of what a command prints, and the words of a variable or an
    array that the text assigns once in its place.

    Raises ValueError for a quote that is not closed.
    """
    text = _COMMENT.sub("", text).replace("\\\n", " ")  # a comment has no continuation
    for _ in range(3):
        text = _SUBSTITUTION.sub(f"${_OUTPUT}", text)
    names = _ASSIGNED.findall(text)
    known: _Known = {name: [] for name in names if names.count(name) == 1 and name != _OUTPUT}
    words = shlex.shlex(text, posix=True, punctuation_chars=";&|()\n")
    words.whitespace, words.commenters, words.whitespace_split = " \t\r", "", True
    command: list[str] = []
    array = ""
    for word in [*words, ";"]:
        if not word or not _ENDS_COMMAND.issuperset(word):
            command.append(word)
        elif array:
            if ")" in word:
                known[array], array, command = _expanded(command, known), "", []
        elif word[0] == "(" and command and command[-1][-1:] == "=" and command[-1][:-1] in known:
            array, command = "" if ")" in word else command[-1][:-1], []
        else:
            command = _expanded(command, known)
            _assign(command, known)
            command = _bare(command)
            if not all(ASSIGNMENT.fullmatch(word) for word in command):
                yield command
            command = []


def _assign(words: list[str], known: _Known) -> None:
    """Note the variables that a command assigns, before it or for the commands that follow."""
    for word in words:
        name, is_assigned, value = word.partition("=")
        if is_assigned and name in known:
            # Of an argument of the script, the variable's name says more than its number.
            known[name] = [] if _ARGUMENT.search(value) else _expanded(value.split(), known)
        elif word not in _DECLARATIONS and not word.startswith("-"):
            return


def _expanded(words: list[str], known: _Known) -> list[str]:
    """The words, with what is known of a variable in place of it."""

    def value(match: re.Match[str]) -> str:
        values = known.get(match[1] or match[2], [])
        is_text = " " in match.string
        return " ".join(values) if values and (is_text or len(values) == 1) else match[0]

    found = ((word, _VARIABLE.fullmatch(word)) for word in words)
    expanded = [
        each
        for word, match in found
        for each in ((match and known.get(match[1] or match[2])) or [_VARIABLE.sub(value, word)])
    ]
    return expanded if sum(map(len, expanded)) <= _LARGEST else words


def _bare(words: list[str]) -> list[str]:
    """A command without keywords before it, and without redirections."""
    if words[:1] == ["function"]:
        words = words[2:]
    while words and words[0] in _BEFORE_COMMAND:
        words = words[1:]
    kept: list[str] = []
    rest = iter(words)
    for word in rest:
        if (redirection := _REDIRECTION.fullmatch(word)) is None:
            kept.append(word)
        elif not redirection[1]:
            next(rest, None)
    return kept
