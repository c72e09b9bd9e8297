"""The advice that the message of an error itself contains, as many libraries write it.

Sources: messages of torch, transformers, accelerate, datasets, DeepSpeed, Lightning and JAX.
"""

from __future__ import annotations

import re

_LONGEST = 200
_SENTENCES = re.compile(r"(?<=[.!?:;]) +|\n+|(?<=[^\s,])(?=Please )")
_CLEAR = r"try|consider|make sure|ensure|use|set|pass|install|specify|provide"
"""Verbs that begin advice in lower case, too; others may begin a name or a piece of code."""

_VERBS = (
    r"Reinstall|Run|Add|Increase|Decrease|Reduce|Lower|Raise|Check|Upgrade|Update|Downgrade"
    r"|Enable|Disable|Call|Change|Remove|Delete|Rename|Move|Convert|Load|Save|Choose|Wrap|Export"
    r"|Restart"
)
_ADVICE = re.compile(
    rf"(?:(?i:please|(?:instead, )?(?:{_CLEAR})(?= ))|(?:{_VERBS})(?= ))"
    r"(?! (?:to|of|is|was|failed|ids?|error)\b)"
    r"|(?i:hint: |you (?:can|could|may|should|must|need|have) |did you mean to )"
    rf"|(?:To|In order to|If) [^\n,]{{1,100}}, (?i:please|you|{_CLEAR}|{_VERBS})\b"
)
_AT_END = re.compile(
    rf", ((?i:please) [^\n]{{8,300}}|(?:{_CLEAR}) [^\n]{{4,200}} instead\b[^\n]{{0,60}})"
)
_NO_ADVICE = re.compile(
    r"(?i:report|issue|\bbug\b|suppress|debug|for (?:more|further|full|details)|stack ?trace"
    r"|verbose|re-?open|contact|please (?:see|refer|visit|read|consult|look|search|wait)"
    r"|(?:see|refer to|visit|read|check) (?:the |our )?(?:doc|https?:|log|readme))"
)


def find_advice(text: str) -> str:
    """The first sentence of a message that says what to do, in one line; empty if none does."""
    for sentence in _SENTENCES.split(text):
        line = " ".join(sentence.split())
        if not _ADVICE.match(line):
            at_end = _AT_END.search(line)
            line = at_end[1] if at_end else ""
        if line and not _NO_ADVICE.search(line):
            return line if len(line) <= _LONGEST else f"{line[: _LONGEST - 3]}..."
    return ""


def advised(remedy: str, advice: str) -> str:
    """A remedy for errors of a kind, after the advice of this one, if its message has any."""
    if not advice:
        return remedy
    return f"follow the advice in its message: {advice}; if that does not help, {remedy}"
