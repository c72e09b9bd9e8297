"""What tools/reference/generate.py collects from the source for the reference."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools" / "reference"


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


def test_variables(tmp_path: Path) -> None:
    path = tmp_path / "module.py"
    path.write_text('x["RSCTL_A"]\nx["AWS_B"]\nf"RSCTL_INPUT_{n}"\n"set RSCTL_C=1 or AWS_D"\n')
    names = {"RSCTL_A", "AWS_B", "RSCTL_INPUT_*", "RSCTL_C"}
    assert load("variables").collect([path]) == names
