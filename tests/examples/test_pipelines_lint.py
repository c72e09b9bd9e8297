"""The examples of pipelines by the linters and schemas of their systems; no network."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest
import yaml

from .pipelines import ALL, FOLDER, TOP, Pipeline, load

BUILDSPEC = Path(__file__).with_name("buildspec.schema.json")
WORKFLOWS = [FOLDER / "github" / "benchmark.yml", TOP / ".github" / "workflows" / "ci.yml"]


def lint(*arguments: str | Path, stdin: str | None = None) -> str:
    """Run a linter of this environment; in CI it must be there. Returns what it printed."""
    name, *rest = map(str, arguments)
    path = shutil.which(name, path=f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}")
    if path is None and os.environ.get("CI") != "true":
        pytest.skip(f"needs {name}: pip install -e '.[dev]'")
    assert path is not None
    done = subprocess.run(
        [path, *rest], input=stdin, capture_output=True, text=True, timeout=120, cwd=TOP
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("schema", "files"),
    [
        (["vendor.github-workflows"], WORKFLOWS),
        (["vendor.github-actions"], [FOLDER / "github-action" / "action.yml"]),
        (
            ["vendor.gitlab-ci", "--data-transform", "gitlab-ci"],
            [FOLDER / "gitlab" / ".gitlab-ci.yml"],
        ),
        (["vendor.cloudbuild"], [FOLDER / "cloud-build" / "cloudbuild.yaml"]),
    ],
)
def test_schemas(schema: list[str], files: list[Path]) -> None:
    lint("check-jsonschema", "--builtin-schema", *schema, *files)


def test_workflows_are_safe() -> None:
    """zizmor: injections, permissions, actions that are not pinned, credentials that stay."""
    lint("zizmor", "--offline", "--no-progress", *WORKFLOWS, FOLDER / "github-action")


def test_the_buildspec_has_what_is_documented() -> None:
    """AWS publishes no schema; this one has what its user guide documents of version 0.2."""
    jsonschema.validate(load("codebuild/buildspec.yml"), json.loads(BUILDSPEC.read_text()))
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate({"version": 0.2, "phase": {}}, json.loads(BUILDSPEC.read_text()))


@pytest.mark.parametrize("pipeline", ALL, ids=lambda pipeline: pipeline.name)
def test_scripts_are_clean_bash(pipeline: Pipeline) -> None:
    assert pipeline.scripts
    for script in [*pipeline.scripts, *pipeline.afterwards]:
        lint("shellcheck", "--shell=bash", "-", stdin=script)


def test_all_steps_of_the_action_and_of_our_workflow_are_clean_bash() -> None:
    steps = load("github-action/action.yml")["runs"]["steps"]
    job = yaml.safe_load(WORKFLOWS[1].read_text())["jobs"]["tests"]
    for step in [*steps, *job["steps"]]:
        lint("shellcheck", "--shell=bash", "-", stdin=step.get("run", "true"))


def test_the_image_by_hadolint() -> None:
    lint("hadolint", FOLDER / "image" / "Dockerfile")


def test_the_jenkinsfile_is_balanced() -> None:
    """Only a Jenkins can lint one; strings and comments aside, brackets must match."""
    text = (FOLDER / "jenkins" / "Jenkinsfile").read_text()
    bare = re.sub(r"(?m)'[^'\n]*'|\"[^\"\n]*\"|//.*$", "", text)
    waiting = []
    for bracket in re.findall(r"[][(){}]", bare):
        if bracket in "([{":
            waiting.append({"(": ")", "[": "]", "{": "}"}[bracket])
        else:
            assert waiting.pop() == bracket
    assert waiting == []
    sections = re.findall(r"(?m)^ {4}(\w+) \{", text)
    assert sections == ["agent", "options", "environment", "stages", "post"]


@pytest.mark.parametrize(
    "path", sorted(p for p in FOLDER.rglob("*") if p.is_file()), ids=lambda path: path.name
)
def test_no_example_has_a_key_or_wants_one(path: Path) -> None:
    """Identities are exchanged for short-lived ones; nothing is installed by name from an index."""
    text = path.read_text()
    assert not re.search(r"AKIA|private_key|AWS_SECRET|credentials_json|service_account_key", text)
    assert not re.search(r"pip install.* rsctl", text)


def test_the_action_installs_the_rsctl_that_it_is_part_of() -> None:
    [step] = [s for s in load("github-action/action.yml")["runs"]["steps"] if "SOURCE" in str(s)]
    assert step["env"]["SOURCE"] == "${{ github.action_path }}/../../.."
    source = (FOLDER / "github-action" / ".." / ".." / "..").resolve()
    assert (source / "pyproject.toml").is_file()
    assert (source / "constraints" / "base.txt").is_file()


def test_the_workflow_of_this_repository_runs_what_ci_runs() -> None:
    workflow = yaml.safe_load(WORKFLOWS[1].read_text())
    jobs = workflow["jobs"]
    commands = {name: job["steps"][-1]["run"] for name, job in jobs.items()}
    assert commands == {
        "tests": "bash .ci/run",
        "coverage": "bash .ci/coverage",
        "torch-versions": 'bash .ci/torch-versions "$TORCH"',
        "python-versions": "bash .ci/python-versions python3",
    }
    assert jobs["tests"]["env"]["CI"] == "true"
    oldest = jobs["python-versions"]["strategy"]["matrix"]["python"][0]
    assert f'requires-python = ">={oldest}"' in (TOP / "pyproject.toml").read_text()
