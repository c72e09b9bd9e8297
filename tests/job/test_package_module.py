"""`run.module` of a `run.package` that is a folder: it is looked for where a build may take it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rsctl.job.document import read

JOB = """\
name: a
image: {uri: "a/b:1"}
run: {package: pkg, module: %s, launcher: none}
"""


def findings(folder: Path, module: str) -> list[tuple[str, str, str]]:
    (folder / "job.yaml").write_text(JOB % module)
    found = read(str(folder / "job.yaml"), ()).findings
    return [(f.path or "", f.message.partition(" in '")[0], f.remedy or "") for f in found]


@pytest.fixture
def package(tmp_path: Path) -> Path:
    folder = tmp_path / "pkg"
    for name in ("setup.py", "trainer/__init__.py", "trainer/task.py", "src/tools/__main__.py"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text("from setuptools import setup\n")
    return folder


@pytest.mark.parametrize("module", ["trainer.task", "tools", "src.tools", "setup"])
def test_what_python_can_run(tmp_path: Path, package: Path, module: str) -> None:
    assert findings(tmp_path, module) == []


@pytest.mark.parametrize(
    ("module", "remedy"),
    [
        ("trainer.tsk", "did you mean trainer.task?"),
        ("task", "did you mean trainer.task?"),
        ("trainer", "did you mean trainer.task?"),
        ("x.y", "use one of its modules"),
    ],
)
def test_what_is_not_there(tmp_path: Path, package: Path, module: str, remedy: str) -> None:
    """A package alone has to have a `__main__`; a module inside of one has its name in front."""
    assert findings(tmp_path, module) == [("run.module", f"module {module} does not exist", remedy)]


def test_folders_that_the_build_maps_are_not_judged(tmp_path: Path, package: Path) -> None:
    (package / "setup.py").write_text("setup(package_dir={'other': 'trainer'})\n")
    assert findings(tmp_path, "other.task") == []
