"""Calls of an SDK as data: one description that is both executed and printed as Python."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from rsctl.findings import ExitCode, RsctlError, error
from rsctl.installation import install_command
from rsctl.targets.variables import TOKEN

_WIDTH = 99


class SdkCall(NamedTuple):
    """A function or class of an SDK by name, and its keyword arguments."""

    function: str
    arguments: dict[str, Any]


class CodeExpression(NamedTuple):
    """A value that the printed code obtains by itself, such as a secret."""

    text: str


def secret(name: str) -> CodeExpression:
    """How printed code obtains values that a plan does not show."""
    return CodeExpression("token" if name == TOKEN else f"os.environ[{_literal(name)}]")


def execute(value: Any, functions: Mapping[str, Any]) -> Any:
    """The value with all calls in it made; `functions` are the SDK's by name."""
    if isinstance(value, SdkCall):
        arguments = {k: execute(v, functions) for k, v in value.arguments.items()}
        return functions[value.function](**arguments)
    if isinstance(value, dict):
        return {key: execute(item, functions) for key, item in value.items()}
    if isinstance(value, list):
        return [execute(item, functions) for item in value]
    return value


def python_code(value: Any) -> str:
    """The value as Python, on one line if it fits and is simple, otherwise one item per line.

    Raises ValueError for names that `invalid_names` finds: printed unchanged, they would be
    injected code.
    """
    if wrong := next(invalid_names(value), None):
        raise ValueError(f"{wrong} is not a valid name in Python")
    return _python_code(value, 0)


def invalid_names(value: Any) -> Iterator[str]:
    """The functions and arguments that are not valid names in Python, in quotes.

    They are keys of a request, to which an overlay can give any text.
    """
    for part in _parts(value):
        if isinstance(part, SdkCall):
            for name in (*part.function.split("."), *part.arguments):
                if not name.isidentifier() or keyword.iskeyword(name):
                    yield repr(name)


def _parts(value: Any) -> Iterator[Any]:
    """The value, and all values in it."""
    yield value
    inner = value.arguments if isinstance(value, SdkCall) else value
    if isinstance(inner, (dict, list)):
        for item in inner.values() if isinstance(inner, dict) else inner:
            yield from _parts(item)


def _python_code(value: Any, indent: int) -> str:
    if isinstance(value, CodeExpression):
        return value.text
    if not isinstance(value, (SdkCall, dict, list)):
        return _literal(value)
    short = _joined(value, indent, ", ", "", "")
    if indent + len(short) <= _WIDTH and "\n" not in short:
        return short
    pad = " " * (indent + 4)
    return _joined(value, indent + 4, f",\n{pad}", f"\n{pad}", f",\n{' ' * indent}")


def names_in(value: Any) -> set[str]:
    """The functions that a value calls."""
    return {part.function for part in _parts(value) if isinstance(part, SdkCall)}


def imports(modules: Mapping[str, set[str]]) -> list[str]:
    """`from MODULE import NAME, ...` of each module, broken where it is long."""
    lines = []
    for module, names in sorted(modules.items()):
        line = f"from {module} import {', '.join(sorted(names))}"
        if len(line) > _WIDTH:
            each = "".join(f"    {name},\n" for name in sorted(names))
            line = f"from {module} import (\n{each})"
        lines.append(line)
    return lines


def has_code(value: Any, text: str) -> bool:
    """Whether a piece of code begins some value's code; other texts may contain it."""
    codes = (part for part in _parts(value) if isinstance(part, CodeExpression))
    return any(code.text.startswith(text) for code in codes)


def snake(name: str) -> str:
    """`workerPoolSpecs` or `S3OutputPath` as `worker_pool_specs`, `s3_output_path`."""
    apart = re.sub(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])", "_", name)
    return apart.lower()


def snake_keys(value: Any) -> Any:
    """The value with its keys in Python's form."""
    if isinstance(value, list):
        return [snake_keys(item) for item in value]
    if not isinstance(value, dict):
        return value
    return {snake(key): snake_keys(item) for key, item in value.items()}


def _joined(value: Any, indent: int, between: str, before: str, after: str) -> str:
    if isinstance(value, SdkCall):
        opening, closing = f"{value.function}(", ")"
        items = [f"{k}={_python_code(v, indent)}" for k, v in value.arguments.items()]
    elif isinstance(value, dict):
        opening, closing = "{", "}"
        items = [f"{_literal(k)}: {_python_code(v, indent)}" for k, v in value.items()]
    else:
        opening, closing = "[", "]"
        items = [_python_code(item, indent) for item in value]
    if not items:
        return opening + closing
    return f"{opening}{before}{between.join(items)}{after}{closing}"


def _literal(value: Any) -> str:
    """A literal with double quotes where that needs no escapes."""
    text = repr(value)
    if isinstance(value, str) and text.startswith("'") and '"' not in text:
        return f'"{text[1:-1]}"'.replace("\\'", "'")
    return text


def missing_sdk(package: str) -> RsctlError:
    """The error if the vendor's SDK is not installed."""
    finding = error("sdk", f"{package} is not installed", install_command("sdk"))
    return RsctlError(ExitCode.ENVIRONMENT, finding)


def inexpressible(sdk: str, fields: list[str]) -> RsctlError:
    """The error for fields of a request that an SDK cannot express."""
    message = f"{sdk} cannot express {', '.join(fields)}"
    remedy = "submit the job with rsctl, which sends the request itself, or remove these fields"
    return RsctlError(ExitCode.USAGE, error("sdk", message, remedy))
