"""What tools/reference/generate.py collects from the source for the reference."""

from __future__ import annotations

import importlib.util
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import typer

from rsctl.cli.app import COMMANDS, make_program
from rsctl.findings import error
from rsctl.runs.stream.events import FindingEvent
from rsctl.runs.stream.ndjson import event_line

ROOT = Path(__file__).parents[1]
TOOLS = ROOT / "tools" / "reference"
JSON = ROOT / "docs" / "reference" / "json.md"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, TOOLS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ('error("plain", "no")', {"plain": {"error"}}),
        ('CODE = "constant"\nwarning(CODE, "no")', {"constant": {"warning"}}),
        ('A, B = "one", "two"\nnote(A if x else B, "no")', {"one": {"note"}, "two": {"note"}}),
        ('class Row:\n    exit: int\n    code: str\nRow(2, "table")', {"table": {"error"}}),
        ('{"rsctl": "finding", "code": "record"}', {"record": {"error"}}),
        ("""echo = '{"code": "script"}'""", {"script": {"error"}}),
        ('error(problem.code, "passed on")', {}),
    ],
)
def test_finding_codes(tmp_path: Path, source: str, found: dict[str, set[str]]) -> None:
    functions = "\n".join(f"def {n}(code, message): ..." for n in ("error", "warning", "note"))
    (tmp_path / "module.py").write_text(f"{functions}\n{source}\n")
    assert load("finding_codes").collect(tmp_path) == found


def test_the_reference_has_every_command_with_json() -> None:
    group = make_program()
    context = typer.Context(group)
    names = [
        f"{prefix}{name}"
        for prefix, commands in _all_commands(group, context)
        for name, command in commands.items()
        for option in command.params
        if option.name == "output" and "json" in getattr(option.type, "choices", ())
    ]
    assert len(names) > 30
    table = JSON.read_text().partition("| command |")[2].partition("\n## ")[0]
    shown = re.split(r", | -[-\w ]+|\n", "\n".join(re.findall(r"(?m)^\| (.*?) \|", table)))
    assert [name for name in names if name not in shown] == []


def _all_commands(group: Any, context: typer.Context) -> Iterator[tuple[str, dict[str, Any]]]:
    commands = {name: group.get_command(context, name) for name in COMMANDS}
    yield "", commands
    for name, command in commands.items():
        within = getattr(command, "list_commands", lambda _: ())(context)
        yield f"{name} ", {each: command.get_command(context, each) for each in within}
        yield f"{name} ", load("separate_commands").separate_commands(name)


def test_the_reference_has_every_field_of_a_finding_event() -> None:
    finding = error("code", "message", "remedy", "path")
    [line] = event_line(FindingEvent(time="now", finding=finding)).splitlines()
    section = JSON.read_text().partition("### `finding`")[2].partition("\n###")[0]
    assert re.findall(r"(?m)^\| `(\w+)`", section) == list(json.loads(line))[1:]


def test_variables(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('x["RSCTL_A"]\nx["AWS_B"]\nf"RSCTL_INPUT_{n}"\n"set RSCTL_C=1 or AWS_D"\n')
    names = {"RSCTL_A", "AWS_B", "RSCTL_INPUT_*", "RSCTL_C"}
    assert load("variables").collect([path]) == names
