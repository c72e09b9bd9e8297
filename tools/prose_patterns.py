"""What tools/prose.py looks for, each with what to write instead."""

from __future__ import annotations

import re

_TABLE = {
    # Negations
    r"(?<![Tt]here\s)\b(?:is|are|was|were) no\b(?! (?:longer|more|less|fewer|later))(?: \w+)?": (
        "is not a valid X, or: has no X"
    ),
    r"(?<![Tt]here\s)\b(?:is|are|was|were) none\b": "is not a X; there is no X",
    r"\bany more(?! \w+s\b)": "no longer",
    r"\b(?:is|are|was|were) not there\b": "does not exist",
    r"\b(?:is|are|was|were) there already\b": "already exists",
    r"\bfor want of\b": "because there is too little",
    # Persons
    r"(?i)\b(?:nobody|anybody|somebody|everybody|whoever|whomever)\b": (
        "name the person or the program: you, the user, a process, a caller"
    ),
    r"(?i)\bwhat(?:so)?ever\b": "any, all, or name the thing",
    r"\bof (?:others|ours|theirs|yours|mine)\b": "say whose: rsctl's, your, another owner's",
    # Headless relatives
    r"\A(?:What|Those|That of|Of)\b": "start with a noun or a verb",
    r"\bwhat (?:it|they) (?:lacks?|has|have|needs?|brings?)\b": "name the thing",
    r"(?i)\bwhat (?:becomes?|became|comes?|came) of\b": "the result of",
    r"(?i)\bwhat is (?:none|left|missing|new|there|lacking|lost)\b": "name the thing",
    r"\bwho (?:has|have) (?:it|them)\b": "name the owner",
    r"\b(?:all|everything) that is wrong\b": "all errors",
    r"\b[Ff]or (?:those )?who\b": "for callers that, or: for users who",
    r"\bwhat there is\b|\b[Bb]y what to\b": "name the thing",
    r"\bas (?:\w+ )?\w+ (?:has|have) (?:it|them)\b": "as in X",
    # Words and idioms
    r"(?i)\banew\b": "again",
    r"\b(?:is|are|was|were|be|been) told\b|\b[Tt]old by\b": (
        "prints, shows, gets, or: distinguishes by"
    ),
    r"\b(?:is|are|was|were) to (?:be|have|run|stop|start|end|do|go)\b": "must, or: will",
    r"\b(?:is|are|was|were|not|be) to be had\b": "available",
    r"\b(?:is|are) (?:that|those) of\b": "repeat the noun",
    r"\ball the same\b": "anyway",
    r"\bonce more\b": "again",
    r"\bof late\b": "recently",
    r"\bif need be\b": "if necessary, or: if it does not exist",
    r"\bbe (?:it|they)\b": "even if, or: whether",
    r"(?i)\bpure but for\b": "pure except for",
    r"\bat the most\b": "at most",
    r"\bin (?:its|their) wake\b": "as a result",
    r"\band the like\b": "and similar X",
    r"\blook(?:s|ed|ing)? after\b": "manage, update, monitor",
    r"\b(?:[Ll]og-ins?)\b": "login, or: credentials",
    r"\b(?:goes|went|going) on\b|\bgo on\b(?! the| a )": "continue, or: is in progress",
    r"\b(?:lay|lays|laid) over\b": "merge into, or: override",
    r"(?:[.;:,—] |^)[Ee]lse,? (?!if\b)": "otherwise",
    r"\b[Mm]ended\b": "fixed",
    r"\bbroke(?:n)? off\b|\bbreaks? off\b": "interrupt, or: close the connection",
    r"\bbears? with\b": "tolerate",
    r"\binsists? on\b": "require",
    r"\b[Tt]ake (?:another|other|one|none)\b": "use another X",
}

PATTERNS = [(re.compile(r"\s+".join(p.split(" "))), advice) for p, advice in _TABLE.items()]
