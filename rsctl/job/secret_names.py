"""Identifies names of secrets, and removes the values of such names from texts.

One rule for variables, arguments, keys and `--set`: it ignores case and treats `-`, `.` and `_` as
equal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

HIDDEN = "***"
"""The replacement for a secret."""

# Compiled when they are first used: most jobs need them not.
_NAME = (
    r"(?:(?:^|_)(?:TOKEN|SECRETS?|CREDENTIAL|PAT)|_PWD|PASSWORD|PASSWD|PASS_?PHRASE"
    r"|(?:API|ACCESS|SECRET|PRIVATE|ACCOUNT|ENCRYPTION|SIGNING)_?KEY)$"
)
# Tokens of a text or of a model, such as --eos-token.
_OF_A_TEXT = (
    r"(?:^|_)(?:BOS|EOS|PAD|UNK|SEP|CLS|MASK|SPECIAL|START|STOP|BEGIN|END|IMAGE|VIDEO|AUDIO|PER"
    r"|NEWLINE|SPLIT|FIM|PREFIX|SUFFIX|MIDDLE|THINK)_TOKEN$"
)
# Prefixes of tokens: see `_CONTENTS` in rsctl/images/exclusions.py for their source. Lengths are
# lower bounds, shorter than there: a text that is not shown costs less than a file that is missed.
_FORMS = (
    r"(?:\b(?:hf_[A-Za-z0-9]{20}|gh[pousr]_[A-Za-z0-9]{20}|github_pat_\w{20}|glpat-[\w-]{15}"
    r"|npm_[A-Za-z0-9]{30}|api_org_[A-Za-z]{30}|xapp-\d-[\w-]{10}|pypi-[\w-]{30}"
    r"|dckr_pat_[\w-]{20}|sk-[\w-]{20}|(?:xoxe\.)?xox[abeoprs]-[\w-]{10}"
    r"|(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}|AIza[\w-]{30}|ya29\.[\w-]{10}"
    r"|eyJ[\w-]{10,}\.eyJ[\w-]{10,}\.)"
    r"|-----BEGIN [A-Z ]*PRIVATE KEY|\bAuthorization: ?(?:Bearer|Basic|Token) +(?=[^\s$])"
    r"|://[^/@\s:]*:[^/@\s]+@)"
)
_REST_OF_TOKEN = r"[^\s'\",}\]]*"  # noqa: S105 - a pattern
_CAMEL = r"(?<=[a-z0-9])(?=[A-Z])"
_SHORTEST_FORM = 6
_FLAG = r"--?[A-Za-z][\w.-]*"
_ASSIGNED = r"(?P<name>[-+]{0,2}[A-Za-z][\w.-]*)="  # + and ++ are Hydra's
_VALUE = r"""(?P<value>"[^"]*"|'[^']*'|[^\s"']+)"""


def is_secret_name(name: str) -> bool:
    """Whether what has this name is taken for a secret, so that its value is never shown."""
    plain = re.sub(r"[-.]", "_", re.sub(_CAMEL, "_", name).lstrip("-+")).upper()
    return re.search(_NAME, plain) is not None and re.search(_OF_A_TEXT, plain) is None


def has_secret(text: str) -> bool:
    """Whether something in a text has the form of a known kind of secret."""
    return len(text) >= _SHORTEST_FORM and re.search(_FORMS, text) is not None


def without_known_secrets(text: str) -> str:
    """A text in which what has the form of a known kind of secret is hidden."""
    return re.sub(_FORMS + _REST_OF_TOKEN, HIDDEN, text)


def secret_arguments(arguments: Sequence[str]) -> Iterator[tuple[int, str, int]]:
    """The arguments that hold a secret by its name: index, the name, and where its value begins.

    They have the form `--NAME=VALUE`, `NAME=VALUE`, Hydra's `+NAME=VALUE`, or `--NAME` with its
    value as the next one.
    """
    before = None
    for index, text in enumerate(arguments):
        assigned = re.match(_ASSIGNED, text)
        if assigned:
            name, start = assigned["name"], assigned.end()
            if is_secret_name(name) and text[start:]:
                yield index, name, start
        elif before is not None and text and not re.fullmatch(_FLAG, text):
            yield index, before, 0
        before = text if re.fullmatch(_FLAG, text) and is_secret_name(text) else None


def public_arguments(arguments: Sequence[str]) -> list[str]:
    """A command line without the values of secrets."""
    shown = list(arguments)
    for index, _, start in secret_arguments(arguments):
        shown[index] = shown[index][:start] + HIDDEN
    return [public_text(text) for text in shown]


def public_text(text: str) -> str:
    """A text without the values that follow names of secrets, and without known kinds of secret."""
    if text.isalnum():
        return text

    def hide(found: re.Match[str]) -> str:
        is_secret = is_secret_name(found["name"])
        return found[0].removesuffix(found["value"]) + HIDDEN if is_secret else found[0]

    text = re.sub(rf"(?<![\w./-]){_ASSIGNED}{_VALUE}", hide, text)
    text = re.sub(rf"(?<!\S)(?P<name>{_FLAG})\s+(?!-){_VALUE}", hide, text)
    return without_known_secrets(text)


def public_document(value: Any) -> Any:
    """Plain data, such as a request, without the values of secrets in arguments and mappings."""
    if isinstance(value, str):
        return public_text(value)
    if isinstance(value, list):
        if value and all(isinstance(item, str) for item in value):
            return public_arguments(value)
        return [public_document(item) for item in value]
    if not isinstance(value, Mapping):
        return value
    named = value.get("name", value.get("Name"))
    is_variable = isinstance(named, str) and is_secret_name(named)
    return {
        name: HIDDEN
        if isinstance(item, (str, int, float))
        and not isinstance(item, bool)
        and (is_secret_name(str(name)) or (is_variable and str(name).lower() == "value"))
        else public_document(item)
        for name, item in value.items()
    }
