"""What tools/prose.py finds, and what it leaves alone."""

from __future__ import annotations

import importlib
from pathlib import Path
from types import ModuleType

import pytest

TOOLS = Path(__file__).parents[1] / "tools"


@pytest.fixture
def prose(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(TOOLS))
    return importlib.import_module("prose")


@pytest.mark.parametrize(
    ("name", "text", "hits"),
    [
        ("docs.md", "first\nA run is no bench.\n", ["2:7: 'is no bench'"]),
        ("docs.md", "There is no run, and it is no longer there.\n", []),
        ("docs.md", "```\nis no run\n```\n`is no run`\n", []),
        ("data.yaml", "code: Used by nobody.\n", ["1:15: 'nobody'"]),
        ("a.py", '"""Used by nobody.\n\nRead anew."""\n', ["1:12: 'nobody'", "3:6: 'anew'"]),
        ("a.py", 'error("a", f"{name} is no {kind}")\n', ["1:21: 'is no'"]),
        ("a.py", 'error("a", "it goes "\n"on and on")\n', ["1:16: 'goes on'"]),
        ("a.py", "x = 1  # read anew\n", ["1:15: 'anew'"]),
        ("a.py", 're.compile("is no file")\nanew = nobody\n', []),
        ("emulator/a.py", '"""Again."""\nraise Refused("it is no job")\n', []),
    ],
)
def test_hits(prose: ModuleType, tmp_path: Path, name: str, text: str, hits: list[str]) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    found = [hit.removeprefix(f"{path}:").rsplit(": ", 1)[0] for hit in prose.check(path)]
    assert [hit.split("': ")[0].rstrip("'") + "'" for hit in found] == hits


def test_output(prose: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wrong, right = tmp_path / "wrong.md", tmp_path / "right.md"
    wrong.write_text("Read anew.\n")
    right.write_text("Read again.\n")
    assert prose.main([str(wrong), str(right)]) == 1
    assert capsys.readouterr().out == f"{wrong}:1:6: 'anew': again\n"
    assert prose.main([str(right)]) == 0
    assert capsys.readouterr().out == ""
