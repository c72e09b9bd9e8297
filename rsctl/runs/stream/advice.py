"""The advice that the message of an error itself contains, as many libraries write it.

Sources: messages of torch, transformers, accelerate, datasets, DeepSpeed, Lightning and JAX.
"""

from __future__ import annotations

import re

_LONGEST = 200
_SENTENCES = re.compile(r"(?<=[.!?:;]) +|\n+|(?<=[^\s,])(?=Please )")
_VERBS = (
    r"try|consider|make sure|ensure|set|use|pass|install|reinstall|run|add|increase|decrease"
    r"|reduce|lower|raise|specify|provide|check|upgrade|update|downgrade|enable|disable|call"
    r"|change|remove|delete|rename|move|convert|load|save|choose|wrap|export|restart"
)
_ADVICE = re.compile(
    rf"(?i:please|(?:instead, )?(?:{_VERBS})(?= )(?! (?:to|of|is|was|failed|ids?|error)\b)"
    r"|hint: |you (?:can|could|may|should|must|need|have) |did you mean to )"
    rf"|(?:To|In order to|If) [^\n,]{{1,100}}, (?:please|you|(?:{_VERBS})\b)"
)
_AT_END = re.compile(
    rf"(?i), (please [^\n]{{8,300}}|(?:{_VERBS}) [^\n]{{4,200}} instead\b[^\n]{{0,60}})"
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
