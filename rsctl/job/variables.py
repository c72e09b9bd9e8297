"""Substitutes `${VAR}` and `${VAR:-default}` in the values of a spec."""

from __future__ import annotations

import re
from collections.abc import Mapping

from msgspec.structs import replace

from rsctl.job.yaml_tree import Position, Scalar, shorten

_VARIABLE = re.compile(r"\$(\$)(?=\{)|\$\{([^}]*)(\}?)")
_INSIDE = re.compile(r"([A-Za-z_][A-Za-z0-9_]*)(?:(:-)((?:(?!\$\{).)*))?", re.DOTALL)


class VariableError(Exception):
    """A variable that cannot be replaced."""

    def __init__(self, mark: Position, message: str, remedy: str) -> None:
        super().__init__(message)
        self.mark = mark
        self.message = message
        self.remedy = remedy


def substitute(node: Scalar, environ: Mapping[str, str]) -> Scalar:
    """A scalar with its variables replaced; `$${` stands for a literal `${`.

    Like in a shell, `:-` also takes the default for a variable that is set but empty. Raises
    VariableError for an unset variable without a default.
    """
    taken: list[str] = []

    def value_of(match: re.Match[str]) -> str:
        if match[1]:
            return "$"
        inside = _INSIDE.fullmatch(match[2])
        if not inside or not match[3]:
            raise _malformed(_at(node, match.start()), match[0])
        name, has_default, default = inside.groups()
        value = environ.get(name)
        if value or (value is not None and not has_default):
            taken.append(name)
            return value
        if has_default:
            return default or ""
        raise _unset(_at(node, match.start()), shorten(name))

    text, count = _VARIABLE.subn(value_of, node.text)
    if not count:
        return node
    return replace(
        node, text=text, substituted=True, from_environment=bool(taken), taken=tuple(taken)
    )


def _malformed(mark: Position, text: str) -> VariableError:
    return VariableError(
        mark,
        f"{shorten(text)!r} is not a valid variable",
        "write ${NAME}, ${NAME:-default} without another variable in it, or $${ for a literal ${",
    )


def _unset(mark: Position, name: str) -> VariableError:
    return VariableError(
        mark,
        f"the environment variable {name} is not set",
        f"set it, write ${{{name}:-default}}, or write $${{{name}}} to pass it on unchanged",
    )


def _at(node: Scalar, index: int) -> Position:
    """The position of a character, if the file contains the text unchanged; otherwise the
    text's.
    """
    if node.offset is None:
        return node.mark
    return replace(node.mark, column=node.mark.column + node.offset + index)
