"""What runs before a commit is what `make lint` runs, and nothing of it is fetched."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

TOP = Path(__file__).parents[1]
CONFIG = TOP / ".pre-commit-config.yaml"
FORMS = sorted((TOP / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))


def hooks() -> list[dict[str, Any]]:
    repositories = yaml.safe_load(CONFIG.read_text())["repos"]
    assert [repository["repo"] for repository in repositories] == ["local"]
    return [hook for repository in repositories for hook in repository["hooks"]]


def test_pre_commit_accepts_its_configuration() -> None:
    command = [sys.executable, "-m", "pre_commit", "validate-config", str(CONFIG)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "")


def test_each_check_of_make_lint_is_a_hook() -> None:
    recipe = re.search(r"^lint:.*\n((?:\t.*\n)+)", (TOP / "Makefile").read_text(), re.M)
    assert recipe is not None
    checks = [line.strip().replace("$(BIN)", ".venv/bin") for line in recipe[1].splitlines()]
    assert len(checks) > 4
    assert set(checks) <= {hook["entry"] for hook in hooks()}


def test_hooks_check_the_whole_project_from_its_environment() -> None:
    for hook in hooks():
        assert hook["language"] == "system"
        assert hook["pass_filenames"] is False
        assert hook["entry"].startswith(".venv/bin/")


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.name)
def test_an_issue_form_is_one_of_github(path: Path) -> None:
    schema = "github-issue-config" if path.name == "config.yml" else "github-issue-forms"
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", f"vendor.{schema}"]
    done = subprocess.run([*command, str(path)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
