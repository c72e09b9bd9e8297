"""The examples of pipelines, and the scripts in them."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any, NamedTuple

import yaml

TOP = Path(__file__).parents[2]
FOLDER = TOP / "examples" / "ci"


class Pipeline(NamedTuple):
    """What a CI system runs: scripts in their order, and those that it runs whatever happened."""

    name: str
    scripts: list[str]
    afterwards: list[str]


def load(path: str) -> Any:
    return yaml.safe_load((FOLDER / path).read_text())


def github() -> Pipeline:
    steps = {
        step["name"]: step["run"] for step in load("github-action/action.yml")["runs"]["steps"]
    }
    afterwards = ("End what still runs", "Comment")
    return Pipeline("github", [steps["Gate"]], [steps[name] for name in afterwards])


def gitlab() -> Pipeline:
    """As GitLab's runner starts it (gitlab-runner#27668): bash ends such an `eval` with 1 in place
    of the code of a command that `set -e` stops at.
    """
    gate = load("gitlab/.gitlab-ci.yml")[".gate"]
    script = shlex.quote("\n".join(gate["script"]))
    started = f"set -eo pipefail\n: | eval {script}\nexit 0"
    return Pipeline("gitlab", [started], gate["after_script"])


def cloud_build() -> Pipeline:
    steps = load("cloud-build/cloudbuild.yaml")["steps"]
    return Pipeline("cloud-build", [step["script"] for step in steps], [])


def codebuild() -> Pipeline:
    build = load("codebuild/buildspec.yml")["phases"]["build"]
    return Pipeline("codebuild", build["commands"], build["finally"])


def jenkins() -> Pipeline:
    text = (FOLDER / "jenkins" / "Jenkinsfile").read_text()
    before, _, after = text.partition("    post {")
    return Pipeline(
        "jenkins", re.findall(r"script: '(.*)'", before), re.findall(r"\bsh '(.*)'", after)
    )


ALL = [github(), gitlab(), cloud_build(), codebuild(), jenkins()]
