"""The page of `rsctl.api`: signatures and docstrings."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from typing import Any

import rsctl.api

_PARTS = {"Event", "OnProgress", "BuildEvent", "ResultKind", "Stop", "CI_REPORTS"}
"""Names of unions, callables and tables, which have no docstring of their own."""


def page() -> str:
    """Every function and class, the functions first."""
    named = {name: getattr(rsctl.api, name) for name in rsctl.api.__all__ if name not in _PARTS}
    functions = {name: value for name, value in named.items() if not inspect.isclass(value)}
    classes = {name: value for name, value in named.items() if inspect.isclass(value)}
    lines = [
        "# Python\n",
        "Every function and class of `rsctl.api`. [Use rsctl from Python](../guides/python.md) has",
        "examples.\n",
    ]
    lines += ["## Functions\n", *(_function(name, value) for name, value in functions.items())]
    lines.append("## Classes\n")
    for name, value in classes.items():
        lines += _class(name, value)
    return "\n".join(lines)


def _function(name: str, function: Any) -> str:
    return f"### {name}\n\n```python\n{name}{_signature(function)}\n```\n\n{_doc(function)}\n"


def _class(name: str, value: Any) -> Iterator[str]:
    yield f"### {name}\n\n{_doc(value)}\n"
    fields = getattr(value, "__struct_fields__", getattr(value, "__dataclass_fields__", ()))
    if fields:
        yield f"Fields: {', '.join(f'`{field}`' for field in fields)}.\n"
    if not value.__module__.startswith("rsctl.api"):
        return
    for member, what in vars(value).items():
        if member.startswith("_"):
            continue
        if isinstance(what, property):
            yield f"- `{member}`: {_line(what)}"
        elif inspect.isfunction(what):
            yield f"- `{member}{_signature(what)}`: {_line(what)}"
    yield ""


class _Shown:
    """A value in a signature, as written in the code, without quotes or addresses."""

    def __init__(self, value: Any) -> None:
        self._text = value if isinstance(value, str) else value.__name__

    def __repr__(self) -> str:
        return str(self._text)


def _signature(function: Any) -> str:
    signature = inspect.signature(function)
    parameters = [_parameter(p) for p in signature.parameters.values() if p.name != "self"]
    returned = _Shown(signature.return_annotation)
    return str(signature.replace(parameters=parameters, return_annotation=returned))


def _parameter(parameter: inspect.Parameter) -> inspect.Parameter:
    if inspect.isfunction(parameter.default):
        parameter = parameter.replace(default=_Shown(parameter.default))
    return parameter.replace(annotation=_Shown(parameter.annotation))


def _doc(value: Any) -> str:
    return inspect.getdoc(value) or ""


def _line(value: Any) -> str:
    return " ".join(_doc(value).split())
