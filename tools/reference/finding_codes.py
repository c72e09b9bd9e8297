"""The page of finding codes; the codes are collected from the source by its syntax.

A code is what is passed for a parameter or field called `code`: a literal, a constant, or a choice
of these. What is passed on from elsewhere (`cause.code`) is collected where it was first written.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import yaml

DESCRIPTIONS = Path(__file__).parent / "findings.yaml"

_CODE = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")
_IN_SCRIPT = re.compile(r'"code": *"([a-z-]+)"')
_EMULATORS = "emulator"
"""The folder with the codes of clouds; its calls of `error` are findings."""

_SEVERITIES = ("error", "warning", "note")

Positions = dict[str, set[int]]
"""By the name of a function or class, where its parameter `code` may stand; -1: by keyword only."""


def page(root: Path) -> str:
    """The page, by what stands in `findings.yaml`. Raises LookupError if it is incomplete."""
    groups: dict[str, dict[str, str]] = yaml.safe_load(DESCRIPTIONS.read_text())
    found = collect(root / "rsctl")
    described = {code for group in groups.values() for code in group}
    if described != found.keys():
        lacking, stale = sorted(found.keys() - described), sorted(described - found.keys())
        raise LookupError(f"{DESCRIPTIONS}: lacks {lacking}, has {stale} for nothing")
    lines = [
        "# Finding codes\n",
        "rsctl reports every problem as a finding. Its `code` is stable, so pipelines can use it.",
        "An **error** ends the command with the exit code in the table, a **warning** needs your",
        "attention, and a **note** is for information. If a code has several exit codes, the exit",
        "code depends on the command. Errors of a node, which fail its job, have exit code 1. If",
        "a program such as `git` fails, the code is the program's name.",
    ]
    for title, group in groups.items():
        lines += [f"\n## {title}\n", "| code | severity | exit code | meaning |"]
        lines.append("|---|---|---|---|")
        for code, text in group.items():
            exits, _, about = text.partition("| ")
            severity = ", ".join(s for s in _SEVERITIES if s in found[code])
            lines.append(f"| `{code}` | {severity} | {', '.join(exits.split())} | {about} |")
    return "\n".join(lines) + "\n"


def collect(package: Path) -> dict[str, set[str]]:
    """The codes with their severities."""
    modules = {path: ast.parse(path.read_text()) for path in sorted(package.rglob("*.py"))}
    positions: Positions = {}
    shared: dict[str, str] = {}
    for path, tree in modules.items():
        if _EMULATORS not in path.parts:
            _add_positions(tree, positions)
            shared |= _constants(tree)
    found: dict[str, set[str]] = {}
    for path, tree in modules.items():
        constants = {**shared, **_constants(tree)}
        for node in ast.walk(tree):
            if _EMULATORS in path.parts and not _is_finding(node):
                continue
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                for code in _IN_SCRIPT.findall(node.value):
                    found.setdefault(code, set()).add("error")
            elif isinstance(node, ast.Call):
                for code in _codes_of(node, positions, constants):
                    found.setdefault(code, set()).update(_severity(node))
            elif isinstance(node, ast.Dict):
                for code in _codes_of_record(node, constants):
                    found.setdefault(code, set()).add(_severity_of_record(node))
    return found


def _add_positions(tree: ast.Module, positions: Positions) -> None:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef) and node.name != "__init__":
            names = [a.arg for a in node.args.args]
            names = names[1:] if names[:1] in (["self"], ["cls"]) else names
            if "code" in names:
                positions.setdefault(node.name, set()).add(names.index("code"))
            elif "code" in [a.arg for a in node.args.kwonlyargs]:
                positions.setdefault(node.name, set()).add(-1)
        elif isinstance(node, ast.ClassDef):
            fields = [
                line.target.id
                for line in node.body
                if isinstance(line, ast.AnnAssign) and isinstance(line.target, ast.Name)
            ]
            init = next((m for m in node.body if _is_init(m)), None)
            if isinstance(init, ast.FunctionDef):
                fields = [argument.arg for argument in init.args.args[1:]]
            if "code" in fields:
                positions.setdefault(node.name, set()).add(fields.index("code"))


def _is_init(member: ast.stmt) -> bool:
    return isinstance(member, ast.FunctionDef) and member.name == "__init__"


def _constants(tree: ast.Module) -> dict[str, str]:
    constants: dict[str, str] = {}
    for node in tree.body:
        if isinstance(node, ast.Assign):
            for target in node.targets:
                for name, value in _pairs(target, node.value):
                    if isinstance(value, ast.Constant) and isinstance(value.value, str):
                        constants[name] = value.value
    return constants


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """Names and what they are bound to: `a = 1` or `a, b = 1, 2`."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple):
        for inner, item in zip(target.elts, value.elts, strict=False):
            yield from _pairs(inner, item)


def _is_finding(node: ast.AST) -> bool:
    return (
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id in _SEVERITIES
    )


def _name(function: ast.expr) -> str:
    if isinstance(function, ast.Attribute):
        return function.attr
    return function.id if isinstance(function, ast.Name) else ""


def _codes_of(call: ast.Call, positions: Positions, constants: dict[str, str]) -> Iterator[str]:
    for position in positions.get(_name(call.func), ()):
        if 0 <= position < len(call.args):
            yield from _texts(call.args[position], constants)
    if _name(call.func) in positions:
        for keyword in call.keywords:
            if keyword.arg == "code":
                yield from _texts(keyword.value, constants)


def _codes_of_record(record: ast.Dict, constants: dict[str, str]) -> Iterator[str]:
    for key, value in zip(record.keys, record.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "code":
            yield from _texts(value, constants)


def _severity_of_record(record: ast.Dict) -> str:
    for key, value in zip(record.keys, record.values, strict=True):
        if isinstance(key, ast.Constant) and key.value == "severity":
            return value.value if isinstance(value, ast.Constant) else "error"
    return "error"


def _texts(value: ast.expr, constants: dict[str, str]) -> Iterator[str]:
    if isinstance(value, ast.Constant):
        if isinstance(value.value, str) and _CODE.fullmatch(value.value):
            yield value.value
    elif isinstance(value, ast.Name):
        text = constants.get(value.id, "")
        if _CODE.fullmatch(text):
            yield text
    elif isinstance(value, ast.BoolOp):
        for option in value.values:
            yield from _texts(option, constants)
    elif isinstance(value, ast.IfExp):
        yield from _texts(value.body, constants)
        yield from _texts(value.orelse, constants)


def _severity(call: ast.Call) -> Iterator[str]:
    """The severity of a call. Tables have errors, except causes of failed jobs, which are notes."""
    name = _name(call.func)
    given = [*call.args[:1], *(k.value for k in call.keywords if k.arg == "severity")]
    constants = [v.value for v in given if isinstance(v, ast.Constant) and v.value in _SEVERITIES]
    if name in _SEVERITIES:
        yield name
    elif constants:
        yield str(constants[0])
    elif any(k.arg == "is_error" and ast.unparse(k.value) == "False" for k in call.keywords):
        yield "warning"
    elif name == "Finding":  # as the caller of this function decides
        yield from ("error", "warning")
    else:
        yield "note" if name == "cause" else "error"
