"""Runs the commands that rsctl prints as the next ones, with no more than README installs."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from rsctl.data import template_names

from .pages import TOP, environment

pytestmark = pytest.mark.timeout(900)


class Shell:
    """A reader's shell in an empty folder."""

    def __init__(self, folder: Path, programs: Path, variables: dict[str, str]) -> None:
        self.folder = folder / "work"
        self.folder.mkdir()
        self.programs = programs
        self._env = {**environment(folder, programs), **variables}

    def __call__(self, line: str, code: int = 0) -> str:
        """All that a line of bash prints."""
        done = subprocess.run(
            ["bash", "-c", line],
            cwd=self.folder,
            env=self._env,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=600,
        )
        assert done.returncode == code, f"{line}\n{done.stdout}"
        return done.stdout


@pytest.fixture
def shell(tmp_path: Path, programs: Path, readers_forks: dict[str, str]) -> Shell:
    return Shell(tmp_path, programs, readers_forks)


def commands(printed: str) -> list[str]:
    """The commands of rsctl that end a sentence or a column, as in `report: rsctl report RUN`."""
    return re.findall(r"(?::|^ ) (rsctl .+?)(?=  |$)", printed, re.MULTILINE)


def test_what_make_quickstart_says_to_type(shell: Shell) -> None:
    for name in ("Makefile", "pyproject.toml", "constraints"):
        (shell.folder / name).symlink_to(TOP / name)
    shutil.copytree(TOP / "examples" / "quickstart", shell.folder / "examples" / "quickstart")
    job = shell.folder / "examples" / "quickstart" / "job.yaml"
    job.write_text(job.read_text().replace("epochs: 10\n", "epochs: 3\n"))
    (shell.programs.parent / ".for-jobs").touch()
    printed = shell(f"make VENV={shell.programs.parent} quickstart")
    ended, advice = printed.split("Type next:")
    assert "succeeded after" in ended
    found = commands(ended)
    assert [line.split()[1] for line in found] == ["report", "metrics", "get", "submit"]
    resume = found.pop()
    told = commands(advice)
    assert [line.split()[1] for line in told] == ["report", "submit"]
    (shell.folder / "SCRIPT.py").write_text("print('loss=1')\n")
    for line in [*found, *told]:
        shell(line)
    assert (shell.folder / "report.html").read_text().count("<figure") > 5
    learnt = re.search(r"^  accuracy (0\.\d+)", ended, re.MULTILINE)
    assert learnt
    assert float(learnt[1]) > 0.9
    assert [path.name for path in shell.folder.rglob("model.pt")] == ["model.pt"]
    assert "resumed from " in shell(resume)


def test_what_a_failed_run_says_to_type(shell: Shell) -> None:
    (shell.folder / "train.py").write_text("print('loss=1')\nraise ValueError('mine')\n")
    printed = shell("rsctl submit train.py --set run.launcher=once", code=1)
    found = commands(printed)
    assert [line.split()[1] for line in found] == ["logs", "report"]
    assert "ValueError: mine" in "".join(shell(line) for line in found)


@pytest.mark.parametrize("template", template_names())
def test_what_init_says_to_type(shell: Shell, template: str) -> None:
    printed = shell(f"rsctl init {template}")
    (line,) = re.findall(r"^next: (.+)$", printed, re.MULTILINE)
    for command in line.split(" && "):
        if command == "pip install webdataset":
            continue  # needs a network
        if re.match(r"rsctl (submit|bench run) ", command):
            # The jobs themselves run in tests/targets/templates.
            command = re.sub(r"^rsctl (submit|bench run) ", "rsctl plan ", command)
        shell(command)
