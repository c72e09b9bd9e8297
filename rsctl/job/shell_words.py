"""Command lines of a shell: their words, their operators, and how a job file writes them."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from itertools import pairwise

_OPERATOR = re.compile(
    r"&&|\|\||\|&?|;|&|[0-9]?(?:>>?|>\||<{1,3})|[0-9]?>&[0-9-]?|&>>?|[12&]>>?[A-Za-z0-9_./-]+"
)
_BETWEEN_COMMANDS = ("&&", "||")
_QUOTED = re.compile(r"'[^']*'|\\.|\"(?:[^\"\\$`]|\\.)*\"", re.DOTALL)
_SPECIAL = re.compile(r"[|&;<>()$`*?\"'\n]|(?:^|\s)[~#]")
_PLAIN = re.compile(r"[A-Za-z0-9./_-][A-Za-z0-9./_+@$=~-]*(?::[A-Za-z0-9./_+@$=~-]+)*")
_OTHER_TYPE = re.compile(r"null|true|false|yes|no|on|off|y|n|-+", re.IGNORECASE)


def find_operator(words: Sequence[str]) -> tuple[str, bool] | None:
    """The first operator of a shell among words, and whether it is certainly meant as one.

    A `|` or `>` behind an option may be its value.
    """
    found = [
        (word, word in _BETWEEN_COMMANDS or not before.startswith("-"))
        for before, word in pairwise(["", *words])
        if _OPERATOR.fullmatch(word)
    ]
    return max(found, key=lambda each: each[1], default=None)


def path_word(path: str) -> str:
    """A path as an argument of a command: `./-x` for one that looks like an option."""
    return f"./{path}" if path.startswith("-") else path


def shell_line(words: Sequence[str]) -> str:
    """The words as a line for a shell, with its operators as they are."""
    return " ".join(word if _OPERATOR.fullmatch(word) else shlex.quote(word) for word in words)


def split_line(line: str) -> list[str] | None:
    """The words of a line; None if only a shell can run it, or if a quote is not closed."""
    if _SPECIAL.search(_QUOTED.sub("x", line)):
        return None
    try:
        return shlex.split(line)
    except ValueError:
        return None


def is_closed(line: str) -> bool:
    """Whether each quote of a line is closed."""
    try:
        shlex.split(line)
    except ValueError:
        return False
    return True


def flow_list(words: Sequence[str]) -> str:
    """The words as a list of texts on one line of a job file."""
    return f"[{', '.join(map(_scalar, words))}]"


def _scalar(word: str) -> str:
    word = word.replace("${", "$${")
    if _PLAIN.fullmatch(word) and not _OTHER_TYPE.fullmatch(word):
        return word
    return json.dumps(word, ensure_ascii=not word.isprintable())
