"""Finds secrets from the environment in keys of the spec that do not keep them secret.

`run.env`, `chief.env` and `roles.NAME.env` alone keep what comes from the environment out of plans,
logs and saved runs. Anywhere else it becomes part of the request: seen in `plan`, saved with the
run, on a command line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Mapping as Environ
from typing import Optional

from msgspec.structs import replace

from rsctl.findings import Finding, first_of
from rsctl.job.env_checks import visible_secret
from rsctl.job.secret_names import (
    has_secret,
    is_secret,
    is_secret_name,
    public_text,
    secret_arguments,
)
from rsctl.job.yaml_tree import Mapping, Node, Scalar, last_name, name_of_value
from rsctl.job.yaml_tree import Sequence as Sequence_


def secret_outside_env(node: Scalar, environ: Environ[str, str], path: str) -> Finding | None:
    """A finding for a value with variables from the environment, in a key that is not kept secret.

    An error where a value has the form of a known kind of secret, a warning where only the name
    of the variable or of the key suggests it.
    """
    remedy = "put it in run.env, which is never saved or shown, and read it from there"
    consequence = "in the plan, in the saved run, and on a command line"
    for name in node.taken:
        if has_secret(environ.get(name, "")):
            message = (
                f"the value of ${{{name}}} is a secret, and here it would be visible {consequence}"
            )
            return node.mark.error("secret", message, remedy, path)
    for name in node.taken:
        if is_secret_name(name):
            if path.startswith(("image.run[", "image.python[")):
                found = visible_secret("it", path)
                return node.mark.error(found.code, found.message, found.remedy, path)
            message = f"${{{name}}} looks like a secret, and here it is visible {consequence}"
            return node.mark.warning("secret", message, remedy, path)
    if is_secret_name(last_name(path)):
        message = f"{path} looks like a secret, and its value is visible {consequence}"
        return node.mark.warning("secret", message, remedy, path)
    return None


def note_of_values(taken: Sequence[tuple[Scalar, str]]) -> Finding:
    """The note that values from the environment are visible, regardless of their variables'
    names.
    """
    names = {name: path for node, path in reversed(taken) for name in node.taken}
    shown = [f"${{{name}}} ({path})" for name, path in reversed(names.items())]
    message = (
        "the plan and the saved run show the values of these environment variables: "
        f"{first_of(shown, 5)}"
    )
    node, path = taken[0]
    remedy = "put secrets in run.env, which is never saved or shown, and read them from there"
    return replace(node.mark.warning("secret", message, remedy, path), severity="note")


def literal_secrets(root: Mapping) -> Iterator[Finding]:
    """Warnings for secrets that the file has in the arguments of a command, or in the options of a
    target, which become part of its request.
    """
    blocks = [("run", root), ("chief", root)]
    roles = root.entries.get("roles")
    if roles is not None and isinstance(roles.value, Mapping):
        blocks += [(name, roles.value) for name in roles.value.entries]
    for name, parent in blocks:
        block = parent.entries.get(name)
        path = name if parent is root else f"roles.{name}"
        for key in ("args", "command"):
            if block is not None and isinstance(block.value, Mapping):
                entry = block.value.entries.get(key)
                if entry is not None:
                    yield from _literals(
                        _arguments(entry.value, f"{path}.{key}"),
                        "argument",
                        ", the job or its command line",
                    )
    targets = root.entries.get("targets")
    if targets is not None:
        found = _options(targets.value, None, "targets")
        named = (
            (value, None if _OWN_OPTION.fullmatch(path) else name, path)
            for value, name, path in found
        )
        yield from _literals(named, "value", " or the job")


def _literals(found: Iterable[_Argument], kind: str, seen_in: str) -> Iterator[Finding]:
    """Warnings for the secrets among values. Values with `${VAR}` have warnings of their own."""
    for value, name, where in found:
        if "${" in value.text:
            continue
        if name is not None:
            what = f"{name} looks like a secret written in the file"
        elif public_text(value.text) != value.text:
            what = f"this {kind} has the form of a secret"
        else:
            continue
        remedy = "put it in run.env as ${VAR}, and let the script read it from its environment"
        message = f"{what}; anyone who sees the plan{seen_in} can read it"
        yield value.mark.warning("secret", message, remedy, where)


def _options(node: Node, name: str | None, path: str) -> Iterator[_Argument]:
    """All values below a key, each with its name if that is one of a secret."""
    if isinstance(node, Scalar):
        is_named = name is not None and is_secret(name, str(node.value))
        yield node, name if is_named else None, path
    elif isinstance(node, Sequence_):
        is_named = name is not None and is_secret_name(name)
        if not is_named and all(isinstance(item, Scalar) for item in node.items):
            yield from _listed_arguments(node, path)
            return
        for index, item in enumerate(node.items):
            yield from _options(item, name, f"{path}[{index}]")
    else:
        for key, entry in node.entries.items():
            yield from _options(entry.value, name_of_value(node, key), f"{path}.{key}")


_OWN_OPTION = re.compile(r"targets\.\w+\.\w+")
"""The path of an option that rsctl defines, such as encryption_key: none is a secret's."""
_Argument = tuple[Scalar, Optional[str], str]
"""A value; the argument's name if that is one of a secret; and the path to report."""


def _arguments(node: Node, path: str) -> Iterator[_Argument]:
    if isinstance(node, Mapping):
        for name, entry in node.entries.items():
            values = entry.value.items if isinstance(entry.value, Sequence_) else (entry.value,)
            scalars = (value for value in values if isinstance(value, Scalar))
            yield from (_named_argument(value, name, path) for value in scalars)
    elif isinstance(node, Sequence_):
        yield from _listed_arguments(node, path)


def _named_argument(value: Scalar, name: str, path: str) -> _Argument:
    if is_secret(name, str(value.value)):
        return value, name, f"{path}.{name}"
    return value, None, path


def _listed_arguments(node: Sequence_, path: str) -> Iterator[_Argument]:
    """In a list the name of a value stands in it, as --key=VALUE, or before it."""
    values = [item if isinstance(item, Scalar) else Scalar(item.mark, "") for item in node.items]
    named = {index: name for index, name, _ in secret_arguments([v.text for v in values])}
    for index, value in enumerate(values):
        name = named.get(index)
        yield value, name, path if name is None else f"{path}[{index}]"
